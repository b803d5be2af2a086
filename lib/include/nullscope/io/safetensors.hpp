/// Reading and writing safetensors files: named tensors with a type and a shape, behind a JSON header.
///
///   const safetensors_file file("model.safetensors");
///   const tensor<float> weight = file.load<float>(queue, "encoder.weight", {any_extent, 384});
///
///   const std::vector<float> scores = result.to_host();
///   write_safetensors("scores.safetensors", {make_entry("scores", result.shape(), scores)}, {{"model", "bert"}});
///
/// Host code that needs no SYCL; include <nullscope/core/tensor.hpp> to use `load`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nullscope/core/bfloat16.hpp>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace nullscope {

template <class T>
class tensor;

/// The types of the format. Those up to `boolean` are converted when they are read; tensors of the others are listed
/// with their bytes.
enum class element_type {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  u8,
  boolean,
  u64,
  u32,
  u16,
  i16,
  i8,
  c64,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f6_e2m3,
  f6_e3m2,
  f4
};

/// Bits of one element; elements of f4, f6_e2m3 and f6_e3m2 share bytes.
std::int64_t bits_of(element_type type);

/// The name that the format uses: "F64", "BF16", "BOOL", "F8_E4M3" and so on.
std::string_view to_string(element_type type);

/// The element type that is stored as T; there is no C++ type for f16.
template <class T>
constexpr element_type element_type_of() {
  if constexpr (std::is_same_v<T, double>) {
    return element_type::f64;
  } else if constexpr (std::is_same_v<T, float>) {
    return element_type::f32;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return element_type::bf16;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return element_type::i64;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return element_type::i32;
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    return element_type::u8;
  } else {
    static_assert(std::is_same_v<T, bool>, "no element type is stored as T");
    return element_type::boolean;
  }
}

/// In the shape that a caller expects: any extent will do.
inline constexpr std::int64_t any_extent = -1;

/// One tensor, densely packed, the last dimension fastest, little-endian. The bytes belong to somebody else, and may
/// start at any address.
struct safetensors_entry {
  std::string name;
  element_type type;
  std::vector<std::int64_t> shape;  ///< empty: one number
  std::span<const std::byte> bytes;
};

/// An entry over numbers that the caller keeps until it is written.
template <std::ranges::contiguous_range Numbers>
requires std::ranges::borrowed_range<Numbers> safetensors_entry make_entry(std::string name,
                                                                           std::vector<std::int64_t> shape,
                                                                           Numbers&& numbers) {
  const std::span view(std::ranges::data(numbers), std::ranges::size(numbers));
  using element = std::remove_cv_t<typename decltype(view)::element_type>;
  return {std::move(name), element_type_of<element>(), std::move(shape), std::as_bytes(view)};
}

using safetensors_metadata = std::map<std::string, std::string>;

/// A file that was opened for reading: memory-mapped, checked as a whole, move-only. It must not be shortened while it
/// is open; replacing it, as `write_safetensors` does, is fine. Every error is a file_error that names the file and the
/// tensor.
class safetensors_file {
 public:
  /// Throws file_error if the file cannot be opened or is malformed in any way: the tensors must be of types that the
  /// format knows, lie within the file and cover it without a hole or an overlap, and no name may occur twice.
  explicit safetensors_file(const std::filesystem::path& path);

  /// A file that is in memory already; the caller keeps `bytes`. `name` stands for the path in messages.
  safetensors_file(std::span<const std::byte> bytes, std::string name);

  /// The tensors in the order of the header.
  const std::vector<safetensors_entry>& entries() const { return entries_; }
  std::vector<std::string> names() const;
  const safetensors_metadata& metadata() const { return metadata_; }

  /// The tensor, or null if there is none of that name.
  const safetensors_entry* find(std::string_view name) const;

  /// The tensor. Throws file_error with the names that there are, or if its shape is not the one expected, in which
  /// `any_extent` stands for any.
  const safetensors_entry& at(std::string_view name) const;
  const safetensors_entry& at(std::string_view name, const std::vector<std::int64_t>& expected_shape) const;

  /// The numbers of an entry of this file. T is double, float or bfloat16 for F64, F32, F16 and BF16 (rounded to
  /// nearest), or int64_t, int32_t or uint8_t for I64, I32, U8 and BOOL. Throws file_error on another type, such as
  /// F8_E4M3 or I8, whose `bytes` the caller may take as they are, or if an integer does not fit.
  template <class T>
  std::vector<T> read(const safetensors_entry& entry) const;
  template <class T>
  std::vector<T> read(std::string_view name) const {
    return read<T>(at(name));
  }

  /// The same as a tensor on the device of the queue; blocks until it is there.
  template <class T, class Queue>
  tensor<T> load(const Queue& queue, const safetensors_entry& entry) const {
    const void* data = entry.bytes.data();
    if (entry.type != element_type_of<T>() || reinterpret_cast<std::uintptr_t>(data) % alignof(T) != 0) {
      return tensor<T>(queue, entry.shape, read<T>(entry));
    }
    return tensor<T>(queue, entry.shape, std::span(static_cast<const T*>(data), entry.bytes.size() / sizeof(T)));
  }
  template <class T, class Queue>
  tensor<T> load(const Queue& queue, std::string_view name) const {
    return load<T>(queue, at(name));
  }
  template <class T, class Queue>
  tensor<T> load(const Queue& queue, std::string_view name, const std::vector<std::int64_t>& expected_shape) const {
    return load<T>(queue, at(name, expected_shape));
  }

 private:
  struct unmap {
    std::size_t size;
    void operator()(const std::byte* memory) const;
  };

  void parse(std::span<const std::byte> bytes);

  std::string file_;
  std::unique_ptr<const std::byte, unmap> mapping_;  // null if the bytes are the caller's
  std::vector<safetensors_entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
  safetensors_metadata metadata_;
};

/// Writes a file that holds the tensors, listed in the given order; their data lies in the order of descending element
/// size, so that all of it is aligned. The file is written beside `path`, synchronised and renamed: whatever happens,
/// `path` is the whole new file or what it was before. Throws invalid_argument if an entry's shape does not fit its
/// bytes, or if a name is used twice or reserved, and file_error with the path and the system's reason.
void write_safetensors(const std::filesystem::path& path, const std::vector<safetensors_entry>& entries,
                       const safetensors_metadata& metadata = {});

}  // namespace nullscope
