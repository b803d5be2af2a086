/// Fuzzes the files of tokenizers: a folder gives a tokenizer that encodes, or is a file_error. The first byte chooses
/// which file is fuzzed; the others are small and good, so that damage is read to its end.
///   tokenizer_fuzz -max_len=4000 <a folder for new inputs> tests/fuzz/tokenizer_corpus
#include <array>
#include <cstdlib>
#include <nullscope/core/errors.hpp>
#include <nullscope/text/text_encoder.hpp>

#include "tests/fuzz/fuzz_folder.hpp"

namespace nullscope {
namespace {

struct good_file {
  const char *name, *content;
};

constexpr good_file word_files[] = {{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\n"},
                                    {"tokenizer_config.json", "{\"do_lower_case\": true}"},
                                    {"special_tokens_map.json", "{\"cls_token\": \"[CLS]\"}"},
                                    {"added_tokens.json", "{\"ab\": 7}"},
                                    {"config.json", "{\"model_type\": \"bert\"}"}};
constexpr good_file byte_files[] = {{"vocab.json", "{\"a\": 0, \"b\": 1, \"ab\": 2}"}, {"merges.txt", "a b\n"}};

void require(bool holds) {
  if (!holds) std::abort();
}

void read_folder(const std::filesystem::path& folder) {
  try {
    const text_encoder encoder(folder);
    for (const char* text : {"", "ab a\xc3\xa9 [CLS] \xff", "ABab12 \xe4\xb8\xad"}) {
      const encoded_text encoded = encoder.encode(text, {.max_length = 16});
      for (const std::int32_t id : encoded.ids) require(id >= 0 && id < encoder.vocabulary_size());
      encoder.decode(encoded.ids);
    }
  } catch (const file_error& failure) {
    require(std::string_view(failure.what()).find("json.exception") == std::string_view::npos);
  } catch (const invalid_argument&) {  // more special tokens than fit
  }
}

}  // namespace
}  // namespace nullscope

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nullscope;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t words = std::size(word_files), all = words + std::size(byte_files) + 1, choice = data[0] % all;
  static const test::fuzz_folder folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) std::filesystem::remove(entry.path());
  if (choice < words) {
    for (const good_file& file : word_files) folder.write(file.name, file.content);
    folder.write(word_files[choice].name, bytes);
  } else if (choice + 1 < all) {
    for (const good_file& file : byte_files) folder.write(file.name, file.content);
    folder.write(byte_files[choice - words].name, bytes);
  } else {
    folder.write("tokenizer.json", bytes);
  }
  read_folder(folder.path());
  return 0;
}
