/// Layer normalisation of a sum, and its gradients.
#pragma once

#include <limits>
#include <nullscope/core/view.hpp>

#include "kernels/group/sub_group_size.hpp"
#include "kernels/linalg/row.hpp"
#include "kernels/model/column_partials.hpp"

namespace nullscope::kernels {

/// sum (1, rows, columns) = x + bias + residual, y = (sum - mean) rstd gamma + beta. One group per row; it takes
/// `rows_per_group` rows one after the other. The second pass corrects the rounding of the mean, as in row_layer_norm.
/// sum may be x or residual; null: not stored, and added up again in each pass. Rows of next (1, rows, n) become
/// next_bias.
template <class T, int W, int Items>
struct layer_norm_residual {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;

  view<const T, 3> x, residual;                   // residual null: none
  view<T, 3> y, sum, next;                        // sum, next null: not asked for
  view<const T, 1> gamma, beta, bias, next_bias;  // beta, bias null: zeros
  view<T, 1> mean, rstd;                          // null: not asked for
  T epsilon;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    for (row_range rows(x, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      one_row(members, rows.current());
      if (next.data == nullptr) continue;
      const row<const T, W> from{next_bias.data, next_bias.stride[0]};
      const auto to = row_of<W>(next, rows.current());
      walk<W, 1>(members, next.extent[2],
                 [&](auto, std::int64_t c, auto lanes) { to.store(c, from.load(c, lanes), lanes); });
    }
  }

 private:
  numbers added(row_index i, std::int64_t c, auto lanes) const {
    numbers value = row_of<W>(x, i).load(c, lanes);
    if (bias.data != nullptr) value += row<const T, W>{bias.data, bias.stride[0]}.load(c, lanes);
    return residual.data == nullptr ? value : value + row_of<W>(residual, i).load(c, lanes);
  }
  /// After the first pass.
  numbers value(row_index i, std::int64_t c, auto lanes) const {
    return sum.data == nullptr ? added(i, c, lanes) : row_of<W>(sum, i).load(c, lanes);
  }

  void one_row(group<Items>& members, row_index i) const {
    const std::int64_t columns = x.extent[2];
    const T count = static_cast<T>(columns);
    numbers total(T(0));
    walk<W, 1>(members, columns, [&](auto, std::int64_t c, auto lanes) {
      const numbers z = added(i, c, lanes);
      total += z;
      if (sum.data != nullptr) row_of<W>(sum, i).store(c, z, lanes);
    });
    const numbers first_mean(members.sum(total) / count);
    numbers rest(T(0)), squares(T(0));
    const auto deviation = [&](std::int64_t c, auto lanes) {
      if constexpr (std::is_same_v<decltype(lanes), first_lanes>) {  // lanes beyond the end must not count
        numbers d = value(i, c, lanes) - first_mean;
        for (int lane = 0; lane < W; ++lane) {
          if (lane >= lanes.count) d.set(lane, T(0));
        }
        return d;
      } else {
        return value(i, c, lanes) - first_mean;
      }
    };
    walk<W, 1>(members, columns, [&](auto, std::int64_t c, auto lanes) {
      const numbers d = deviation(c, lanes);
      rest += d;
      squares = fma(d, d, squares);
    });
    const T correction = members.sum(rest) / count;
    const T variance = members.sum(squares) / count - correction * correction;
    // Negative only by rounding. A variance that overflows makes the row NaN instead of zero.
    const T factor = variance < std::numeric_limits<T>::infinity()
                         ? 1 / sycl::sqrt((variance < 0 ? T(0) : variance) + epsilon)
                         : std::numeric_limits<T>::quiet_NaN();
    if (members.rank() == 0) {
      if (mean.data != nullptr) mean(i.row) = first_mean[0] + correction;
      if (rstd.data != nullptr) rstd(i.row) = factor;
    }
    const numbers scale(factor), shift(-correction * factor);
    const row<const T, W> weights{gamma.data, gamma.stride[0]}, offsets{beta.data, beta.stride[0]};
    walk<W, 1>(members, columns, [&](auto, std::int64_t c, auto lanes) {
      const numbers z = fma(value(i, c, lanes) - first_mean, scale, shift);
      const numbers offset = beta.data == nullptr ? numbers(T(0)) : offsets.load(c, lanes);
      row_of<W>(y, i).store(c, fma(z, weights.load(c, lanes), offset), lanes);
    });
  }
};

/// d_sum = rstd (g - mean(g) - z mean(g z)) + d_residual with z = (sum - mean) rstd and g = d_y gamma. Partial column
/// sums of d_y z (d_gamma), d_y (d_beta) and d_sum (d_bias) per work-group, where asked for. d_sum may be d_y or
/// d_residual.
template <class T, int W, int Items>
struct layer_norm_backward {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int sub_group_size = one_work_item ? 0 : narrow_sub_group;
  using numbers = pack<T, W>;

  view<const T, 3> sum, d_y, d_residual;  // d_residual null: none
  view<const T, 1> gamma, mean, rstd;
  view<T, 3> d_sum;
  column_partials<T> partial;  // parts: d_gamma, d_beta, d_bias; null: none asked for
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    if (partial.data != nullptr) {
      for (std::int64_t part = 0; part < partial.parts; ++part) {
        walk<W, 1>(members, partial.columns, [&](auto, std::int64_t c, auto lanes) {
          partial.template of<W>(members.number(), part).store(c, numbers(T(0)), lanes);
        });
      }
    }
    for (row_range rows(sum, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      one_row(members, rows.current());
    }
  }

 private:
  void one_row(group<Items>& members, row_index i) const {
    const std::int64_t columns = sum.extent[2];
    const numbers centre(mean(i.row)), scale(rstd(i.row)), count(static_cast<T>(columns));
    const row<const T, W> weights{gamma.data, gamma.stride[0]};
    numbers total(T(0)), product(T(0));
    walk<W, 1>(members, columns, [&](auto, std::int64_t c, auto lanes) {  // lanes beyond the end have d_y = 0
      const numbers g = row_of<W>(d_y, i).load(c, lanes) * weights.load(c, lanes);
      total += g;
      product = fma(g, (row_of<W>(sum, i).load(c, lanes) - centre) * scale, product);
    });
    const numbers mean_g = numbers(members.sum(total)) / count, mean_gz = numbers(members.sum(product)) / count;
    walk<W, 1>(members, columns, [&](auto, std::int64_t c, auto lanes) {
      const numbers dy = row_of<W>(d_y, i).load(c, lanes);
      const numbers z = (row_of<W>(sum, i).load(c, lanes) - centre) * scale;
      numbers d = scale * (dy * weights.load(c, lanes) - mean_g - z * mean_gz);
      if (d_residual.data != nullptr) d += row_of<W>(d_residual, i).load(c, lanes);
      row_of<W>(d_sum, i).store(c, d, lanes);
      if (partial.data == nullptr) return;
      const numbers terms[] = {dy * z, dy, d};
      for (std::int64_t part = 0; part < partial.parts; ++part) {
        const row<T, W> to = partial.template of<W>(members.number(), part);
        to.store(c, to.load(c, lanes) + terms[part], lanes);
      }
    });
  }
};

}  // namespace nullscope::kernels
