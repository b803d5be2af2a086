/// What is added to the scores of attention, and how the kernels read it.
#pragma once

#include <cstdint>
#include <nullscope/core/view.hpp>
#include <utility>

#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

namespace detail {

/// W numbers that end at `last`, the last one first.
template <int W, class T, int... Lane>
pack<T, W> load_backwards(const T* last, std::integer_sequence<int, Lane...>) {
  const pack<T, W> x = load<W>(last - (W - 1));
  if constexpr (W == 1) {
    return x;
  } else {
    return pack<T, W>::from(__builtin_shufflevector(x.lanes, x.lanes, (W - 1 - Lane)...));
  }
}

}  // namespace detail

/// The bias (batch, heads, queries, keys), with any strides, times `factor`. Kernels that keep scores without their
/// scale start each score from bias / scale.
template <class T>
struct score_bias {
  view<const T, 4> values;  // null: no bias
  T factor;

  bool is_present() const { return values.data != nullptr; }

  /// Of one query and key, or 0 beyond the matrix.
  T at(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key) const {
    const bool is_inside = query < values.extent[2] && key < values.extent[3];
    return is_inside ? factor * values(batch, head, query, key) : T(0);
  }

  /// Of W queries and one key, which is inside. Lanes beyond the last query are 0.
  template <int W>
  pack<T, W> of_queries(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key) const {
    return along<2, W>(batch, head, query, key, values.extent[2] - query);
  }

  /// Of W keys and one query; lanes beyond the last key are 0, and all if the query is beyond the last.
  template <int W>
  pack<T, W> of_keys(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key) const {
    return along<3, W>(batch, head, query, key, query < values.extent[2] ? values.extent[3] - key : 0);
  }

 private:
  template <int Dimension, int W>
  pack<T, W> along(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key,
                   std::int64_t inside) const {
    if (inside <= 0) return pack<T, W>(T(0));
    const T* from = &values(batch, head, query, key);
    const std::int64_t stride = values.stride[Dimension];
    pack<T, W> x(T(0));
    if (inside >= W && stride == 1) {
      x = load<W>(from);
    } else if (inside >= W && stride == -1) {
      x = detail::load_backwards<W>(from, std::make_integer_sequence<int, W>{});
    } else {
      for (int lane = 0; lane < W && lane < inside; ++lane) x.set(lane, from[lane * stride]);
    }
    return pack<T, W>(factor) * x;
  }
};

}  // namespace nullscope::kernels
