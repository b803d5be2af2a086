/// Which token of its sentence the output of a probe is nearest to.
#pragma once

#include <limits>
#include <nullscope/core/view.hpp>

#include "kernels/probes/state_rows.hpp"

namespace nullscope::kernels {

/// correct (probes, rows): 1 if the token of the sentence whose target state is nearest to y is the right one, or has
/// the same state as the right one; the first of equals is the nearest, and NaN never is. 0 otherwise, and behind the
/// end of a list. By |y - x|^2, or by the cosine, for which `norms` (planes, tokens) are the lengths of the states.
/// One group per row.
template <class T, int W, int Items>
struct nearest_token {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;

  state_rows<T> states;
  probe_lists lists;
  const std::int32_t *begin, *end;  // (tokens): of the sentence of each token
  const T* norms;
  bool is_cosine;
  view<const T, 3> y;
  view<std::int32_t, 2> correct;
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    for (row_range rows(y, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      const bool is_right = i.row < lists.left(i.batch) && finds(members, i);
      if (members.rank() == 0) correct(i.batch, i.row) = is_right ? 1 : 0;
    }
  }

 private:
  static constexpr int together = 4;  // tokens that share the loads of y

  bool finds(group<Items>& members, row_index i) const {
    const std::int64_t plane = lists.of_probe[i.batch].target, token = lists.token(i.batch, i.row);
    const std::int64_t own = token + lists.offset, last = end[token] - 1;
    T smallest = std::numeric_limits<T>::infinity(), of_own = std::numeric_limits<T>::quiet_NaN();
    std::int64_t nearest = -1;
    for (std::int64_t j = begin[token]; j <= last; j += together) {
      T scores[together];
      score(members, i, plane, j, last, scores);
      for (int r = 0; r < together && j + r <= last; ++r) {
        if (j + r == own) of_own = scores[r];
        if (!(scores[r] < smallest)) continue;
        smallest = scores[r];
        nearest = j + r;
      }
    }
    if (nearest == own) return true;
    return nearest >= 0 && smallest == of_own && is_same(members, plane, nearest, own);
  }

  /// Of tokens j, j + 1, ..., or of the last one again.
  void score(group<Items>& members, row_index i, std::int64_t plane, std::int64_t j, std::int64_t last,
             T (&scores)[together]) const {
    const auto of_y = row_of<W>(y, i);
    row<const T, W> x[together];
    for (int r = 0; r < together; ++r) x[r] = states.template at<W>(plane, sycl::min(j + r, last));
    numbers total[together];
    for (numbers& one : total) one = numbers(T(0));
    walk<W, 1>(members, states.width, [&](auto, std::int64_t c, auto lanes) {
      const numbers a = of_y.load(c, lanes);
      unrolled<together>([&](auto r) {
        const numbers b = x[r].load(c, lanes), difference = a - b;
        total[r] = is_cosine ? fma(a, b, total[r]) : fma(difference, difference, total[r]);
      });
    });
    for (int r = 0; r < together; ++r) {
      const T sum = members.sum(total[r]);
      scores[r] = is_cosine ? -sum / norms[plane * states.tokens + sycl::min(j + r, last)] : sum;
    }
  }

  bool is_same(group<Items>& members, std::int64_t plane, std::int64_t a, std::int64_t b) const {
    const auto of_a = states.template at<W>(plane, a), of_b = states.template at<W>(plane, b);
    numbers total(T(0));
    walk<W, 1>(members, states.width,
               [&](auto, std::int64_t c, auto lanes) { total += abs(of_a.load(c, lanes) - of_b.load(c, lanes)); });
    return members.sum(total) == T(0);
  }
};

}  // namespace nullscope::kernels
