/// How far the outputs of probes are from the tokens that they should find, and the gradient.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/probes/state_rows.hpp"

namespace nullscope::kernels {

/// loss (probes, rows) of y (probes, rows, d) against target x: |y - x|^2, or 1 - y x / (|y| |x|); 0 behind the end of
/// a list. If `overwrites`, y becomes the gradient of the mean over the rows that are left, at most `rows`. A vector of
/// length 0 has cosine 0 with all others, and no gradient. One group per row.
template <class T, int W, int Items>
struct probe_loss {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;

  state_rows<T> states;
  probe_lists lists;
  view<T, 3> y;
  view<T, 2> loss;
  bool is_cosine, overwrites;
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    for (row_range rows(y, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      const std::int64_t left = sycl::min(lists.left(i.batch), y.extent[1]);
      if (i.row >= left) {
        if (members.rank() == 0) loss(i.batch, i.row) = T(0);
        if (overwrites) clear(members, i);
        continue;
      }
      const std::int64_t token = lists.token(i.batch, i.row) + lists.offset;
      const row<const T, W> x = states.template at<W>(lists.of_probe[i.batch].target, token);
      const T of_row = is_cosine ? angle(members, i, x, T(1) / left) : distance(members, i, x, T(2) / left);
      if (members.rank() == 0) loss(i.batch, i.row) = of_row;
    }
  }

 private:
  void clear(const group<Items>& members, row_index i) const {
    const auto to = row_of<W>(y, i);
    walk<W, 1>(members, states.width, [&](auto, std::int64_t c, auto lanes) { to.store(c, numbers(T(0)), lanes); });
  }

  T distance(group<Items>& members, row_index i, const row<const T, W>& x, T scale) const {
    const auto of_y = row_of<W>(y, i);
    numbers squares(T(0));
    walk<W, 1>(members, states.width, [&](auto, std::int64_t c, auto lanes) {
      const numbers difference = of_y.load(c, lanes) - x.load(c, lanes);
      squares = fma(difference, difference, squares);
      if (overwrites) of_y.store(c, numbers(scale) * difference, lanes);
    });
    return members.sum(squares);
  }

  /// The gradient of -y x / (|y| |x|) is (y (y x) / |y|^2 - x) / (|y| |x|).
  T angle(group<Items>& members, row_index i, const row<const T, W>& x, T scale) const {
    const auto of_y = row_of<W>(y, i);
    numbers products(T(0)), y_squares(T(0)), x_squares(T(0));
    walk<W, 1>(members, states.width, [&](auto, std::int64_t c, auto lanes) {
      const numbers a = of_y.load(c, lanes), b = x.load(c, lanes);
      products = fma(a, b, products);
      y_squares = fma(a, a, y_squares);
      x_squares = fma(b, b, x_squares);
    });
    const T product = members.sum(products), of_y_squared = members.sum(y_squares);
    const T lengths = sycl::sqrt(of_y_squared) * sycl::sqrt(members.sum(x_squares));
    const bool has_angle = !(lengths == T(0));  // NaN stays NaN
    if (overwrites) {
      const numbers along(has_angle ? scale * product / (of_y_squared * lengths) : T(0));
      const numbers towards(has_angle ? scale / lengths : T(0));
      walk<W, 1>(members, states.width, [&](auto, std::int64_t c, auto lanes) {
        of_y.store(c, along * of_y.load(c, lanes) - towards * x.load(c, lanes), lanes);
      });
    }
    return has_angle ? T(1) - product / lengths : T(1);
  }
};

}  // namespace nullscope::kernels
