#include <gtest/gtest.h>

#include <fstream>
#include <nullscope/core/errors.hpp>
#include <nullscope/text/text_encoder.hpp>

#include "tests/cli/command.hpp"
#include "tests/text/tokenizer_expected.hpp"

namespace nullscope::test {
namespace {

using id_list = std::vector<std::int32_t>;

TEST(TextEncoder, SavesAndLoadsWords) {
  const temporary_folder folder;
  const text_encoder made(word_vocabulary({"not", "bad"}));
  made.save(folder / "");
  const text_encoder words{std::filesystem::path(folder / "")};
  EXPECT_EQ(words.encode("Not bad!").ids, (id_list{2, 3, 4, 1}));
  EXPECT_EQ(words.encode("not bad", {.max_length = 2}).ids, (id_list{2, 3}));
  EXPECT_EQ(words.token(4), "bad");
  EXPECT_EQ(words.decode(id_list{2, 3, 4}), "not bad");
  EXPECT_EQ(words.vocabulary_size(), 5);
  EXPECT_EQ(words.special_ids().cls, word_vocabulary::class_id);
  EXPECT_EQ(words.special_ids().sep, std::nullopt);
  EXPECT_EQ(words.empty_id(), word_vocabulary::class_id);
  EXPECT_EQ(words.baseline_id(), word_vocabulary::pad_id);
  EXPECT_EQ(words.special_token_count(), 1);
  EXPECT_FALSE(words.joins_pairs());
  EXPECT_THROW(words.encode("not", {.pair = "bad"}), invalid_argument);
  EXPECT_THROW(words.token(5), invalid_argument);
}

TEST(TextEncoder, IsTheTokenizerOfAnotherFolderAndOfACopy) {
  for (const char* name : {"bert_uncased", "gpt2", "gpt2_json", "mpnet"}) {
    const std::filesystem::path source = tokenizer_data() / name;
    const temporary_folder folder;
    const text_encoder encoder(source);
    encoder.save(folder / "");
    const text_encoder copied{std::filesystem::path(folder / "")};
    const tokenizer expected(source);
    EXPECT_TRUE(encoder.joins_pairs());
    EXPECT_EQ(encoder.vocabulary_size(), expected.vocabulary_size());
    for (const std::string& text : nasty_texts()) {
      const encoded_text wanted = expected.encode(text, {.pair = "a pair"});
      EXPECT_EQ(encoder.encode(text, {.pair = "a pair"}).ids, wanted.ids) << name;
      EXPECT_EQ(copied.encode(text, {.pair = "a pair"}).ids, wanted.ids) << name;
    }
    EXPECT_EQ(encoder.token(3), expected.token(3));
    encoder.save(source);  // onto itself: nothing to do
  }
}

TEST(TextEncoder, RefusesFoldersWithoutATokenizer) {
  const temporary_folder folder;
  EXPECT_THROW(text_encoder{std::filesystem::path(folder / "")}, file_error);
  EXPECT_THROW(text_encoder{std::filesystem::path("/nowhere")}, file_error);
  std::ofstream(folder / "tokenizer_config.json") << R"({"tokenizer_class": "NullscopeWords"})";
  EXPECT_THROW(text_encoder{std::filesystem::path(folder / "")}, file_error);  // no vocab.txt
  std::ofstream(folder / "tokenizer_config.json") << "[1, ";
  EXPECT_THROW(text_encoder{std::filesystem::path(folder / "")}, file_error);
}

}  // namespace
}  // namespace nullscope::test
