/// Scores of attention into weights, in place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/attention/bias.hpp"
#include "kernels/attention/shape.hpp"
#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// x (batch, heads, rows, columns) = exp(x + bias - log_sum_exp of the row) where the query of the row sees the key of
/// the column, 0 elsewhere. The tile's first row is query `first_query`, its first column key `first_key`. One group
/// per row, `rows_per_group` rows one after the other.
template <class T, int W, int Items>
struct attention_exponentials {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;

  view<T, 4> x;
  view<const T, 3> log_sum_exp;  // (batch, heads, queries): of all queries
  score_bias<T> bias;            // of all queries and keys
  attention_visibility visibility;
  std::int64_t keys;  // of the whole matrix
  std::int64_t first_query, first_key;
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local);
    const std::int64_t first = members.number() * rows_per_group;
    const std::int64_t last = std::min(first + rows_per_group, x.extent[0] * x.extent[1] * x.extent[2]);
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t row = i % x.extent[2], matrix = i / x.extent[2];
      one_row(members, matrix / x.extent[1], matrix % x.extent[1], row);
    }
  }

 private:
  void one_row(const group<Items>& members, std::int64_t batch, std::int64_t head, std::int64_t r) const {
    const std::int64_t query = first_query + r;
    const T offset = log_sum_exp(batch, head, query);
    const bool sees_nothing = offset == -std::numeric_limits<T>::infinity();
    const std::int64_t visible = sees_nothing ? 0 : visibility.keys_of(batch, query, keys) - first_key;
    const std::int64_t seen = std::clamp<std::int64_t>(visible, 0, x.extent[3]);
    const row<T, W> to{&x(batch, head, r, 0), x.stride[3]};
    if (bias.is_present()) {
      walk<W, 4>(members, seen, [&](int, std::int64_t c, auto lanes) {
        const numbers added = bias.template of_keys<W>(batch, head, query, first_key + c);
        to.store(c, attention_weight(to.load(c, lanes) + added - numbers(offset)), lanes);
      });
    } else {
      walk<W, 4>(members, seen, [&](int, std::int64_t c, auto lanes) {
        to.store(c, attention_weight(to.load(c, lanes) - numbers(offset)), lanes);
      });
    }
    const row<T, W> rest = to.from(seen);
    walk<W, 4>(members, x.extent[3] - seen,
               [&](int, std::int64_t c, auto lanes) { rest.store(c, numbers(T(0)), lanes); });
  }
};

}  // namespace nullscope::kernels
