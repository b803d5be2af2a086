/// SVD of many matrices, one a lane: Householder bidiagonalisation, implicitly shifted QR, back-accumulation. All lanes
/// do the same operations, so every instruction is full, there is no reduction across lanes, and a pack of W matrices
/// costs what one costs. Tall matrices are reduced to their triangle first.
#pragma once

#include <cstddef>
#include <nullscope/view.hpp>

#include "svd_iterate.hpp"
#include "svd_tall.hpp"

namespace nullscope::kernels {

/// Shapes, and where things lie in a work-group's scratch memory, in packs. m >= n: the caller transposes.
struct svd_pack_layout {
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
  constexpr std::int64_t vectors() const { return v() + (has_vectors() ? n * odd(n) : 0); }  // 7 of n
  constexpr std::int64_t work() const { return vectors() + 7 * n; }
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

/// Range: one work-item a work-group; work-group g takes packs g, g + groups, ...
template <class T, int W>
struct svd_pack {
  static constexpr const char* source = "svd_pack.hpp";
  static constexpr int dimensions = 1;
  using P = pack<T, W>;

  svd_pack_layout layout;
  view<const T, 3> a;            ///< (batch, m, n)
  view<T, 2> s;                  ///< (batch, n)
  view<T, 3> u;                  ///< (batch, m, u_columns)
  view<T, 3> v;                  ///< (batch, n, n)
  view<std::int32_t, 1> status;  ///< (batch)
  view<std::int32_t, 1> sweeps;  ///< (batch), or no data
  std::int64_t max_sweeps;
  T* scratch;  ///< (groups, layout.size(), W)

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    P* const memory = reinterpret_cast<P*>(scratch) + item.get_group(0) * layout.size();
    const std::int64_t batch = a.extent[0];
    for (std::int64_t first = item.get_group(0) * W; first < batch; first += item.get_group_range(0) * W) {
      const int lanes = static_cast<int>(batch - first < W ? batch - first : W);
      decompose(first, lanes, memory);
    }
  }

 private:
  void decompose(std::int64_t first, int lanes, P* memory) const {
    const std::int64_t n = layout.n;
    const std::int64_t stride = layout.stride();
    P* const matrix = memory + layout.a();
    P* const right = memory + layout.v();
    P* const d = memory + layout.vectors();
    P* const e = d + n;
    P* const start = d + 2 * n;
    P* const tau_left = d + 3 * n;
    P* const tau_right = d + 4 * n;
    P* const place = d + 5 * n;
    P* const sign = d + 6 * n;
    const reduction_workspace<P> work(memory + layout.work(), layout.longest());
    const bool has_vectors = layout.has_vectors();

    P scale, finite;
    find_scale(first, lanes, scale, finite);
    if (layout.is_reduced) {
      reduce_tall(first, lanes, scale, finite, memory, work);
    } else {
      load_rows(first, lanes, 0, layout.m, scale, finite, matrix, stride);
    }
    bidiagonalise(matrix, stride, layout.rows(), n, d, e, tau_left, tau_right, work);
    if (has_vectors) {
      const std::int64_t columns = layout.is_reduced ? n : layout.u_columns;
      accumulate_right(matrix, stride, n, right, svd_pack_layout::odd(n), tau_right, work);
      accumulate_reflections(matrix, stride, layout.rows(), columns, n, tau_left, work);
    }
    P count;
    const P left_over =
        iterate(d, e, n, max_sweeps, start, rotation_buffer<P>(memory + layout.rotations(), n),
                has_vectors ? matrix : nullptr, stride, layout.rows(), right, svd_pack_layout::odd(n), count);

    sort_values(d, n, place, sign);
    for (int lane = 0; lane < lanes; ++lane) {
      const bool is_finite = finite[lane] != 0;
      status(first + lane) = !is_finite ? 2 : left_over[lane] != 0 ? 1 : 0;
      if (sweeps.data != nullptr) sweeps(first + lane) = static_cast<std::int32_t>(count[lane]);
      for (std::int64_t i = 0; i < n; ++i) {
        s(first + lane, static_cast<std::int64_t>(place[i][lane])) =
            is_finite ? d[i][lane] / scale[lane] : std::numeric_limits<T>::quiet_NaN();
      }
    }
    if (!has_vectors) return;
    store_rows(v, first, lanes, 0, n, n, finite, place, sign, right, svd_pack_layout::odd(n));
    if (layout.is_reduced) {
      restore_tall(first, lanes, finite, place, matrix, stride, memory, work);
    } else {
      store_rows(u, first, lanes, 0, layout.m, layout.u_columns, finite, place, nullptr, matrix, stride);
    }
  }

  /// scale: a power of two that brings the largest entry of each matrix near one. finite: 0 where there is NaN or
  /// infinity.
  void find_scale(std::int64_t first, int lanes, P& scale, P& finite) const {
    scale = P(1);
    finite = P(1);
    for (int lane = 0; lane < lanes; ++lane) {
      T most = 0, zero = 0;
      for (std::int64_t r = 0; r < layout.m; ++r) {
        for (std::int64_t c = 0; c < layout.n; ++c) {
          const T element = a(first + lane, r, c);
          most = sycl::fmax(most, sycl::fabs(element));
          zero += element * T(0);  // NaN if the element is not finite
        }
      }
      if (zero != T(0)) {
        finite.set(lane, T(0));
      } else if (most > T(0)) {
        constexpr int limit = std::numeric_limits<T>::max_exponent - 2;
        const int exponent = -sycl::ilogb(most);
        scale.set(lane, sycl::ldexp(T(1), exponent > limit ? limit : exponent < -limit ? -limit : exponent));
      }
    }
  }

  /// to (rows, n) = scaled rows [begin, begin + rows) of W matrices; zeros for matrices that are not there or not
  /// finite.
  void load_rows(std::int64_t first, int lanes, std::int64_t begin, std::int64_t rows, P scale, P finite, P* to,
                 std::int64_t stride) const {
    T* const numbers = reinterpret_cast<T*>(to);
    for (int lane = 0; lane < W; ++lane) {
      const bool is_there = lane < lanes && finite[lane] != T(0);
      const T factor = scale[lane];
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < layout.n; ++c) {
          numbers[(r * stride + c) * W + lane] = is_there ? a(first + lane, begin + r, c) * factor : T(0);
        }
      }
    }
  }

  /// Makes d positive and finds the place of each value in descending order; equal ones keep their order.
  static void sort_values(P* d, std::int64_t n, P* place, P* sign) {
    for (std::int64_t i = 0; i < n; ++i) {
      sign[i] = with_sign_of(P(1), d[i]);
      d[i] = abs(d[i]) + P(0);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      P before(0);
      for (std::int64_t j = 0; j < i; ++j) before += select(greater(d[i], d[j]), P(0), P(1));
      for (std::int64_t j = i + 1; j < n; ++j) before += select(greater(d[j], d[i]), P(1), P(0));
      place[i] = before;
    }
  }

  /// Rows [begin, begin + rows) of `to` from `from` (rows, columns), with the first n columns in the order of the
  /// values.
  void store_rows(const view<T, 3>& to, std::int64_t first, int lanes, std::int64_t begin, std::int64_t rows,
                  std::int64_t columns, P finite, const P* place, const P* sign, const P* from,
                  std::int64_t stride) const {
    for (int lane = 0; lane < lanes; ++lane) {
      const bool is_finite = finite[lane] != T(0);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          const std::int64_t column = c < layout.n ? static_cast<std::int64_t>(place[c][lane]) : c;
          const T factor = sign != nullptr ? sign[c][lane] : T(1);
          to(first + lane, begin + r, column) =  // + 0: an idle rotation may have changed the sign of a zero
              is_finite ? from[r * stride + c][lane] * factor + T(0) : std::numeric_limits<T>::quiet_NaN();
        }
      }
    }
  }

  /// a = Q R: R goes to the matrix, Q stays as reflections if vectors are wanted.
  void reduce_tall(std::int64_t first, int lanes, P scale, P finite, P* memory, reduction_workspace<P> work) const {
    const std::int64_t n = layout.n, stride = layout.block_stride();
    P* const top = memory + layout.top();
    P* const taus = memory + layout.taus();
    load_rows(first, lanes, 0, n, scale, finite, top, stride);
    factor_top(top, stride, n, taus, work);
    for (std::int64_t b = 0; b < layout.blocks(); ++b) {
      const std::int64_t kept = layout.has_vectors() ? b : 0;
      P* const block = memory + layout.block() + kept * svd_pack_layout::block_rows * stride;
      const std::int64_t begin = n + b * svd_pack_layout::block_rows;
      load_rows(first, lanes, begin, rows_of_block(b), scale, finite, block, stride);
      factor_block(top, block, stride, rows_of_block(b), n, taus + (kept + 1) * n, work);
    }
    P* const matrix = memory + layout.a();
    for (std::int64_t r = 0; r < n; ++r) {
      for (std::int64_t c = 0; c < n; ++c) matrix[r * layout.stride() + c] = c < r ? P(0) : top[r * stride + c];
    }
  }

  /// u = Q times the left vectors of R, which are in c (n, n).
  void restore_tall(std::int64_t first, int lanes, P finite, const P* place, P* c, std::int64_t c_stride, P* memory,
                    reduction_workspace<P> work) const {
    const std::int64_t n = layout.n, stride = layout.block_stride();
    P* const taus = memory + layout.taus();
    P* const result = memory + layout.result();
    for (std::int64_t b = layout.blocks() - 1; b >= 0; --b) {
      const P* block = memory + layout.block() + b * svd_pack_layout::block_rows * stride;
      apply_block(c, c_stride, block, stride, rows_of_block(b), n, taus + (b + 1) * n, result, work);
      store_rows(u, first, lanes, n + b * svd_pack_layout::block_rows, rows_of_block(b), n, finite, place, nullptr,
                 result, stride);
    }
    apply_top(c, c_stride, memory + layout.top(), stride, n, taus, work);
    store_rows(u, first, lanes, 0, n, n, finite, place, nullptr, c, c_stride);
  }

  std::int64_t rows_of_block(std::int64_t b) const {
    const std::int64_t left = layout.m - layout.n - b * svd_pack_layout::block_rows;
    return left < svd_pack_layout::block_rows ? left : svd_pack_layout::block_rows;
  }
};

}  // namespace nullscope::kernels
