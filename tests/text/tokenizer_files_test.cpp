/// Model folders whose tokenizer files are missing, malformed or of another kind.
#include <gtest/gtest.h>

#include <functional>
#include <nullscope/core/errors.hpp>
#include <nullscope/text/tokenizer.hpp>

#include "tests/cli/command.hpp"
#include "tests/text/tokenizer_expected.hpp"

namespace nullscope::test {
namespace {

void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// A file_error whose message holds all fragments.
void expect_refusal(const std::string& folder, const std::vector<std::string>& fragments) {
  try {
    const tokenizer words(folder);
    ADD_FAILURE() << "accepted";
  } catch (const file_error& error) {
    for (const std::string& fragment : fragments) {
      EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
    }
  }
}

/// A small tokenizer.json of WordPiece or BPE, changed.
using change = std::function<void(nlohmann::json&)>;

void expect_json_refusal(const std::string& kind, const change& alter, const std::vector<std::string>& fragments) {
  const temporary_folder folder;
  nlohmann::json file = nlohmann::json::parse(content(tokenizer_data() / kind / "tokenizer.json"));
  alter(file);
  put(folder / "tokenizer.json", file.dump());
  SCOPED_TRACE(fragments.back());
  expect_refusal(folder / "", fragments);
}

TEST(TokenizerFiles, MustBeThere) {
  const temporary_folder folder;
  expect_refusal(folder / "nowhere", {"nowhere", "not a folder"});
  expect_refusal(folder / "", {"no tokenizer", "tokenizer.json", "vocab.txt", "merges.txt"});
  put(folder / "vocab.json", "{}");
  expect_refusal(folder / "", {"no tokenizer"});  // merges.txt is missing
}

TEST(TokenizerFiles, MustBeJson) {
  const temporary_folder folder;
  put(folder / "tokenizer.json", "{\"model\": ");
  expect_refusal(folder / "", {"tokenizer.json"});
  put(folder / "tokenizer.json", "[]");
  expect_refusal(folder / "", {"tokenizer.json"});
  put(folder / "tokenizer.json", "{\"model\": {\"type\": 5, \"vocab\": {}}}");
  expect_refusal(folder / "", {"tokenizer.json", "type"});
}

TEST(TokenizerFiles, OfOtherKindsAreNamed) {
  const std::string bert = "bert_uncased", gpt2 = "gpt2_json";
  expect_json_refusal(bert, [](auto& f) { f["model"]["type"] = "Unigram"; }, {"tokenizer.json", "model", "Unigram"});
  expect_json_refusal(bert, [](auto& f) { f["pre_tokenizer"]["type"] = "Metaspace"; }, {"pre_tokenizer", "Metaspace"});
  expect_json_refusal(bert, [](auto& f) { f["pre_tokenizer"] = nullptr; }, {"pre_tokenizer", "null"});
  expect_json_refusal(bert, [](auto& f) { f["normalizer"]["type"] = "NFKC"; }, {"normalizer", "NFKC"});
  expect_json_refusal(gpt2, [](auto& f) { f["normalizer"] = {{"type", "NFC"}}; }, {"normalizer", "NFC"});
  expect_json_refusal(bert, [](auto& f) { f["post_processor"]["type"] = "Odd"; }, {"post_processor", "Odd"});
  expect_json_refusal(gpt2, [](auto& f) { f["model"]["dropout"] = 0.1; }, {"dropout", "0.1"});
  expect_json_refusal(gpt2, [](auto& f) { f["model"]["byte_fallback"] = true; }, {"byte_fallback"});
  expect_json_refusal(gpt2, [](auto& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, {"end_of_word_suffix"});
}

TEST(TokenizerFiles, MustAgreeWithThemselves) {
  const std::string bert = "bert_uncased", gpt2 = "gpt2_json";
  expect_json_refusal(bert, [](auto& f) { f["model"]["unk_token"] = "[NO]"; }, {"[NO]"});
  expect_json_refusal(bert, [](auto& f) { f["model"].erase("vocab"); }, {"vocab"});
  expect_json_refusal(bert, [](auto& f) { f["model"]["vocab"]["x"] = "five"; }, {"tokenizer.json"});
  expect_json_refusal(bert, [](auto& f) { f["model"]["vocab"]["x"] = -1; }, {"\"x\"", "-1"});
  expect_json_refusal(bert, [](auto& f) { f["model"]["vocab"]["x"] = 2'000'000'000; }, {"\"x\"", "2000000000"});
  expect_json_refusal(bert, [](auto& f) { f["post_processor"]["special_tokens"]["[CLS]"]["ids"] = {16'000'000}; },
                      {"post_processor", "16000000"});
  expect_json_refusal(gpt2, [](auto& f) { f["model"]["merges"].push_back("a b c"); }, {"merge", "\"a b c\""});
  expect_json_refusal(gpt2, [](auto& f) { f["model"]["merges"].push_back({"a", "never"}); }, {"\"never\""});
}

TEST(TokenizerFiles, OfOlderKindsAreCheckedToo) {
  const temporary_folder folder;
  put(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\nword\n");
  expect_refusal(folder / "", {"vocab.txt", "[SEP]"});
  put(folder / "vocab.txt", "[PAD]\n[CLS]\n[SEP]\nword\n");
  expect_refusal(folder / "", {"vocab.txt", "[UNK]"});

  const temporary_folder bpe;
  put(bpe / "vocab.json", "{\"a\": 0, \"b\": 1}");
  put(bpe / "merges.txt", "#version: 0.2\na b\n");
  expect_refusal(bpe / "", {"merges.txt", "merge 1", "\"ab\""});
  put(bpe / "merges.txt", "#version: 0.2\nab\n");
  expect_refusal(bpe / "", {"merges.txt", "\"ab\"", "two tokens"});
}

TEST(TokenizerFiles, SettingsChangeTheRules) {
  const temporary_folder folder;
  put(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nÉ\né\ne\n中\n##文\n文\n中文\n");
  const auto ids = [&](const std::string& config, const char* text) {
    put(folder / "tokenizer_config.json", config);
    return tokenizer(folder / "").encode(text, {.add_special_tokens = false}).ids;
  };
  using list = std::vector<std::int32_t>;
  EXPECT_EQ(ids("{}", "É"), list{6});
  EXPECT_EQ(ids(R"({"strip_accents": false})", "É"), list{5});
  EXPECT_EQ(ids(R"({"do_lower_case": false})", "É"), list{4});
  EXPECT_EQ(ids(R"({"do_lower_case": false, "strip_accents": true})", "É"), list{1});  // E is not a token
  EXPECT_EQ(ids("{}", "中文"), (list{7, 9}));
  EXPECT_EQ(ids(R"({"tokenize_chinese_chars": false})", "中文"), list{10});
}

TEST(TokenizerFiles, BytesThatAreNoTokensAreUnknownOrLeftOut) {
  const temporary_folder folder;
  nlohmann::json file = {
      {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"?", 1}}}, {"merges", nlohmann::json::array()}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}};
  const auto ids = [&] {
    put(folder / "tokenizer.json", file.dump());
    return tokenizer(folder / "").encode("axya").ids;
  };
  using list = std::vector<std::int32_t>;
  EXPECT_EQ(ids(), (list{0, 0}));
  file["model"]["unk_token"] = "?";
  EXPECT_EQ(ids(), (list{0, 1, 1, 0}));
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(ids(), (list{0, 1, 0}));
}

TEST(TokenizerFiles, AddedTokensHaveTheirOwnIds) {
  const temporary_folder folder;
  put(folder / "vocab.json", "{\"a\": 0, \"b\": 1}");
  put(folder / "merges.txt", "#version: 0.2\n");
  put(folder / "added_tokens.json", "{\"bb\": 7}");
  put(folder / "tokenizer_config.json",
      R"({"added_tokens_decoder": {"5": {"content": "<pad>", "special": true}}, "pad_token": "<pad>"})");
  const tokenizer words(folder / "");
  EXPECT_EQ(words.encode("abb<pad>b").ids, (std::vector<std::int32_t>{0, 7, 5, 1}));
  EXPECT_EQ(words.vocabulary_size(), 8);
  EXPECT_EQ(words.special_ids().pad, 5);
  EXPECT_THROW(words.token(6), invalid_argument);  // a hole
  EXPECT_EQ(words.decode(std::vector<std::int32_t>{0, 5, 7}), "abb");
}

}  // namespace
}  // namespace nullscope::test
