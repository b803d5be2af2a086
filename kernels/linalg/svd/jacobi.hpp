/// SVD by one-sided Jacobi rotations, one work-group per matrix: columns are rotated in pairs until all are orthogonal;
/// their lengths are then the singular values, and the product of the rotations is V. The n / 2 pairs of a round are
/// disjoint and are dealt to the groups of the work-group; n - 1 rounds visit every pair once. On a CPU there is one
/// work-item with wide packs.
#pragma once

#include <cstddef>

#include "kernels/group/group.hpp"
#include "kernels/linalg/svd/jacobi_layout.hpp"
#include "kernels/linalg/svd/problem.hpp"
#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// Range: work-groups of groups of Items work-items, one work-item if Items is 1; work-group g takes matrices g, g +
/// work-groups and so on. Local memory: that of the groups, then the matrix, if `scratch` is null.
template <class T, int W, int Items>
struct svd_jacobi {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int sub_group_size = one_work_item ? 0 : Items;  // sums of a pair of columns then need no barrier
  using P = pack<T, W>;

  svd_jacobi_layout layout;
  svd_problem<T> problem;
  T* scratch;  ///< (groups, layout.size()); null: the matrix fits local memory

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    work_items items{all_items(item), column_items(item, local)};
    const std::size_t of_groups = static_cast<std::size_t>(items.columns.groups()) * column_items::local_bytes;
    T* const memory =
        scratch == nullptr ? reinterpret_cast<T*>(local + of_groups) : scratch + items.all.number() * layout.size();
    const std::int64_t work_groups = static_cast<std::int64_t>(item.get_group_range(0));
    for (std::int64_t b = items.all.number(); b < problem.batch(); b += work_groups) {
      decompose(items, b, memory);
      items.all.barrier();
    }
  }

 private:
  static constexpr T negligible = negligible_square<T>;

  using all_items = group<one_work_item ? 1 : whole_work_group>;
  using column_items = group<Items>;
  /// The work-items of a matrix, and those that share a column or a pair of columns.
  struct work_items {
    all_items all;
    column_items columns;

    /// Calls body(k, is_there) for the k of [0, count) that belong to this group. Since the groups sum up at the same
    /// time, all make the same number of calls: one that has no k left gets is_there = false.
    template <class Body>
    void for_groups(std::int64_t count, Body body) const {
      for (std::int64_t first = 0; first < count; first += columns.groups()) {
        body(first + columns.index(), one_work_item || first + columns.index() < count);
      }
    }

    /// Calls body(offset) for the packs of a padded column that belong to this work-item of its group.
    template <class Body>
    void for_packs(std::int64_t length, Body body) const {
      for (std::int64_t i = columns.rank() * W; i < length; i += Items * W) body(i);
    }
  };

  T* column_of_a(T* memory, std::int64_t j) const { return memory + j * layout.padded(layout.m); }
  T* column_of_v(T* memory, std::int64_t j) const { return memory + layout.v() + j * layout.padded(layout.n); }

  /// The inner product of two columns, over a group; zero if it has none.
  T dot(work_items& items, const T* x, const T* y, bool are_there = true) const {
    P total(0);
    if (are_there) {
      items.for_packs(layout.padded(layout.m),
                      [&](std::int64_t i) { total = fma(load<W>(x + i), load<W>(y + i), total); });
    }
    return items.columns.sum(total);
  }

  /// The square root of x > 0, accurate to the last digit even where the device's own is not.
  static T root(T x) {
    const T estimate = sycl::sqrt(x);
    return estimate + sycl::fma(-estimate, estimate, x) / (2 * estimate);
  }

  void decompose(work_items& items, std::int64_t b, T* memory) const {
    T scale;
    if (!load_matrix(items, b, memory, scale)) {
      fill_with_nan(items, b);
      return;
    }
    std::int64_t sweep = 0;
    bool is_converged = false;
    while (!is_converged && sweep < problem.max_sweeps) {
      is_converged = run_sweep(items, memory);
      ++sweep;
    }
    if (items.all.rank() == 0) problem.report(b, is_converged ? 0 : 1, sweep);
    normalise(items, memory);
    if (layout.u_columns > 0) {
      T* const values = memory + layout.values();
      for (std::int64_t j = 0; j < layout.u_columns; ++j) {  // columns of u that a does not determine
        items.all.barrier();
        if (j >= layout.n || values[j] == T(0)) complete(items, memory, j);
      }
    }
    store(items, b, memory, scale);
  }

  /// Scaled columns of matrix b, and the identity for V. Returns false if there is NaN or infinity.
  bool load_matrix(work_items& items, std::int64_t b, T* memory, T& scale) const {
    const std::int64_t m = layout.m, n = layout.n;
    T most = 0, zero = 0;
    for (std::int64_t i = items.all.rank(); i < m * n; i += items.all.size()) {
      const T element = problem.a(b, i / n, i % n);
      most = sycl::fmax(most, sycl::fabs(element));
      zero += element * T(0);  // NaN if the element is not finite
    }
    most = items.columns.reduce_all(most, [](T x, T y) { return sycl::fmax(x, y); });
    if (items.columns.anywhere(zero != T(0))) return false;
    scale = scale_to_one(most);
    const std::int64_t rows = layout.padded(m);
    for (std::int64_t i = items.all.rank(); i < rows * n; i += items.all.size()) {
      const std::int64_t r = i % rows, c = i / rows;
      memory[i] = r < m ? problem.a(b, r, c) * scale : T(0);
    }
    if (layout.u_columns > 0) {
      const std::int64_t v_rows = layout.padded(n);
      for (std::int64_t i = items.all.rank(); i < v_rows * n; i += items.all.size()) {
        memory[layout.v() + i] = T(i % v_rows == i / v_rows);
      }
    }
    items.all.barrier();
    return true;
  }

  /// Visits every pair of columns once. Returns whether all were orthogonal already.
  bool run_sweep(work_items& items, T* memory) const {
    const std::int64_t players = layout.n + layout.n % 2;  // one rests if n is odd
    bool has_rotated = false;
    for (std::int64_t round = 0; round + 1 < players; ++round) {
      items.for_groups(players / 2, [&](std::int64_t k, bool is_there) {
        const std::int64_t others = players - 1;  // the last player stays, the others rotate
        std::int64_t p = k == 0 ? others : (round + k) % others;
        std::int64_t q = k == 0 ? round : (round + others - k) % others;
        if (p > q) {
          const std::int64_t larger = p;
          p = q;
          q = larger;
        }
        if (rotate(items, memory, p, q, is_there && q < layout.n)) has_rotated = true;
      });
      items.all.barrier();
    }
    return !items.columns.anywhere(has_rotated);
  }

  /// Makes columns p < q orthogonal, the longer one first, if they exist. Returns whether anything had to be done.
  bool rotate(work_items& items, T* memory, std::int64_t p, std::int64_t q, bool are_there) const {
    T* const x = column_of_a(memory, p);
    T* const y = column_of_a(memory, q);
    P xx(0), yy(0), xy(0);
    if (are_there) {
      items.for_packs(layout.padded(layout.m), [&](std::int64_t i) {
        const P from_x = load<W>(x + i), from_y = load<W>(y + i);
        xx = fma(from_x, from_x, xx);
        yy = fma(from_y, from_y, yy);
        xy = fma(from_x, from_y, xy);
      });
    }
    const T alpha = items.columns.sum(xx), beta = items.columns.sum(yy), gamma = items.columns.sum(xy);
    const T tolerance = std::numeric_limits<T>::epsilon() * sycl::fmax(T(4), sycl::sqrt(T(layout.m)) / 2);
    const bool is_needed =
        alpha > negligible && beta > negligible && sycl::fabs(gamma) > tolerance * sycl::sqrt(alpha) * sycl::sqrt(beta);
    T cosine = 1, sine = 0;
    if (is_needed) {
      const T zeta = (beta - alpha) / (2 * gamma);
      const T size = sycl::fabs(zeta);
      const bool is_small_angle = size > 1 / std::numeric_limits<T>::epsilon();  // 1 + zeta^2 may overflow
      const T tangent = is_small_angle ? 1 / (2 * size) : 1 / (size + sycl::sqrt(1 + size * size));
      cosine = 1 / sycl::sqrt(1 + tangent * tangent);
      sine = zeta < 0 ? -cosine * tangent : cosine * tangent;
      // Devices may round square roots and quotients of floats inaccurately; thousands of rotations would add that up.
      const T correction = sycl::fma(-sine, sine, sycl::fma(-cosine, cosine, T(1))) / 2;
      cosine = sycl::fma(cosine, correction, cosine);
      sine = sycl::fma(sine, correction, sine);
    }
    const bool is_swapped = alpha < beta;
    if (!is_needed && !is_swapped) return false;
    // x' = c x - s y, y' = s x + c y, exchanged if y is longer
    const P from_x_to_x(is_swapped ? sine : cosine), from_y_to_x(is_swapped ? cosine : -sine);
    const P from_x_to_y(is_swapped ? cosine : sine), from_y_to_y(is_swapped ? -sine : cosine);
    const auto mix = [&](T* first, T* second, std::int64_t length) {
      items.for_packs(length, [&](std::int64_t i) {
        const P from_x = load<W>(first + i), from_y = load<W>(second + i);
        kernels::store(first + i, fma(from_x_to_x, from_x, from_y_to_x * from_y));
        kernels::store(second + i, fma(from_x_to_y, from_x, from_y_to_y * from_y));
      });
    };
    mix(x, y, layout.padded(layout.m));
    if (layout.u_columns > 0) mix(column_of_v(memory, p), column_of_v(memory, q), layout.padded(layout.n));
    return true;  // a pair that only changed places may have missed another one in this sweep
  }

  /// values (n) = lengths of the columns, which become unit vectors.
  void normalise(work_items& items, T* memory) const {
    items.for_groups(layout.n, [&](std::int64_t j, bool is_there) {
      T* const x = column_of_a(memory, j);
      const T square = dot(items, x, x, is_there);
      if (!is_there) return;
      const T length = square > negligible ? root(square) : T(0);
      items.for_packs(layout.padded(layout.m), [&](std::int64_t i) {
        const P element = load<W>(x + i);
        kernels::store(x + i, length > T(0) ? element / P(length) : P(0));
      });
      if (items.columns.rank() == 0) memory[layout.values() + j] = length;
    });
    items.all.barrier();
  }

  /// Column j of u becomes a unit vector orthogonal to those before it and to all that a determines: the axis that is
  /// farthest from them, orthogonalised three times.
  void complete(work_items& items, T* memory, std::int64_t j) const {
    const std::int64_t m = layout.m, rows = layout.padded(m);
    const T* const values = memory + layout.values();
    T* const sums = memory + layout.row_sums();
    T* const coefficients = memory + layout.coefficients();
    T* const x = column_of_a(memory, j);
    const auto is_there = [&](std::int64_t k) { return k < j || (k < layout.n && values[k] > T(0)); };
    const std::int64_t columns = layout.n > j ? layout.n : j;
    for (std::int64_t r = items.all.rank(); r < m; r += items.all.size()) {
      T total = 0;
      for (std::int64_t k = 0; k < columns; ++k) {
        const T element = is_there(k) ? memory[k * rows + r] : T(0);
        total += element * element;
      }
      sums[r] = total;
    }
    items.all.barrier();
    std::int64_t axis = 0;
    for (std::int64_t r = 1; r < m; ++r) axis = sums[r] < sums[axis] ? r : axis;
    for (std::int64_t r = items.all.rank(); r < rows; r += items.all.size()) x[r] = T(r == axis);
    items.all.barrier();
    for (int pass = 0; pass < 3; ++pass) {
      items.for_groups(columns, [&](std::int64_t k, bool is_mine) {
        const T product = dot(items, column_of_a(memory, k), x, is_mine && is_there(k));
        if (is_mine && items.columns.rank() == 0) coefficients[k] = product;
      });
      items.all.barrier();
      for (std::int64_t r = items.all.rank(); r < m; r += items.all.size()) {
        T element = x[r];
        for (std::int64_t k = 0; k < columns; ++k) {
          if (is_there(k)) element -= coefficients[k] * memory[k * rows + r];
        }
        x[r] = element;
      }
      items.all.barrier();
      const T length = root(dot(items, x, x));
      items.all.barrier();  // every group has read x
      for (std::int64_t r = items.all.rank(); r < m; r += items.all.size()) x[r] /= length;
      items.all.barrier();
    }
  }

  void store(work_items& items, std::int64_t b, T* memory, T scale) const {
    const std::int64_t m = layout.m, n = layout.n;
    const T* const values = memory + layout.values();
    for (std::int64_t j = items.columns.index(); j < layout.columns(); j += items.columns.groups()) {
      std::int64_t place = j;  // in descending order; equal values keep theirs
      if (j < n) {
        place = 0;
        for (std::int64_t k = 0; k < n; ++k) place += values[k] > values[j] || (values[k] == values[j] && k < j);
        if (items.columns.rank() == 0) problem.s(b, place) = values[j] / scale;
      }
      if (layout.u_columns == 0) continue;
      const T* const x = column_of_a(memory, j);
      for_rows(items, m, [&](std::int64_t r) { problem.u(b, r, place) = x[r]; });
      if (j < n) {
        const T* const y = column_of_v(memory, j);
        for_rows(items, n, [&](std::int64_t r) { problem.v(b, r, place) = y[r]; });
      }
    }
  }

  template <class F>
  static void for_rows(work_items& items, std::int64_t rows, F f) {
    for (std::int64_t r = items.columns.rank(); r < rows; r += Items) f(r);
  }

  void fill_with_nan(work_items& items, std::int64_t b) const {
    constexpr T nan = std::numeric_limits<T>::quiet_NaN();
    const std::int64_t m = layout.m, n = layout.n, columns = layout.u_columns;
    if (items.all.rank() == 0) problem.report(b, 2, 0);
    for (std::int64_t i = items.all.rank(); i < n; i += items.all.size()) problem.s(b, i) = nan;
    for (std::int64_t i = items.all.rank(); i < m * columns; i += items.all.size())
      problem.u(b, i / columns, i % columns) = nan;
    if (columns == 0) return;
    for (std::int64_t i = items.all.rank(); i < n * n; i += items.all.size()) problem.v(b, i / n, i % n) = nan;
  }
};

}  // namespace nullscope::kernels
