/// The gradient of an activation function, with the column sums that a bias before it needs; bias and activation after
/// a product.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"
#include "kernels/model/activation.hpp"
#include "kernels/model/column_partials.hpp"

namespace nullscope::kernels {

/// d_x (1, rows, columns) = d_y f'(x); partial column sums of d_x per work-group, if asked for. d_x may be d_y.
template <class T, activation_kind Kind, int W, int Items>
struct activation_backward {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 3> x, d_y;
  view<T, 3> d_x;
  column_partials<T> partial;  // one part, or null
  activation_function<T, Kind> function;
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local);
    const row<T, W> sums = partial.template of<W>(members.number(), 0);
    bool is_first = true;
    for (row_range rows(x, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      walk<W, 1>(members, x.extent[2], [&](auto, std::int64_t c, auto lanes) {
        const pack<T, W> d = row_of<W>(d_y, i).load(c, lanes) * function.derivative(row_of<W>(x, i).load(c, lanes));
        row_of<W>(d_x, i).store(c, d, lanes);
        if (partial.data != nullptr) sums.store(c, is_first ? d : sums.load(c, lanes) + d, lanes);
      });
      is_first = false;
    }
  }
};

/// y = f(y + bias) in place, after a product; the sum before f goes to `pre`, if asked for.
template <class T, activation_kind Kind, int W, int Items>
struct bias_activation {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<T, 3> y, pre;      // (1, rows, columns); pre null: not asked for
  view<const T, 1> bias;  // (columns); null: zeros
  activation_function<T, Kind> function;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    const row<const T, W> offsets{bias.data, bias.stride[0]};
    for (row_range rows(y, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      walk<W, 1>(members, y.extent[2], [&](auto, std::int64_t c, auto lanes) {
        pack<T, W> value = row_of<W>(y, i).load(c, lanes);
        if (bias.data != nullptr) value += offsets.load(c, lanes);
        if (pre.data != nullptr) row_of<W>(pre, i).store(c, value, lanes);
        row_of<W>(y, i).store(c, function.value(value), lanes);
      });
    }
  }
};

}  // namespace nullscope::kernels
