#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <nullscope/core/errors.hpp>
#include <utility>

#include "lib/src/io/safetensors_format.hpp"

namespace nullscope {

namespace {

struct type_description {
  std::string_view name;
  std::int64_t bits;
};

constexpr std::array<type_description, 22> types{
    {{"F64", 64},        {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"I64", 64},    {"I32", 32},
     {"U8", 8},          {"BOOL", 8},    {"U64", 64},    {"U32", 32},    {"U16", 16},    {"I16", 16},
     {"I8", 8},          {"C64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
     {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}}};
static_assert(types.size() == static_cast<std::size_t>(element_type::f4) + 1);

}  // namespace

std::int64_t bits_of(element_type type) { return types[static_cast<std::size_t>(type)].bits; }
std::string_view to_string(element_type type) { return types[static_cast<std::size_t>(type)].name; }

namespace detail {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and data is not converted");

std::optional<std::int64_t> byte_count(const std::vector<std::int64_t>& shape, element_type type) {
  bool is_empty = false;
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      is_empty = true;
    } else if (__builtin_mul_overflow(elements, extent, &elements)) {
      return std::nullopt;
    }
  }
  // Eight elements at a time, as the number of bits may not fit where that of bytes does.
  const std::int64_t bits = bits_of(type), bits_left = elements % 8 * bits;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / 8, bits, &bytes) || __builtin_add_overflow(bytes, bits_left / 8, &bytes)) {
    return std::nullopt;
  }
  if (is_empty) return 0;
  return bits_left % 8 == 0 ? std::optional(bytes) : std::nullopt;
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t longest = 80;
  using json = nlohmann::json;
  const std::string text = json(name.substr(0, longest)).dump(-1, ' ', false, json::error_handler_t::replace);
  return name.size() > longest ? text + "..." : text;
}

namespace {

constexpr std::size_t most_dimensions = 64;

/// Takes the header's JSON event by event, so that a name that occurs twice is seen, and nothing nests deeper than the
/// format does. Throws at the first thing that is wrong.
class header_reader {
 public:
  header_reader(const std::string& file, std::span<const std::byte> data, safetensors_content& content)
      : file_(file), data_(data), content_(content) {}

  bool start_object(std::size_t) {
    if (place_ == place::outside) {
      place_ = place::header;
    } else if (place_ == place::header && key_ == safetensors_metadata_key) {
      place_ = place::metadata;
    } else if (place_ == place::header) {
      place_ = place::tensor;
      type_.reset();
      shape_.reset();
      offsets_.reset();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() {
    if (place_ == place::tensor) finish_tensor();
    place_ = place_ == place::header ? place::outside : place::header;
    return true;
  }

  bool start_array(std::size_t) {
    if (place_ != place::tensor || key_ == "dtype") unexpected("an array");
    place_ = place::numbers;
    (key_ == "shape" ? shape_ : offsets_).emplace();
    return true;
  }

  bool end_array() {
    place_ = place::tensor;
    return true;
  }

  bool key(std::string& text) {
    if (place_ == place::header) {
      name_ = text;
      const bool is_metadata = text == safetensors_metadata_key;
      if (is_metadata ? has_metadata_ : content_.index.contains(text)) {
        fail(fmt::format("the name {} occurs twice", in_quotes(text)));
      }
      has_metadata_ |= is_metadata;
    } else if (place_ == place::metadata) {
      if (content_.metadata.contains(text)) fail(fmt::format("the metadata {} occurs twice", in_quotes(text)));
    } else if (text != "dtype" && text != "shape" && text != "data_offsets") {
      fail_tensor(fmt::format("has an unknown key {}", in_quotes(text)));
    } else if (text == "dtype" ? type_.has_value() : (text == "shape" ? shape_ : offsets_).has_value()) {
      fail_tensor(fmt::format("has its {} twice", text));
    }
    key_ = std::move(text);
    return true;
  }

  bool string(std::string& text) {
    if (place_ == place::metadata) {
      content_.metadata.emplace(key_, std::move(text));
    } else if (place_ == place::tensor && key_ == "dtype") {
      const auto found = std::ranges::find(types, text, &type_description::name);
      if (found == types.end()) fail_tensor(fmt::format("has the unknown dtype {}", in_quotes(text)));
      type_ = static_cast<element_type>(found - types.begin());
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool number_unsigned(std::uint64_t number) {
    if (place_ != place::numbers) unexpected("a number");
    if (!std::in_range<std::int64_t>(number)) unexpected("a number over 2^63 - 1");
    std::vector<std::int64_t>& numbers = *(key_ == "shape" ? shape_ : offsets_);
    if (numbers.size() == most_dimensions) {
      fail_tensor(fmt::format("has more than {} numbers in its {}", most_dimensions, key_));
    }
    numbers.push_back(static_cast<std::int64_t>(number));
    return true;
  }

  bool number_integer(std::int64_t) { unexpected("a negative number"); }
  bool number_float(double, const std::string&) { unexpected("a number that is not an integer of 64 bits"); }
  bool boolean(bool) { unexpected("a boolean"); }
  bool null() { unexpected("null"); }
  bool binary(nlohmann::json::binary_t&) { unexpected("binary data"); }  // not in JSON

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& failure) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: <reason>; last read: '<any length>'"
    std::string_view reason = failure.what();
    reason = reason.substr(0, reason.find("; last read"));
    for (const std::string_view prefix_end : {"] ", ": "}) {
      if (const std::size_t found = reason.find(prefix_end); found != reason.npos) reason.remove_prefix(found + 2);
    }
    fail(fmt::format("the header is not JSON at its byte {}: {}", position, reason.substr(0, 200)));
  }

 private:
  enum class place { outside, header, metadata, tensor, numbers };

  [[noreturn]] void fail(const std::string& what) const { throw file_error(fmt::format("{}: {}", file_, what)); }
  [[noreturn]] void fail_tensor(const std::string& what) const {
    fail(fmt::format("tensor {} {}", in_quotes(name_), what));
  }

  [[noreturn]] void unexpected(std::string_view what) const {
    switch (place_) {
      case place::metadata: fail(fmt::format("the metadata {} is {}, expected a string", in_quotes(key_), what));
      case place::tensor:
        fail_tensor(fmt::format("has {} as its {}, expected {}", what, key_,
                                key_ == "dtype" ? "a string" : "an array of integers that are not negative"));
      case place::numbers:
        fail_tensor(fmt::format("has {} in its {}, expected integers that are not negative", what, key_));
      default: fail(fmt::format("{} is {}, expected an object", in_quotes(name_), what));
    }
  }

  void finish_tensor() {
    if (!type_) fail_tensor("has no dtype");
    if (!shape_) fail_tensor("has no shape");
    if (!offsets_) fail_tensor("has no data_offsets");
    if (offsets_->size() != 2) fail_tensor(fmt::format("has {} data_offsets, expected 2", offsets_->size()));
    const std::int64_t begin = (*offsets_)[0], end = (*offsets_)[1];
    if (begin > end) fail_tensor(fmt::format("begins at {}, after its end at {}", begin, end));
    if (std::cmp_greater(end, data_.size())) {
      fail_tensor(fmt::format("ends at {}, but the file holds {} bytes of data: is it truncated?", end, data_.size()));
    }
    const std::optional<std::int64_t> bytes = byte_count(*shape_, *type_);
    if (!bytes) {
      fail_tensor(
          fmt::format("has the shape {}, too large for 64-bit sizes or, at {} bits an element, not of whole bytes",
                      *shape_, bits_of(*type_)));
    }
    if (*bytes != end - begin) {
      fail_tensor(fmt::format("has {} bytes, but {} {} needs {}", end - begin, to_string(*type_), *shape_, *bytes));
    }
    const auto range = data_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(*bytes));
    content_.index.emplace(name_, content_.entries.size());
    content_.entries.push_back({std::move(name_), *type_, std::move(*shape_), range});
  }

  const std::string& file_;
  std::span<const std::byte> data_;
  safetensors_content& content_;
  place place_ = place::outside;
  bool has_metadata_ = false;
  std::string name_, key_;  // the key of the header, and the last key of any object
  std::optional<element_type> type_;
  std::optional<std::vector<std::int64_t>> shape_, offsets_;
};

/// The tensors cover the data without overlaps and holes.
void check_coverage(const std::string& file, std::span<const std::byte> data,
                    const std::vector<safetensors_entry>& entries) {
  std::vector<const safetensors_entry*> order;
  for (const safetensors_entry& entry : entries) order.push_back(&entry);
  const auto extent = [&](const safetensors_entry* entry) {
    const std::ptrdiff_t begin = entry->bytes.data() - data.data();
    return std::pair(begin, begin + std::ssize(entry->bytes));
  };
  std::ranges::stable_sort(order, {}, extent);
  std::ptrdiff_t covered = 0;
  const safetensors_entry* previous = nullptr;
  for (const safetensors_entry* entry : order) {
    const auto [begin, end] = extent(entry);
    if (begin < covered) {
      throw file_error(fmt::format("{}: tensor {} begins at {}, inside tensor {}, which ends at {}", file,
                                   in_quotes(entry->name), begin, in_quotes(previous->name), covered));
    }
    if (begin > covered) {
      throw file_error(fmt::format("{}: no tensor covers the data from {} to {}, where tensor {} begins", file, covered,
                                   begin, in_quotes(entry->name)));
    }
    covered = end;
    previous = entry;
  }
  if (covered != std::ssize(data)) {
    throw file_error(fmt::format("{}: no tensor covers the last {} bytes", file, std::ssize(data) - covered));
  }
}

}  // namespace

safetensors_content parse_safetensors(const std::string& file, std::span<const std::byte> bytes) {
  const auto fail = [&](const std::string& what) { throw file_error(fmt::format("{}: {}", file, what)); };
  std::uint64_t length = 0;
  if (bytes.empty()) fail("the file is empty");
  if (bytes.size() < sizeof(length)) {
    fail(fmt::format("the file has {} bytes, too few for a safetensors file", bytes.size()));
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  bytes = bytes.subspan(sizeof(length));
  if (length > safetensors_header_limit) {
    fail(fmt::format("the header's length is {}, over the limit of {} bytes: is this a safetensors file?", length,
                     safetensors_header_limit));
  }
  if (length > bytes.size()) {
    fail(fmt::format("the header's length is {}, but {} bytes follow: is the file truncated?", length, bytes.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), length);
  if (!text.starts_with('{')) fail("the header does not begin with '{'");
  // The JSON parser takes a null byte for the end of its input.
  if (const std::size_t position = text.find('\0'); position != text.npos) {
    fail(fmt::format("the header holds a null byte at its byte {}", position + 1));
  }
  safetensors_content content;
  const std::span<const std::byte> data = bytes.subspan(length);
  header_reader reader(file, data, content);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  check_coverage(file, data, content.entries);
  return content;
}

}  // namespace detail
}  // namespace nullscope
