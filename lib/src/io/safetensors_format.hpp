/// The safetensors format on memory, shared by the reader and the writer:
///   8 bytes   length of the header, little-endian
///   header    JSON: {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
///   24]}, ...} data      offsets count from here
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/io/safetensors.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope::detail {

constexpr std::uint64_t safetensors_header_limit = 100'000'000;  // bytes; what other readers of the format refuse too
constexpr std::string_view safetensors_metadata_key = "__metadata__";

struct safetensors_content {
  std::vector<safetensors_entry> entries;
  std::map<std::string, std::size_t, std::less<>> index;  // name -> place in entries
  safetensors_metadata metadata;
};

/// Checks everything. Throws file_error; `file` is what messages begin with.
safetensors_content parse_safetensors(const std::string& file, std::span<const std::byte> bytes);

/// The header of the file, and the entries in the order of their data.
struct safetensors_layout {
  std::string head;
  std::vector<const safetensors_entry*> order;
};

/// Throws invalid_argument if the entries cannot be written.
safetensors_layout make_safetensors_layout(const std::vector<safetensors_entry>& entries,
                                           const safetensors_metadata& metadata);

/// Bytes of a tensor, or nothing if they do not fit 63 bits, an extent is negative, or the last byte is not full.
std::optional<std::int64_t> byte_count(const std::vector<std::int64_t>& shape, element_type type);

/// A name as messages show it: quoted, on one line, not longer than a line.
std::string in_quotes(std::string_view name);

}  // namespace nullscope::detail
