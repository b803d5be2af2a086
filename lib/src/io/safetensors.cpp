#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nullscope/core/errors.hpp>
#include <nullscope/io/safetensors.hpp>
#include <system_error>
#include <type_traits>
#include <utility>

#include "lib/src/io/safetensors_format.hpp"

namespace nullscope {

namespace {

/// The bits of a 16-bit IEEE number: 1 sign, 5 exponent, 10 mantissa.
struct half_bits {
  std::uint16_t bits;

  operator float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu, mantissa = bits & 0x3ffu;
    // A subnormal number is scaled as a normal one, since this thread may flush 32-bit subnormals to zero.
    std::uint32_t magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-24f);
    if (exponent != 0) magnitude = (exponent == 31 ? 255u : exponent + 112u) << 23 | mantissa << 13;
    return std::bit_cast<float>(sign | magnitude);
  }
};

/// To the nearest bfloat16, rounded once: on the way float keeps in its last digit whether something was cut off.
bfloat16 nearest_bfloat16(double number) {
  const float nearest = static_cast<float>(number);
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if (number == number && static_cast<double>(nearest) != number) {
    if (std::abs(static_cast<double>(nearest)) > std::abs(number)) --bits;
    bits |= 1;
  }
  return bfloat16(std::bit_cast<float>(bits));
}

/// Calls convert(i, stored) for every element, with room for it in `numbers`.
template <class Stored, class T, class Convert>
void for_each_stored(std::span<const std::byte> bytes, std::vector<T>& numbers, Convert convert) {
  numbers.resize(bytes.size() / sizeof(Stored));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    Stored stored;  // the data may be at any address
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    convert(i, stored);
  }
}

/// False if the entry holds no floating-point numbers.
template <class T>
bool read_floating_point(const safetensors_entry& entry, std::vector<T>& numbers) {
  const auto convert = [&](std::size_t i, auto stored) {
    if constexpr (std::is_same_v<T, bfloat16> && std::is_same_v<decltype(stored), double>) {
      numbers[i] = nearest_bfloat16(stored);
    } else if constexpr (std::is_same_v<T, bfloat16>) {
      numbers[i] = bfloat16(static_cast<float>(stored));
    } else {
      numbers[i] = static_cast<T>(stored);
    }
  };
  switch (entry.type) {
    case element_type::f64: for_each_stored<double>(entry.bytes, numbers, convert); return true;
    case element_type::f32: for_each_stored<float>(entry.bytes, numbers, convert); return true;
    case element_type::f16: for_each_stored<half_bits>(entry.bytes, numbers, convert); return true;
    case element_type::bf16: for_each_stored<bfloat16>(entry.bytes, numbers, convert); return true;
    default: return false;
  }
}

/// False if the entry holds no integers.
template <class T>
bool read_integers(const std::string& file, const safetensors_entry& entry, std::vector<T>& numbers) {
  const auto convert = [&](std::size_t i, auto stored) {
    if (!std::in_range<T>(stored)) {
      throw file_error(fmt::format("{}: tensor {} holds {} at element {}, which does not fit {}", file,
                                   detail::in_quotes(entry.name), stored, i, to_string(element_type_of<T>())));
    }
    numbers[i] = static_cast<T>(stored);
  };
  const auto convert_boolean = [&](std::size_t i, std::uint8_t stored) { numbers[i] = stored != 0 ? 1 : 0; };
  switch (entry.type) {
    case element_type::i64: for_each_stored<std::int64_t>(entry.bytes, numbers, convert); return true;
    case element_type::i32: for_each_stored<std::int32_t>(entry.bytes, numbers, convert); return true;
    case element_type::u8: for_each_stored<std::uint8_t>(entry.bytes, numbers, convert); return true;
    case element_type::boolean: for_each_stored<std::uint8_t>(entry.bytes, numbers, convert_boolean); return true;
    default: return false;
  }
}

[[noreturn]] void cannot_read(const std::string& file, int reason) {
  throw file_error(fmt::format("cannot read {}: {}", file, std::generic_category().message(reason)));
}

struct descriptor {
  int number;
  ~descriptor() { ::close(number); }
};

}  // namespace

void safetensors_file::unmap::operator()(const std::byte* memory) const {
  ::munmap(const_cast<std::byte*>(memory), size);
}

safetensors_file::safetensors_file(const std::filesystem::path& path) : file_(path.string()) {
  const descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe must not block
  if (file.number < 0) cannot_read(file_, errno);
  struct stat status {};
  if (::fstat(file.number, &status) != 0) cannot_read(file_, errno);
  if (S_ISDIR(status.st_mode)) cannot_read(file_, EISDIR);
  if (!S_ISREG(status.st_mode)) throw file_error(fmt::format("cannot read {}: not a regular file", file_));
  const std::size_t size = static_cast<std::size_t>(status.st_size);
  if (size > 0) {  // an empty mapping is an error of its own
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
    if (memory == MAP_FAILED) cannot_read(file_, errno);
    mapping_ = {static_cast<const std::byte*>(memory), unmap{size}};
  }
  parse({mapping_.get(), size});
}

safetensors_file::safetensors_file(std::span<const std::byte> bytes, std::string name) : file_(std::move(name)) {
  parse(bytes);
}

void safetensors_file::parse(std::span<const std::byte> bytes) {
  detail::safetensors_content content = detail::parse_safetensors(file_, bytes);
  entries_ = std::move(content.entries);
  index_ = std::move(content.index);
  metadata_ = std::move(content.metadata);
}

std::vector<std::string> safetensors_file::names() const {
  std::vector<std::string> names;
  for (const safetensors_entry& entry : entries_) names.push_back(entry.name);
  return names;
}

const safetensors_entry* safetensors_file::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

const safetensors_entry& safetensors_file::at(std::string_view name) const {
  if (const safetensors_entry* entry = find(name)) return *entry;
  constexpr std::size_t most_listed = 20;
  std::string there_are = entries_.empty() ? "no tensor" : "";
  for (std::size_t i = 0; i < std::min(entries_.size(), most_listed); ++i) {
    there_are += (i > 0 ? ", " : "") + detail::in_quotes(entries_[i].name);
  }
  if (entries_.size() > most_listed) there_are += fmt::format(" and {} more", entries_.size() - most_listed);
  throw file_error(fmt::format("{}: no tensor {}; the file holds {}", file_, detail::in_quotes(name), there_are));
}

const safetensors_entry& safetensors_file::at(std::string_view name,
                                              const std::vector<std::int64_t>& expected_shape) const {
  const safetensors_entry& entry = at(name);
  const auto fits = [](std::int64_t extent, std::int64_t expected) {
    return expected == any_extent || extent == expected;
  };
  if (!std::equal(entry.shape.begin(), entry.shape.end(), expected_shape.begin(), expected_shape.end(), fits)) {
    std::vector<std::string> expected;
    for (const std::int64_t extent : expected_shape) expected.push_back(extent < 0 ? "any" : std::to_string(extent));
    throw file_error(fmt::format("{}: tensor {} has the shape {}, expected [{}]", file_, detail::in_quotes(name),
                                 entry.shape, fmt::join(expected, ", ")));
  }
  return entry;
}

template <class T>
std::vector<T> safetensors_file::read(const safetensors_entry& entry) const {
  std::vector<T> numbers;
  if (entry.type == element_type_of<T>()) {
    numbers.resize(entry.bytes.size() / sizeof(T));
    if (!numbers.empty()) std::memcpy(numbers.data(), entry.bytes.data(), entry.bytes.size());
    return numbers;
  }
  bool is_read = false;
  if constexpr (std::is_integral_v<T>) {
    is_read = read_integers(file_, entry, numbers);
  } else {
    is_read = read_floating_point(entry, numbers);
  }
  if (!is_read) {
    throw file_error(fmt::format("{}: tensor {} is {}, which does not convert to {}", file_,
                                 detail::in_quotes(entry.name), to_string(entry.type),
                                 to_string(element_type_of<T>())));
  }
  return numbers;
}

template std::vector<double> safetensors_file::read(const safetensors_entry&) const;
template std::vector<float> safetensors_file::read(const safetensors_entry&) const;
template std::vector<bfloat16> safetensors_file::read(const safetensors_entry&) const;
template std::vector<std::int64_t> safetensors_file::read(const safetensors_entry&) const;
template std::vector<std::int32_t> safetensors_file::read(const safetensors_entry&) const;
template std::vector<std::uint8_t> safetensors_file::read(const safetensors_entry&) const;

}  // namespace nullscope
