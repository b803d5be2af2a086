/// SVD of many matrices, one per lane: Householder bidiagonalisation, implicitly shifted QR, back-accumulation. All
/// lanes do the same operations, so every instruction is full, there is no reduction across lanes, and W matrices take
/// as long as one. Tall matrices are reduced to their triangle first.
#pragma once

#include <cstddef>

#include "kernels/linalg/svd/iterate.hpp"
#include "kernels/linalg/svd/problem.hpp"
#include "kernels/linalg/svd/tall.hpp"
#include "kernels/linalg/svd/transfer.hpp"

namespace nullscope::kernels {

/// Shapes, and the places of everything in the memory of a work-group, in packs.
struct svd_laned_layout {
  std::int64_t m, n;
  std::int64_t u_columns;  ///< 0: values only; n or m
  bool is_reduced;         ///< QR first

  static constexpr std::int64_t block_rows = 64;
  static constexpr std::int64_t odd(std::int64_t x) { return x | 1; }  // rows must not all fall into one cache set

  constexpr bool has_vectors() const { return u_columns > 0; }
  constexpr std::int64_t rows() const { return is_reduced ? n : m; }
  constexpr std::int64_t stride() const { return odd(is_reduced || u_columns < n ? n : u_columns); }
  constexpr std::int64_t block_stride() const { return odd(n); }
  constexpr std::int64_t blocks() const { return (m - n + block_rows - 1) / block_rows; }
  constexpr std::int64_t kept_blocks() const { return has_vectors() || blocks() == 0 ? blocks() : 1; }
  constexpr std::int64_t longest() const {
    const std::int64_t length = stride() > rows() ? stride() : rows();
    return length > block_rows ? length : block_rows;
  }

  constexpr std::int64_t a() const { return 0; }
  constexpr std::int64_t v() const { return rows() * stride(); }
  constexpr std::int64_t vectors() const { return v() + (has_vectors() ? n * odd(n) : 0); }  // 6 of n
  constexpr std::int64_t work() const { return vectors() + 6 * n; }
  constexpr std::int64_t rotations() const { return work() + 6 * longest(); }
  constexpr std::int64_t top() const { return rotations() + (has_vectors() ? 32 * n : 0); }
  constexpr std::int64_t block() const { return top() + (is_reduced ? n * block_stride() : 0); }
  constexpr std::int64_t result() const {
    return block() + (is_reduced ? kept_blocks() * block_rows * block_stride() : 0);
  }
  constexpr std::int64_t taus() const {
    return result() + (is_reduced && has_vectors() ? block_rows * block_stride() : 0);
  }
  constexpr std::int64_t size() const { return taus() + (is_reduced ? (kept_blocks() + 1) * n : 0); }
};

/// Range: one work-item per work-group; work-group g takes matrices W g to W g + W - 1, then those W * groups later,
/// and so on.
template <class T, int W>
struct svd_laned {
  static constexpr const char* source = __FILE__;
  using P = pack<T, W>;

  svd_laned_layout layout;
  svd_problem<T> problem;
  T* scratch;  ///< (groups, layout.size(), W)

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    // by groups, not by global ids: CPU drivers would vectorise across work-items, and compile for minutes
    const auto group = static_cast<std::int64_t>(item.get_group(0));
    const auto groups = static_cast<std::int64_t>(item.get_group_range(0));
    P* const memory = reinterpret_cast<P*>(scratch) + group * layout.size();
    for (std::int64_t first = group * W; first < problem.batch(); first += groups * W) {
      decompose({problem.a, first}, memory);
    }
  }

 private:
  void decompose(const laned_matrices<T, W>& matrices, P* memory) const {
    const std::int64_t n = layout.n;
    const std::int64_t stride = layout.stride();
    P* const matrix = memory + layout.a();
    P* const right = memory + layout.v();
    P* const d = memory + layout.vectors();
    P* const e = d + n;
    P* const start = d + 2 * n;
    P* const tau_left = d + 3 * n;
    P* const tau_right = d + 4 * n;
    auto* const order = reinterpret_cast<std::int32_t*>(d + 5 * n);  // (n, W)
    const reduction_workspace<P> work(memory + layout.work(), layout.longest());
    const bool has_vectors = layout.has_vectors();

    if (layout.is_reduced) {
      reduce_tall(matrices, memory, work);
    } else {
      matrices.load_rows(0, layout.m, matrix, stride);
    }
    bidiagonalise(matrix, stride, layout.rows(), n, d, e, tau_left, tau_right, work);
    if (has_vectors) {
      const std::int64_t columns = layout.is_reduced ? n : layout.u_columns;
      accumulate_right(matrix, stride, n, right, svd_laned_layout::odd(n), tau_right, work);
      accumulate_reflections(matrix, stride, layout.rows(), columns, n, tau_left, work);
    }
    P count;
    const P left_over =
        iterate(d, e, n, problem.max_sweeps, start, rotation_buffer<P>(memory + layout.rotations(), n),
                has_vectors ? matrix : nullptr, stride, layout.rows(), right, svd_laned_layout::odd(n), count);

    if (has_vectors) finish_vectors(right, svd_laned_layout::odd(n), n, n, d, matrices.finite);
    sort_values(d, order);
    store_values(matrices, d, order, left_over, count);
    if (!has_vectors) return;
    store_rows(problem.v, matrices.first, matrices.lanes, 0, n, n, order, n, right, svd_laned_layout::odd(n));
    if (layout.is_reduced) {
      restore_tall(matrices, order, matrix, stride, memory, work);
    } else {
      finish_vectors(matrix, stride, layout.m, layout.u_columns, nullptr, matrices.finite);
      store_rows(problem.u, matrices.first, matrices.lanes, 0, layout.m, layout.u_columns, order, n, matrix, stride);
    }
  }

  /// Negates the vectors of negative d, and sets those of matrices that are not finite to NaN. Adding zero makes a zero
  /// positive: rotations that do nothing for a lane may have changed its sign, and depend on the other lanes.
  static void finish_vectors(P* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, const P* d, P finite) {
    const auto is_finite = differs(finite, P(0));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        P element = x[r * stride + c];
        if (d != nullptr) element *= with_sign_of(P(1), d[c]);
        x[r * stride + c] = select(is_finite, element + P(0), P(std::numeric_limits<T>::quiet_NaN()));
      }
    }
  }

  /// Makes d positive and finds the place of each value in descending order; equal ones keep their order.
  void sort_values(P* d, std::int32_t* order) const {
    const std::int64_t n = layout.n;
    for (std::int64_t i = 0; i < n; ++i) d[i] = abs(d[i]) + P(0);
    for (std::int64_t i = 0; i < n; ++i) {
      P before(0);
      for (std::int64_t j = 0; j < i; ++j) before += select(greater(d[i], d[j]), P(0), P(1));
      for (std::int64_t j = i + 1; j < n; ++j) before += select(greater(d[j], d[i]), P(1), P(0));
      for (int lane = 0; lane < W; ++lane) order[i * W + lane] = static_cast<std::int32_t>(before[lane]);
    }
  }

  void store_values(const laned_matrices<T, W>& matrices, const P* d, const std::int32_t* order, P left_over,
                    P count) const {
    for (int lane = 0; lane < matrices.lanes; ++lane) {
      const std::int64_t b = matrices.first + lane;
      const bool is_finite = matrices.finite[lane] != T(0);
      problem.report(b, !is_finite ? 2 : left_over[lane] != T(0) ? 1 : 0, static_cast<std::int64_t>(count[lane]));
      for (std::int64_t i = 0; i < layout.n; ++i) {
        problem.s(b, order[i * W + lane]) =
            is_finite ? d[i][lane] / matrices.scale[lane] : std::numeric_limits<T>::quiet_NaN();
      }
    }
  }

  /// a = Q R: R becomes the matrix, Q stays as reflections if vectors are wanted.
  void reduce_tall(const laned_matrices<T, W>& matrices, P* memory, reduction_workspace<P> work) const {
    const std::int64_t n = layout.n, stride = layout.block_stride();
    P* const top = memory + layout.top();
    P* const taus = memory + layout.taus();
    matrices.load_rows(0, n, top, stride);
    factor_top(top, stride, n, taus, work);
    for (std::int64_t b = 0; b < layout.blocks(); ++b) {
      const std::int64_t kept = layout.has_vectors() ? b : 0;
      P* const block = memory + layout.block() + kept * svd_laned_layout::block_rows * stride;
      matrices.load_rows(n + b * svd_laned_layout::block_rows, rows_of_block(b), block, stride);
      factor_block(top, block, stride, rows_of_block(b), n, taus + (kept + 1) * n, work);
    }
    P* const matrix = memory + layout.a();
    for (std::int64_t r = 0; r < n; ++r) {
      for (std::int64_t c = 0; c < n; ++c) matrix[r * layout.stride() + c] = c < r ? P(0) : top[r * stride + c];
    }
  }

  /// u = Q times the left vectors of R, which are in c (n, n).
  void restore_tall(const laned_matrices<T, W>& matrices, const std::int32_t* order, P* c, std::int64_t c_stride,
                    P* memory, reduction_workspace<P> work) const {
    const std::int64_t n = layout.n, stride = layout.block_stride();
    P* const taus = memory + layout.taus();
    P* const result = memory + layout.result();
    for (std::int64_t b = layout.blocks() - 1; b >= 0; --b) {
      const P* block = memory + layout.block() + b * svd_laned_layout::block_rows * stride;
      const std::int64_t rows = rows_of_block(b);
      apply_block(c, c_stride, block, stride, rows, n, taus + (b + 1) * n, result, work);
      finish_vectors(result, stride, rows, n, nullptr, matrices.finite);
      store_rows(problem.u, matrices.first, matrices.lanes, n + b * svd_laned_layout::block_rows, rows, n, order, n,
                 result, stride);
    }
    apply_top(c, c_stride, memory + layout.top(), stride, n, taus, work);
    finish_vectors(c, c_stride, n, n, nullptr, matrices.finite);
    store_rows(problem.u, matrices.first, matrices.lanes, 0, n, n, order, n, c, c_stride);
  }

  std::int64_t rows_of_block(std::int64_t b) const {
    const std::int64_t left = layout.m - layout.n - b * svd_laned_layout::block_rows;
    return left < svd_laned_layout::block_rows ? left : svd_laned_layout::block_rows;
  }
};

}  // namespace nullscope::kernels
