/// Damaged tokenizer files: a tokenizer that encodes, or a file_error, and no other error.
#include <gtest/gtest.h>

#include <nullscope/core/errors.hpp>
#include <nullscope/text/text_encoder.hpp>

#include "tests/cli/command.hpp"
#include "tests/core/mutations.hpp"
#include "tests/text/tokenizer_expected.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

/// Whether the folder has a tokenizer, which then reads all texts.
bool reads_texts(const fs::path& folder, const std::vector<std::string>& texts) {
  try {
    const text_encoder encoder(folder);
    for (const std::string& text : texts) {
      const encoded_text encoded = encoder.encode(text, {.max_length = 64});
      EXPECT_EQ(encoded.ids.size(), encoded.offsets.size());
      for (const std::int32_t id : encoded.ids) EXPECT_TRUE(id >= 0 && id < encoder.vocabulary_size());
      encoder.decode(encoded.ids);
    }
    return true;
  } catch (const file_error& failure) {
    const std::string message = failure.what();
    for (const char* raw : {"json.exception", "_M_range_check", "basic_string", "stoll"}) {
      EXPECT_EQ(message.find(raw), std::string::npos) << message;
    }
    EXPECT_NE(message.find(folder.string()), std::string::npos) << message;
  } catch (const invalid_argument& failure) {  // the special tokens of a pair need more room than there is
    EXPECT_NE(std::string(failure.what()).find("max_length"), std::string::npos) << failure.what();
  } catch (const std::exception& failure) {
    ADD_FAILURE() << failure.what();
  }
  return false;
}

TEST(tokenizer_damage, gives_a_tokenizer_or_a_file_error) {
  mutations change(20261118);
  const std::vector<std::string> texts = nasty_texts();
  int good = 0, all = 0;
  for (const auto& [kind, names] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"bert_uncased", {"tokenizer.json", "config.json"}},
           {"gpt2_json", {"tokenizer.json"}},
           {"mpnet", {"vocab.txt", "tokenizer_config.json"}},
           {"bert_cased", {"vocab.txt", "tokenizer_config.json"}},
           {"gpt2", {"vocab.json", "merges.txt", "config.json"}}}) {
    for (const std::string& name : names) {
      const temporary_folder copy;
      const fs::path folder = copy / "tokenizer";
      fs::copy(tokenizer_data() / kind, folder);
      const std::string text = content(folder / name);
      for (int i = 0; i < 60; ++i, ++all) {
        const bool is_json = name.ends_with(".json") && i % 2 == 0;
        const std::string damaged = is_json ? change.of_json(text) : change.of_text(text);
        std::ofstream(folder / name, std::ios::binary) << damaged;
        SCOPED_TRACE(kind + "/" + name + " " + std::to_string(i));
        good += reads_texts(folder, texts) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(good, all / 20);  // what does not matter may be damaged
  EXPECT_LT(good, all);
}

/// Each once gave the text of a library instead.
TEST(tokenizer_damage, is_explained_with_file_and_key) {
  const auto refusal = [](const std::string& name, const std::string& text) -> std::string {
    const temporary_folder folder;
    std::ofstream(folder / "vocab.txt") << "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n";
    std::ofstream(folder / name) << text;
    try {
      const text_encoder encoder(folder / "");
    } catch (const file_error& failure) {
      return failure.what();
    }
    return "accepted";
  };
  const auto expect = [&](const std::string& name, const std::string& text, const std::string& fragment) {
    const std::string message = refusal(name, text);
    EXPECT_NE(message.find(fragment), std::string::npos) << message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_EQ(message.find("exception"), std::string::npos) << message;
  };
  expect("config.json", R"({"model_type": 5})", "model_type is 5");
  expect("config.json", "[]", "expected an object");
  expect("tokenizer_config.json", R"({"do_lower_case": "yes"})", "do_lower_case is \"yes\"");
  expect("tokenizer_config.json", R"({"cls_token": {"content": 7}})", "cls_token.content is 7");
  expect("tokenizer_config.json", R"({"added_tokens_decoder": {"5": {}}})",
         "added_tokens_decoder.5.content is missing");
  expect("tokenizer_config.json", R"({"added_tokens_decoder": 3})", "added_tokens_decoder is 3");
  expect("added_tokens.json", R"({"x": "y"})", "x is \"y\"");
  expect("special_tokens_map.json", R"({"cls_token": [1]})", "cls_token is an array");
  const std::string bpe = R"({"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {"a": 0}, )";
  expect("tokenizer.json", bpe + R"("merges": [[1, "a"]]}})", "model.merges[0][0] is 1");
  expect("tokenizer.json", bpe + R"("merges": [["a"]]}})", "model.merges[0] is an array");
  expect("tokenizer.json", bpe + R"("merges": 4}})", "model.merges is 4");
  expect("tokenizer.json", R"({"model": {"vocab": {"a": 1.5}}})", "model.vocab.a is 1.5");
}

}  // namespace
}  // namespace nullscope::test
