/// Tokenizers against what the real ones give for nasty text, and their contract.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <nullscope/core/errors.hpp>
#include <nullscope/text/tokenizer.hpp>
#include <random>
#include <thread>

#include "tests/text/tokenizer_expected.hpp"

namespace nullscope::test {
namespace {

const tokenizer& tokenizer_of(const std::string& kind) {
  static std::map<std::string, tokenizer> loaded;
  return loaded.try_emplace(kind, tokenizer_data() / kind).first->second;
}

class TokenizerTest : public testing::TestWithParam<std::string> {
 protected:
  const tokenizer& words = tokenizer_of(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerTest,
                         testing::Values("bert_uncased", "bert_cased", "mpnet", "gpt2", "gpt2_json"),
                         [](const auto& kind) { return kind.param; });

TEST_P(TokenizerTest, EncodesAsTheRealOne) {
  const std::vector<std::string> texts = nasty_texts();
  const nlohmann::json expected = expected_of(GetParam());
  ASSERT_GT(expected.at("cases").size(), 50u);
  for (const nlohmann::json& entry : expected.at("cases")) {
    encode_options options;
    if (entry.contains("pair")) options.pair = texts.at(entry["pair"]);
    if (entry.contains("max_length")) options.max_length = entry["max_length"].get<std::int64_t>();
    options.add_special_tokens = entry.value("add_special_tokens", true);
    const encoded_text found = words.encode(texts.at(entry.at("text")), options);
    const encoded_text wanted = to_encoded_text(entry);
    SCOPED_TRACE(entry.dump());
    ASSERT_EQ(found.ids, wanted.ids);
    EXPECT_TRUE(found.offsets == wanted.offsets);
    EXPECT_EQ(found.words, wanted.words);
    EXPECT_EQ(found.segments, wanted.segments);
    EXPECT_EQ(found.sources, wanted.sources);
    EXPECT_EQ(found.special_mask, wanted.special_mask);
    EXPECT_EQ(found.truncated, wanted.truncated);
  }
}

TEST_P(TokenizerTest, DecodesAsTheRealOne) {
  const std::vector<std::string> texts = nasty_texts();
  for (const nlohmann::json& entry : expected_of(GetParam()).at("decoded")) {
    const encoded_text encoded = words.encode(texts.at(entry.at("text")));
    EXPECT_EQ(words.decode(encoded.ids), entry.at("without_special").get<std::string>()) << entry.at("text");
    if (entry.contains("with_special")) {
      EXPECT_EQ(words.decode(encoded.ids, false), entry["with_special"].get<std::string>()) << entry.at("text");
    }
  }
}

TEST_P(TokenizerTest, NamesEveryTokenOfTheVocabulary) {
  EXPECT_EQ(words.vocabulary_size(), expected_of(GetParam()).at("vocabulary_size").get<std::int64_t>());
  for (std::int32_t id = 0; id < words.vocabulary_size(); ++id) EXPECT_EQ(words.id(words.token(id)), id);
  EXPECT_EQ(words.id("no such token"), std::nullopt);
}

TEST_P(TokenizerTest, RefusesIdsOutOfRange) {
  const std::int32_t size = static_cast<std::int32_t>(words.vocabulary_size());
  EXPECT_THROW(words.token(size), invalid_argument);
  EXPECT_THROW(words.token(-1), invalid_argument);
  EXPECT_THROW(words.decode(std::vector<std::int32_t>{0, size}), invalid_argument);
  EXPECT_FALSE(words.is_special(size));
}

TEST_P(TokenizerTest, RefusesLengthsWithoutRoomForSpecialTokens) {
  for (const bool is_pair : {false, true}) {
    encode_options options;
    if (is_pair) options.pair = "b";
    const std::int64_t least = std::max<std::int64_t>(words.special_token_count(is_pair), 1);
    options.max_length = least;
    EXPECT_EQ(std::ssize(words.encode("a b c", options).ids), least);
    options.max_length = least - 1;
    EXPECT_THROW(words.encode("a b c", options), invalid_argument);
    options.max_length = -5;
    EXPECT_THROW(words.encode("a b c", options), invalid_argument);
  }
}

/// Bytes that nobody chose: every token lies in the text, and in the vocabulary.
TEST_P(TokenizerTest, TakesAnyBytes) {
  std::mt19937 random(20);
  for (int round = 0; round < 400; ++round) {
    std::string text(random() % 200, '\0');
    for (char& c : text) c = static_cast<char>(random() % (round % 2 == 0 ? 256 : 128));
    const encoded_text encoded = words.encode(text, {.pair = text});
    for (std::size_t i = 0; i < encoded.ids.size(); ++i) {
      const text_range range = encoded.offsets[i];
      ASSERT_TRUE(0 <= range.begin && range.begin <= range.end && range.end <= std::ssize(text));
      ASSERT_TRUE(0 <= encoded.ids[i] && encoded.ids[i] < words.vocabulary_size());
    }
    ASSERT_NO_THROW(words.decode(encoded.ids));
  }
}

/// A quadratic step would take hours.
TEST_P(TokenizerTest, TakesLongRunsOfOneCharacter) {
  constexpr int count = 1 << 20;
  for (const char* piece : {"a", " ", "\xcc\x81", "\xff", ".", "\xe4\xbd\xa0", "'", "[", "\n"}) {
    std::string text;
    for (int i = 0; i < count; ++i) text += piece;
    const encoded_text encoded = words.encode(text, {.max_length = 12});
    EXPECT_LE(encoded.ids.size(), 12u);
  }
}

TEST_P(TokenizerTest, IsSafeToShareBetweenThreads) {
  const std::vector<std::string> texts = nasty_texts();
  std::vector<std::vector<std::int32_t>> ids(4);
  {
    std::vector<std::jthread> threads;
    for (auto& own : ids) {
      threads.emplace_back([&own, &texts, words = this->words] {
        for (const std::string& text : texts) {
          for (const std::int32_t id : words.encode(text).ids) own.push_back(id);
        }
      });
    }
  }
  for (const auto& own : ids) EXPECT_EQ(own, ids[0]);
}

TEST(TokenizerRoles, AreThoseOfTheFamily) {
  const special_token_ids bert = tokenizer_of("bert_uncased").special_ids();
  EXPECT_EQ(bert.pad, 0);
  EXPECT_EQ(bert.unk, 1);
  EXPECT_EQ(bert.cls, 2);
  EXPECT_EQ(bert.sep, 3);
  EXPECT_EQ(bert.mask, 4);
  EXPECT_EQ(bert.bos, std::nullopt);
  EXPECT_EQ(bert.eos, std::nullopt);
  const special_token_ids mpnet = tokenizer_of("mpnet").special_ids();
  EXPECT_EQ(mpnet.cls, 0);
  EXPECT_EQ(mpnet.bos, 0);
  EXPECT_EQ(mpnet.pad, 1);
  EXPECT_EQ(mpnet.sep, 2);
  EXPECT_EQ(mpnet.eos, 2);
  EXPECT_EQ(mpnet.unk, 3);
  EXPECT_EQ(mpnet.mask, 4);
  const special_token_ids gpt2 = tokenizer_of("gpt2").special_ids();
  EXPECT_EQ(gpt2.bos, 0);
  EXPECT_EQ(gpt2.eos, 0);
  EXPECT_EQ(gpt2.unk, 0);
  EXPECT_EQ(gpt2.cls, std::nullopt);
  EXPECT_EQ(gpt2.pad, std::nullopt);
  EXPECT_TRUE(tokenizer_of("gpt2").is_special(0));
  EXPECT_FALSE(tokenizer_of("gpt2").is_special(1));
}

TEST(TokenizerRoles, CountSpecialTokens) {
  EXPECT_EQ(tokenizer_of("bert_cased").special_token_count(), 2);
  EXPECT_EQ(tokenizer_of("bert_cased").special_token_count(true), 3);
  EXPECT_EQ(tokenizer_of("mpnet").special_token_count(true), 4);
  EXPECT_EQ(tokenizer_of("gpt2").special_token_count(true), 0);
}

TEST(TokenizerRoles, KnowTheLengthThatTheModelTakes) {
  EXPECT_EQ(tokenizer_of("bert_cased").model_max_length(), 512);
  EXPECT_EQ(tokenizer_of("mpnet").model_max_length(), std::nullopt);  // 1e30 says: no limit
  EXPECT_EQ(tokenizer_of("gpt2").model_max_length(), std::nullopt);
}

}  // namespace
}  // namespace nullscope::test
