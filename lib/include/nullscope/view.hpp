/// Strided views of memory that somebody else owns: how every function of the library takes its operands.
/// Kernels use this header too.
#pragma once

#include <cstdint>
#include <type_traits>

namespace nullscope {

/// An array of `Rank` dimensions over USM memory. Element (i, j, ...) is data[i * stride[0] + j * stride[1] + ...]. A
/// batch of matrices is a view<T, 3> (batch, rows, columns). Inputs may have stride 0 (one matrix for the whole batch).
template <class T, int Rank>
struct view {
  static_assert(Rank >= 1);
  using element = T;

  T* data = nullptr;
  std::int64_t extent[Rank] = {};
  std::int64_t stride[Rank] = {};

  template <class... Index>
  constexpr T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == Rank);
    std::int64_t offset = 0;
    int dimension = 0;
    ((offset += static_cast<std::int64_t>(index) * stride[dimension++]), ...);
    return data[offset];
  }

  constexpr std::int64_t size() const {
    std::int64_t count = 1;
    for (int d = 0; d < Rank; ++d) count *= extent[d];
    return count;
  }

  constexpr bool empty() const {
    for (int d = 0; d < Rank; ++d) {
      if (extent[d] == 0) return true;
    }
    return false;
  }

  /// A view for reading.
  constexpr operator view<const T, Rank>() const requires(!std::is_const_v<T>) {
    view<const T, Rank> result;
    result.data = data;
    for (int d = 0; d < Rank; ++d) {
      result.extent[d] = extent[d];
      result.stride[d] = stride[d];
    }
    return result;
  }
};

/// A view of densely packed memory, the last dimension fastest: contiguous(p, batch, rows, columns).
template <class T, class... Extent>
constexpr auto contiguous(T* data, Extent... extents) {
  constexpr int rank = sizeof...(Extent);
  view<T, rank> result{data, {static_cast<std::int64_t>(extents)...}, {}};
  std::int64_t stride = 1;
  for (int d = rank - 1; d >= 0; --d) {
    result.stride[d] = stride;
    stride *= result.extent[d];
  }
  return result;
}

/// The same elements with the last two dimensions exchanged.
template <class T, int Rank>
constexpr view<T, Rank> transposed(view<T, Rank> x) {
  static_assert(Rank >= 2);
  for (std::int64_t* numbers : {x.extent, x.stride}) {
    const std::int64_t last = numbers[Rank - 1];
    numbers[Rank - 1] = numbers[Rank - 2];
    numbers[Rank - 2] = last;
  }
  return x;
}

/// Indices [begin, begin + count) of one dimension.
template <class T, int Rank>
constexpr view<T, Rank> slice(view<T, Rank> x, int dimension, std::int64_t begin, std::int64_t count) {
  x.data += begin * x.stride[dimension];
  x.extent[dimension] = count;
  return x;
}

}  // namespace nullscope
