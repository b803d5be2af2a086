/// One row per sequence from the rows of its tokens, and back.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

enum class pool_kind { first, last, mean };

/// How much token `token` of a sequence of `length` counts.
template <class T>
T pool_weight(pool_kind kind, std::int64_t token, std::int64_t length) {
  switch (kind) {
    case pool_kind::first: return token == 0 ? T(1) : T(0);
    case pool_kind::last: return token == length - 1 ? T(1) : T(0);
    case pool_kind::mean: break;
  }
  return token < length ? T(1) / static_cast<T>(length) : T(0);
}

/// out (1, batch, d): the first token of x (batch, S, d), its last one, or the mean of its first lengths[b]. One group
/// per sequence.
template <class T, int W, int Items>
struct pool_tokens {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 3> x;
  view<T, 3> out;
  const std::int64_t* lengths;
  pool_kind kind;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    const std::int64_t b = members.number(), length = lengths[b];
    const std::int64_t begin = kind == pool_kind::last ? length - 1 : 0;
    const std::int64_t end = kind == pool_kind::first ? 1 : length;
    const T weight = pool_weight<T>(kind, begin, length);
    const auto to = row_of<W>(out, {0, b});
    walk<W, 1>(members, x.extent[2], [&](auto, std::int64_t c, auto lanes) {
      pack<T, W> sum(T(0));
      for (std::int64_t token = begin; token < end; ++token) sum += row_of<W>(x, {b, token}).load(c, lanes);
      to.store(c, sum * pack<T, W>(weight), lanes);
    });
  }
};

/// The gradient: d_x (batch, S, d) = weight of the token times d_out (1, batch, d), added to what is there if `adds`.
/// One group per token.
template <class T, int W, int Items>
struct unpool_tokens {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 3> d_out;
  view<T, 3> d_x;
  const std::int64_t* lengths;
  pool_kind kind;
  bool adds;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    const std::int64_t tokens = d_x.extent[1], b = members.number() / tokens, token = members.number() % tokens;
    const T weight = pool_weight<T>(kind, token, lengths[b]);
    if (adds && weight == T(0)) return;
    const auto to = row_of<W>(d_x, {b, token});
    const auto from = row_of<W>(d_out, {0, b});
    walk<W, 1>(members, d_x.extent[2], [&](auto, std::int64_t c, auto lanes) {
      pack<T, W> gradient = weight == T(0) ? pack<T, W>(T(0)) : from.load(c, lanes) * pack<T, W>(weight);
      if (adds) gradient += to.load(c, lanes);
      to.store(c, gradient, lanes);
    });
  }
};

}  // namespace nullscope::kernels
