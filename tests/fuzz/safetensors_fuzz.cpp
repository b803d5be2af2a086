/// Fuzzes the safetensors reader: a file either opens, and then keeps the promises below, or is a file_error.
///   safetensors_fuzz -max_len=2000 <a folder for new inputs> tests/fuzz/safetensors_corpus
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nullscope/core/errors.hpp>
#include <nullscope/io/safetensors.hpp>
#include <vector>

#include "lib/src/io/safetensors_format.hpp"

namespace nullscope {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// The numbers are read, or refused by a file_error.
template <class T>
void read_all(const safetensors_file& file, const safetensors_entry& entry) {
  try {
    require(std::ssize(file.read<T>(entry)) * bits_of(entry.type) == std::ssize(entry.bytes) * 8);
    require(entry.type <= element_type::boolean);
  } catch (const file_error&) {
  }
}

/// What is written again is read again.
void rewrite(const safetensors_file& file) {
  const detail::safetensors_layout layout = detail::make_safetensors_layout(file.entries(), file.metadata());
  std::vector<std::byte> bytes(layout.head.size());
  std::memcpy(bytes.data(), layout.head.data(), bytes.size());
  require(bytes.size() % 8 == 0);
  for (const safetensors_entry* entry : layout.order) {
    require(std::ssize(bytes) % std::max<std::int64_t>(bits_of(entry->type) / 8, 1) == 0);
    bytes.insert(bytes.end(), entry->bytes.begin(), entry->bytes.end());
  }
  const safetensors_file again(bytes, "again");
  require(again.metadata() == file.metadata());
  require(again.entries().size() == file.entries().size());
  for (std::size_t i = 0; i < file.entries().size(); ++i) {
    const safetensors_entry &a = file.entries()[i], &b = again.entries()[i];
    require(a.name == b.name && a.type == b.type && a.shape == b.shape && std::ranges::equal(a.bytes, b.bytes));
  }
}

void try_file(std::span<const std::byte> bytes) {
  try {
    const safetensors_file file(bytes, "file");
    std::size_t covered = 0;
    for (const safetensors_entry& entry : file.entries()) {
      covered += entry.bytes.size();
      require(file.find(entry.name) == &entry);
      require(detail::byte_count(entry.shape, entry.type) == std::ssize(entry.bytes));
      read_all<double>(file, entry);
      read_all<float>(file, entry);
      read_all<bfloat16>(file, entry);
      read_all<std::int64_t>(file, entry);
      read_all<std::int32_t>(file, entry);
      read_all<std::uint8_t>(file, entry);
    }
    require(covered < bytes.size());
    rewrite(file);
  } catch (const file_error& failure) {
    require(std::string_view(failure.what()).starts_with("file: "));
    require(std::strlen(failure.what()) < 2000);
  }
}

}  // namespace
}  // namespace nullscope

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, bytes.begin());
  nullscope::try_file(bytes);
  // A mutation seldom keeps the header's length right, so the same again with a header that ends at the last brace.
  const auto brace = std::find(bytes.rbegin(), bytes.rend(), std::byte{'}'});
  const std::uint64_t end = static_cast<std::uint64_t>(bytes.rend() - brace);
  if (end > sizeof(end)) {
    const std::uint64_t length = end - sizeof(end);
    std::memcpy(bytes.data(), &length, sizeof(length));
    nullscope::try_file(bytes);
  }
  return 0;
}
