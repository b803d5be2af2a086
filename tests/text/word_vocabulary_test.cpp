#include <gtest/gtest.h>

#include <nullscope/core/errors.hpp>
#include <nullscope/text/tokenizer.hpp>

#include "tests/cli/command.hpp"
#include "tests/text/tokenizer_expected.hpp"

namespace nullscope::test {
namespace {

using id_list = std::vector<std::int32_t>;

std::vector<std::string> words_of(const word_vocabulary& vocabulary) {
  std::vector<std::string> words;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) words.emplace_back(vocabulary.word(id));
  return words;
}

word_vocabulary counted(const std::vector<std::string>& texts, const word_vocabulary_options& options = {}) {
  word_counter counter;
  for (const std::string& text : texts) counter.add(text);
  return counter.vocabulary(options);
}

TEST(WordVocabulary, OrdersWordsByFrequencyThenAlphabetically) {
  const std::vector<std::string> wanted{"[PAD]", "[UNK]", "[CLS]", "b", "!", "a", "c"};
  EXPECT_EQ(words_of(counted({"b a! B", "c b"})), wanted);
  EXPECT_EQ(words_of(counted({"c b", "b a! B"})), wanted);  // the order of the texts does not matter
}

TEST(WordVocabulary, LimitsCountAndSize) {
  const std::vector<std::string> texts{"b a! B", "c b a"};
  EXPECT_EQ(words_of(counted(texts, {.minimum_count = 2})),
            (std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "b", "a"}));
  EXPECT_EQ(counted(texts, {.maximum_size = 4}).size(), 4);
  EXPECT_EQ(counted(texts, {.maximum_size = 3}).size(), 3);
  EXPECT_EQ(counted(texts, {.maximum_size = 100}).size(), 7);
  EXPECT_EQ(counted({}).size(), 3);
  EXPECT_THROW(counted(texts, {.maximum_size = 2}), invalid_argument);
  EXPECT_THROW(counted(texts, {.minimum_count = 0}), invalid_argument);
}

TEST(WordVocabulary, EncodesWithOffsets) {
  const word_vocabulary words({"not", "bad", "!"});
  const encoded_text text = words.encode(
      "Not  b\xc3\xa1"
      "d film!");
  EXPECT_EQ(text.ids, (id_list{2, 3, 4, 1, 5}));
  EXPECT_TRUE(text.offsets == (std::vector<text_range>{{0, 0}, {0, 3}, {5, 9}, {10, 14}, {14, 15}}));
  EXPECT_EQ(text.words, (id_list{-1, 0, 1, 2, 3}));
  EXPECT_EQ(text.sources, (id_list{-1, 0, 0, 0, 0}));
  EXPECT_EQ(text.segments, (id_list{0, 0, 0, 0, 0}));
  EXPECT_EQ(text.special_mask, (std::vector<std::uint8_t>{1, 0, 0, 0, 0}));
  EXPECT_FALSE(text.truncated);
  EXPECT_EQ(words.encode("not bad", {.add_special_tokens = false}).ids, (id_list{3, 4}));
  EXPECT_EQ(words.encode("").ids, id_list{2});
  EXPECT_EQ(words.encode("[CLS]").ids, (id_list{2, 1, 1, 1}));  // a text cannot write a special token
  EXPECT_EQ(words.decode(id_list{2, 3, 4, 1, 0, 0}), "not bad [UNK]");
}

TEST(WordVocabulary, Truncates) {
  const word_vocabulary words({"a", "b"});
  const encoded_text cut = words.encode("a b a", {.max_length = 3});
  EXPECT_EQ(cut.ids, (id_list{2, 3, 4}));
  EXPECT_EQ(cut.special_mask.size(), 3u);
  EXPECT_TRUE(cut.truncated);
  EXPECT_FALSE(words.encode("a b a", {.max_length = 4}).truncated);
  EXPECT_EQ(words.encode("a", {.max_length = 1}).ids, id_list{2});
  EXPECT_THROW(words.encode("a", {.max_length = 0}), invalid_argument);
  EXPECT_THROW(words.encode("a", {.pair = "b"}), invalid_argument);
}

TEST(WordVocabulary, RefusesIdsAndWordsThatItCannotHave) {
  EXPECT_THROW(word_vocabulary({"a"}).word(4), invalid_argument);
  EXPECT_THROW(word_vocabulary({"a"}).word(-1), invalid_argument);
  EXPECT_THROW(word_vocabulary({"a"}).decode(id_list{4}), invalid_argument);
  for (const char* word : {"", "A", "a b", "a.", "[PAD]", "caf\xc3\xa9", "\xff", "x\n"}) {
    EXPECT_THROW(word_vocabulary({word}), invalid_argument) << word;
  }
  EXPECT_THROW(word_vocabulary({"a", "a"}), invalid_argument);
}

TEST(WordVocabulary, IsTheSameAfterSavingAndLoading) {
  const temporary_folder folder;
  const word_vocabulary words = counted(nasty_texts());
  EXPECT_GT(words.size(), 300);
  words.save(folder / "");
  const word_vocabulary loaded = word_vocabulary::load(folder / "");
  EXPECT_EQ(words_of(loaded), words_of(words));
  for (const std::string& text : nasty_texts()) {
    const encoded_text encoded = loaded.encode(text);
    EXPECT_EQ(encoded.ids, words.encode(text).ids);
    EXPECT_EQ(std::ranges::count(encoded.ids, word_vocabulary::unknown_id), 0) << text;
  }
}

void expect_load_error(const std::string& content, const std::string& fragment) {
  const temporary_folder folder;
  std::ofstream(folder / "vocab.txt") << content;
  try {
    word_vocabulary::load(folder / "");
    ADD_FAILURE() << "loaded " << content;
  } catch (const file_error& error) {
    EXPECT_NE(std::string(error.what()).find("vocab.txt"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
  }
}

TEST(WordVocabulary, RefusesFilesThatItDidNotWrite) {
  expect_load_error("", "line 1 is missing");
  expect_load_error("[PAD]\n[CLS]\n[UNK]\n", "line 2");
  expect_load_error("[PAD]\n[UNK]\n[CLS]\na\nb\na\n", "line 6");
  expect_load_error("[PAD]\n[UNK]\n[CLS]\na\nTwo words\n", "line 5");
  EXPECT_THROW(word_vocabulary::load("/nowhere"), file_error);
}

}  // namespace
}  // namespace nullscope::test
