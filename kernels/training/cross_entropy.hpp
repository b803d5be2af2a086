/// Softmax cross-entropy of rows with labels, in three steps: per row, over all rows, gradients.
#pragma once

#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// Of each row of logits (1, rows, classes): log_sum_exp, -log p(label), and the class of the largest logit, the first
/// of equals. A row with a negative label, or one that is out of range, does not count. One group per row.
template <class T, int Items>
struct cross_entropy_rows {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 3> logits;
  view<const std::int32_t, 1> labels;
  T* log_sum_exp;                         // (rows)
  T* loss;                                // (rows): 0 where the row does not count, NaN if its label is out of range
  std::int32_t* prediction;               // (rows)
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    const std::int64_t row = members.number(), classes = logits.extent[2];
    const auto values = row_of<1>(logits, {0, row});
    T largest = -std::numeric_limits<T>::infinity();
    T best = static_cast<T>(classes);  // the place of the largest, as a number that a group can reduce
    for (std::int64_t c = members.rank(); c < classes; c += Items) {
      const T x = values.load(c, all_lanes{}).lanes;
      if (!(x <= largest)) {
        largest = x;
        best = static_cast<T>(c);
      }
    }
    const T of_row = members.reduce(pack<T, 1>(largest), [](auto a, auto b) { return max_or_nan(a, b); });
    const bool has_it = !(largest < of_row);
    const T first = -members.largest(pack<T, 1>(has_it ? -best : -static_cast<T>(classes)));
    // Before the next barrier: with several groups in a work-group, Intel's CPU compiler keeps one value for all of
    // them.
    if (members.rank() == 0) prediction[row] = static_cast<std::int32_t>(first);
    pack<T, 1> sum(T(0));
    for (std::int64_t c = members.rank(); c < classes; c += Items) {
      sum += pack<T, 1>(sycl::exp(values.load(c, all_lanes{}).lanes - of_row));
    }
    const T log_sum = of_row + sycl::log(members.sum(sum));
    if (members.rank() != 0) return;
    const std::int32_t label = labels(row);
    log_sum_exp[row] = log_sum;
    if (label >= classes) {
      loss[row] = std::numeric_limits<T>::quiet_NaN();
    } else {
      loss[row] = label < 0 ? T(0) : log_sum - values.load(label, all_lanes{}).lanes;
    }
  }
};

/// loss (1) = mean of the rows that count, correct (1), share (1) = 1 / rows that count. One group.
template <class T, int Items>
struct cross_entropy_mean {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  const T* row_loss;
  const std::int32_t* prediction;
  view<const std::int32_t, 1> labels;
  T *loss, *share;
  std::int64_t* correct;  // null: not asked for

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    pack<T, 1> total(T(0)), count(T(0)), right(T(0));
    constexpr std::int64_t block = 64;  // summed from zero, so that many rows lose no precision
    const std::int64_t rows = labels.extent[0];
    for (std::int64_t begin = members.rank() * block; begin < rows; begin += Items * block) {
      pack<T, 1> part(T(0));
      for (std::int64_t row = begin; row < sycl::min(begin + block, rows); ++row) {
        const std::int32_t label = labels(row);
        if (label < 0) continue;
        part += pack<T, 1>(row_loss[row]);
        count += pack<T, 1>(T(1));
        if (label == prediction[row]) right += pack<T, 1>(T(1));
      }
      total += part;
    }
    const T sum = members.sum(total), counted = members.sum(count), matched = members.sum(right);
    if (members.rank() != 0) return;
    const T per_row = counted > T(0) ? 1 / counted : T(0);
    *share = per_row;
    *loss = sum * per_row;
    if (correct != nullptr) *correct = static_cast<std::int64_t>(matched);
  }
};

/// d_logits (1, rows, classes) = (softmax(logits) - one at the label) share, 0 where the row does not count. d_logits
/// may be logits. One group per row.
template <class T, int Items>
struct cross_entropy_gradient {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 3> logits;
  view<const std::int32_t, 1> labels;
  const T *log_sum_exp, *share;
  view<T, 3> d_logits;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    const std::int64_t row = members.number();
    const std::int32_t label = labels(row);
    const auto from = row_of<1>(logits, {0, row});
    const auto to = row_of<1>(d_logits, {0, row});
    for (std::int64_t c = members.rank(); c < logits.extent[2]; c += Items) {
      const T p = sycl::exp(from.load(c, all_lanes{}).lanes - log_sum_exp[row]);
      const T gradient = (p - (c == label ? T(1) : T(0))) * *share;
      to.store(c, pack<T, 1>(label < 0 ? T(0) : gradient), all_lanes{});
    }
  }
};

/// d_x = y (d_y - sum of d_y y) along each row of (batch, rows, columns); d_x may be d_y. One group per row.
template <class T, int W, int Items>
struct softmax_backward {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 3> x, d_y;  // x: the softmax
  view<T, 3> d_x;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    for (row_range rows(x, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      pack<T, W> product(T(0));
      walk<W, 1>(members, x.extent[2], [&](auto, std::int64_t c, auto lanes) {
        product = fma(row_of<W>(x, i).load(c, lanes), row_of<W>(d_y, i).load(c, lanes), product);
      });
      const pack<T, W> sum(members.sum(product));
      walk<W, 1>(members, x.extent[2], [&](auto, std::int64_t c, auto lanes) {
        const pack<T, W> d = row_of<W>(d_y, i).load(c, lanes) - sum;
        row_of<W>(d_x, i).store(c, row_of<W>(x, i).load(c, lanes) * d, lanes);
      });
    }
  }
};

}  // namespace nullscope::kernels
