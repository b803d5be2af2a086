/// What least squares needs beside QR and products: rows that keep R invertible, and back substitution.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// rows (batch, n, n) = a multiple of the unit matrix: `share` of norm_b, or 1 if the norm is 0. One work-item per
/// element.
template <class T>
struct ridge_rows {
  static constexpr const char* source = __FILE__;

  view<const T, 1> norm;  // (batch)
  view<T, 3> rows;
  T share;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t n = rows.extent[1], index = static_cast<std::int64_t>(item.get_global_linear_id());
    if (index >= rows.extent[0] * n * n) return;
    const std::int64_t b = index / (n * n), i = index / n % n, j = index % n;
    const T ridge = norm(b) == T(0) ? T(1) : share * norm(b);
    rows(b, i, j) = i == j ? ridge : T(0);
  }
};

/// x (batch, n, k) = R^-1 c for upper triangular r (batch, n, n) and c (batch, n, k); x may be c. One lane per column.
template <class T, int W>
struct back_substitution {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = W > 1;
  using numbers = pack<T, W>;

  view<const T, 3> r, c;
  view<T, 3> x;
  std::int64_t strips;  // of W columns

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t index = static_cast<std::int64_t>(item.get_global_linear_id());
    if (index >= x.extent[0] * strips) return;
    const std::int64_t b = index / strips, column = index % strips * W, left = x.extent[2] - column;
    if constexpr (W > 1) {
      if (left < W) return solve(b, column, first_lanes{left});
    }
    solve(b, column, all_lanes{});
  }

 private:
  template <class Lanes>
  void solve(std::int64_t b, std::int64_t column, Lanes lanes) const {
    const std::int64_t n = x.extent[1];
    for (std::int64_t i = n - 1; i >= 0; --i) {
      numbers sum[2] = {row_of<W>(c, {b, i}).load(column, lanes), numbers(T(0))};
      std::int64_t j = i + 1;
      for (; j + 1 < n; j += 2) {
        sum[0] = fma(numbers(-r(b, i, j)), row_of<W>(x, {b, j}).load(column, lanes), sum[0]);
        sum[1] = fma(numbers(-r(b, i, j + 1)), row_of<W>(x, {b, j + 1}).load(column, lanes), sum[1]);
      }
      if (j < n) sum[0] = fma(numbers(-r(b, i, j)), row_of<W>(x, {b, j}).load(column, lanes), sum[0]);
      row_of<W>(x, {b, i}).store(column, (sum[0] + sum[1]) / numbers(r(b, i, i)), lanes);
    }
  }
};

}  // namespace nullscope::kernels
