/// Copies a safetensors file for safetensors_interop.py, and adds what the reader converts: "float/<name>" for floating
/// point, "int64/<name>" for integers, nothing for the types that are only listed.
///   safetensors_interop <from> <to>
#include <deque>
#include <exception>
#include <iostream>
#include <nullscope/io/safetensors.hpp>

int main(int argument_count, char** arguments) try {
  using namespace nullscope;
  if (argument_count != 3) return 2;
  const safetensors_file file{std::filesystem::path(arguments[1])};
  std::vector<safetensors_entry> entries = file.entries();
  std::deque<std::vector<float>> floats;  // a deque: what the entries point at stays
  std::deque<std::vector<std::int64_t>> integers;
  for (const safetensors_entry& entry : file.entries()) {
    if (entry.type <= element_type::bf16) {
      floats.push_back(file.read<float>(entry));
      entries.push_back(make_entry("float/" + entry.name, entry.shape, floats.back()));
    } else if (entry.type <= element_type::boolean) {
      integers.push_back(file.read<std::int64_t>(entry));
      entries.push_back(make_entry("int64/" + entry.name, entry.shape, integers.back()));
    }
  }
  write_safetensors(arguments[2], entries, file.metadata());
} catch (const std::exception& failure) {
  std::cerr << failure.what() << '\n';
  return 1;
}
