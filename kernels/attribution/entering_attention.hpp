/// Tangents of attention where each tangent has entered at one token only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// A tangent t that enters at token i = token[t] changes one key and one value (and one query, which is not treated
/// here). With the weight a = A(j, i) of query j and s = q_j . dk_t:
///
///   d_out(t, j) = a (scale s (v_i - out_j) + dv_t),    added to what is there if j == i, written otherwise
///
/// One group per (batch entry, query, tangent): it takes all heads. `rows_per_group` of them one after the other.
template <class T, int W, int Items>
struct entering_attention {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;

  view<const T, 4> weights;   // (batch, heads, queries, tokens that tangents enter at)
  view<const T, 4> products;  // (batch, heads, queries, tangents): q_j . dk_t
  view<const T, 4> v, out;    // (batch, heads, keys or queries, dv)
  view<const T, 4> dv;        // (tangents, batch, heads, dv): at the token of the tangent
  view<T, 5> d_out;           // (tangents, batch, heads, queries, dv)
  const std::int64_t* token;  // (tangents)
  std::int64_t first_token;   // of `weights`
  std::int64_t first_query;   // number, among the keys, of the first query
  T scale;
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local);
    const std::int64_t tangents = d_out.extent[0], queries = d_out.extent[3];
    const std::int64_t first = members.number() * rows_per_group;
    const std::int64_t last = std::min(first + rows_per_group, d_out.extent[1] * queries * tangents);
    for (std::int64_t i = first; i < last; ++i) {
      one_row(members, i / tangents / queries, i / tangents % queries, i % tangents);
    }
  }

 private:
  void one_row(const group<Items>& members, std::int64_t batch, std::int64_t query, std::int64_t t) const {
    const std::int64_t i = token[t];
    const bool adds = first_query + query == i;
    for (std::int64_t head = 0; head < d_out.extent[2]; ++head) {
      const T a = weights(batch, head, query, i - first_token);
      const numbers weight(a), factor(a * scale * products(batch, head, query, t));
      const row<const T, W> value{&v(batch, head, i, 0), v.stride[3]}, mean{&out(batch, head, query, 0), out.stride[3]},
          d_value{&dv(t, batch, head, 0), dv.stride[3]};
      const row<T, W> to{&d_out(t, batch, head, query, 0), d_out.stride[4]};
      walk<W, 1>(members, d_out.extent[4], [&](auto, std::int64_t c, auto lanes) {
        const numbers centred = value.load(c, lanes) - mean.load(c, lanes);
        const numbers result = fma(factor, centred, weight * d_value.load(c, lanes));
        to.store(c, adds ? to.load(c, lanes) + result : result, lanes);
      });
    }
  }
};

}  // namespace nullscope::kernels
