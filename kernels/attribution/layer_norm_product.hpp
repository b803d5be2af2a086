/// Products with the Jacobians of a layer norm, one Jacobian per token and many vectors for each.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// At token r, with z = (sum - mean) rstd, the Jacobian is J = diag(gamma) rstd (I - 1 1^T / d - z z^T / d).
///
///   y (tokens, vectors, d) = J x       or, Transposed,   J^T x
///
/// y may be x. One group per row, `rows_per_group` rows one after the other.
template <class T, int W, int Items, bool Transposed>
struct layer_norm_product {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;

  view<const T, 3> x;
  view<T, 3> y;
  view<const T, 2> sum;         // (tokens, d)
  view<const T, 1> gamma;       // (d)
  view<const T, 1> mean, rstd;  // (tokens)
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    for (row_range rows(x, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      one_row(members, rows.current());
    }
  }

 private:
  void one_row(group<Items>& members, row_index i) const {
    const std::int64_t columns = x.extent[2];
    const numbers centre(mean(i.batch)), scale(rstd(i.batch)), count(static_cast<T>(columns));
    const row<const T, W> weights{gamma.data, gamma.stride[0]}, from = row_of<W>(x, i);
    const row<const T, W> at{sum.data + i.batch * sum.stride[0], sum.stride[1]};
    const row<T, W> to = row_of<W>(y, i);
    const auto value = [&](std::int64_t c, auto lanes) {
      const numbers v = from.load(c, lanes);
      return Transposed ? v * weights.load(c, lanes) : v;
    };
    numbers total(T(0)), product(T(0));
    walk<W, 1>(members, columns, [&](auto, std::int64_t c, auto lanes) {  // lanes beyond the end have x = 0
      const numbers v = value(c, lanes);
      total += v;
      product = fma(v, (at.load(c, lanes) - centre) * scale, product);
    });
    const numbers mean_v = numbers(members.sum(total)) / count, mean_vz = numbers(members.sum(product)) / count;
    walk<W, 1>(members, columns, [&](auto, std::int64_t c, auto lanes) {
      const numbers z = (at.load(c, lanes) - centre) * scale;
      const numbers v = scale * (value(c, lanes) - mean_v - z * mean_vz);
      to.store(c, Transposed ? v : v * weights.load(c, lanes), lanes);
    });
  }
};

}  // namespace nullscope::kernels
