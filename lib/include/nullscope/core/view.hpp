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

  /// No data and no extents: an operand or result that was left out.
  constexpr bool is_absent() const {
    for (int d = 0; d < Rank; ++d) {
      if (extent[d] != 0) return false;
    }
    return data == nullptr;
  }

  /// The same elements for reading, or with dimensions of extent 1 in front: a matrix (rows, columns) is a batch
  /// (1, rows, columns). What is absent stays absent.
  template <class Element, int More>
  requires((std::is_same_v<Element, T> ||
            std::is_same_v<Element, const T>)&&(More > Rank || (More == Rank && !std::is_same_v<Element, T>))) constexpr
  operator view<Element, More>() const {
    view<Element, More> result;
    result.data = data;
    if (is_absent()) return result;
    for (int d = 0; d < More; ++d) {
      const int from = d - (More - Rank);
      result.extent[d] = from < 0 ? 1 : extent[from];
      result.stride[d] = from < 0 ? 0 : stride[from];
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

/// Fixes one dimension at `index` and drops it: select(x, 0, b) is matrix b of a batch.
template <class T, int Rank>
constexpr view<T, Rank - 1> select(const view<T, Rank>& x, int dimension, std::int64_t index) {
  static_assert(Rank >= 2);
  view<T, Rank - 1> result;
  result.data = x.data + index * x.stride[dimension];
  for (int d = 0; d < Rank - 1; ++d) {
    result.extent[d] = x.extent[d < dimension ? d : d + 1];
    result.stride[d] = x.stride[d < dimension ? d : d + 1];
  }
  return result;
}

/// A new dimension of extent 1 in the place of `dimension`: add_dimension(x, 2) makes (rows, columns) (rows, columns,
/// 1).
template <class T, int Rank>
constexpr view<T, Rank + 1> add_dimension(const view<T, Rank>& x, int dimension) {
  view<T, Rank + 1> result;
  result.data = x.data;
  for (int d = 0; d <= Rank; ++d) {
    result.extent[d] = d == dimension ? 1 : x.extent[d < dimension ? d : d - 1];
    result.stride[d] = d == dimension ? 0 : x.stride[d < dimension ? d : d - 1];
  }
  return result;
}

/// Dimensions `outer` and outer + 1 can be seen as one: (batch, heads, ...) as (batch * heads, ...).
template <class T, int Rank>
constexpr bool can_merge(const view<T, Rank>& x, int outer) {
  return x.extent[outer] == 1 || x.extent[outer + 1] == 1 ||
         x.stride[outer] == x.extent[outer + 1] * x.stride[outer + 1];
}

/// The view with dimensions `outer` and outer + 1 as one; needs can_merge.
template <class T, int Rank>
constexpr view<T, Rank - 1> merge(const view<T, Rank>& x, int outer) {
  static_assert(Rank >= 2);
  view<T, Rank - 1> result;
  result.data = x.data;
  for (int d = 0; d < Rank - 1; ++d) {
    result.extent[d] = d == outer ? x.extent[d] * x.extent[d + 1] : x.extent[d < outer ? d : d + 1];
    result.stride[d] = x.stride[d < outer ? d : d + 1];
  }
  if (x.extent[outer + 1] == 1) result.stride[outer] = x.stride[outer];
  return result;
}

}  // namespace nullscope
