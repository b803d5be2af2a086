/// Singular values of bidiagonal matrices by implicitly shifted QR, one matrix per lane: every lane does the same
/// steps, each unreduced block of each lane with its own shift, and where a lane has nothing to do its rotation is the
/// identity. So the numbers of a lane do not depend on its neighbours.
#pragma once

#include "kernels/linalg/svd/lanes.hpp"
#include "kernels/linalg/svd/reflect.hpp"

namespace nullscope::kernels {

/// Rotations of several sweeps, which are applied to the vectors together: a row of vectors is loaded once for all.
template <class P>
struct rotation_buffer {
  static constexpr int capacity = 8;

  P* left;   // (capacity, n, 2): cosine and sine of rotation i, which mixes columns i and i + 1
  P* right;  // likewise
  std::int64_t n;
  int count = 0;
  std::int64_t first[capacity] = {};
  std::int64_t last[capacity] = {};  // one past the end

  static constexpr std::int64_t packs(std::int64_t n) { return 4 * capacity * n; }
  rotation_buffer(P* memory, std::int64_t length) : left(memory), right(memory + 2 * capacity * length), n(length) {}
};

/// `Rows` rows: the element that two rotations share stays in a register.
template <int Rows, class P>
void rotate_rows(P* a, std::int64_t stride, const P* rotations, std::int64_t first, std::int64_t last) {
  P carried[Rows];
#pragma unroll
  for (int r = 0; r < Rows; ++r) carried[r] = a[r * stride + first];
  for (std::int64_t i = first; i < last; ++i) {
    const P cosine = rotations[2 * i], sine = rotations[2 * i + 1];
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const P next = a[r * stride + i + 1];
      a[r * stride + i] = fma(cosine, carried[r], sine * next);
      carried[r] = cosine * next - sine * carried[r];
    }
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r) a[r * stride + last] = carried[r];
}

/// The same for two sweeps at once, the second one place behind the first, so that a row is loaded and stored once for
/// both. At 128 columns the rows and the rotations do not fit the L1 cache together.
template <int Rows, class P>
void rotate_rows_twice(P* a, std::int64_t stride, const P* one, const P* two, std::int64_t first, std::int64_t last) {
  P ahead[Rows], behind[Rows];
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const P x = a[r * stride + first], next = a[r * stride + first + 1];
    behind[r] = fma(one[2 * first], x, one[2 * first + 1] * next);
    ahead[r] = one[2 * first] * next - one[2 * first + 1] * x;
  }
  for (std::int64_t i = first + 1; i < last; ++i) {
    const P cosine_one = one[2 * i], sine_one = one[2 * i + 1];
    const P cosine_two = two[2 * i - 2], sine_two = two[2 * i - 1];
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const P next = a[r * stride + i + 1];
      const P done = fma(cosine_one, ahead[r], sine_one * next);
      ahead[r] = cosine_one * next - sine_one * ahead[r];
      a[r * stride + i - 1] = fma(cosine_two, behind[r], sine_two * done);
      behind[r] = cosine_two * done - sine_two * behind[r];
    }
  }
  const P cosine = two[2 * last - 2], sine = two[2 * last - 1];
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    a[r * stride + last - 1] = fma(cosine, behind[r], sine * ahead[r]);
    a[r * stride + last] = cosine * ahead[r] - sine * behind[r];
  }
}

/// Extends a sweep to the range [first, last), with rotations that do nothing.
template <class P>
void widen(P* rotations, std::int64_t from_first, std::int64_t from_last, std::int64_t first, std::int64_t last) {
  for (std::int64_t i = first; i < last; ++i) {
    if (i >= from_first && i < from_last) continue;
    rotations[2 * i] = P(1);
    rotations[2 * i + 1] = P(0);
  }
}

/// Applies all rotations of the buffer to the columns of a (rows, n).
template <class P>
void apply_rotations(const rotation_buffer<P>& buffer, P* rotations, P* a, std::int64_t stride, std::int64_t rows) {
  const std::int64_t step = 2 * buffer.n;
  std::int64_t first[rotation_buffer<P>::capacity], last[rotation_buffer<P>::capacity];
  for (int s = 0; s + 2 <= buffer.count; s += 2) {
    first[s] = buffer.first[s] < buffer.first[s + 1] ? buffer.first[s] : buffer.first[s + 1];
    last[s] = buffer.last[s] > buffer.last[s + 1] ? buffer.last[s] : buffer.last[s + 1];
    for (int k = s; k < s + 2; ++k) widen(rotations + k * step, buffer.first[k], buffer.last[k], first[s], last[s]);
  }
  const auto rotate = [&]<int Rows>(P* block) {
    int s = 0;
    for (; s + 2 <= buffer.count; s += 2) {
      rotate_rows_twice<Rows>(block, stride, rotations + s * step, rotations + (s + 1) * step, first[s], last[s]);
    }
    if (s < buffer.count) {
      rotate_rows<Rows>(block, stride, rotations + s * step, buffer.first[s], buffer.last[s]);
    }
  };
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) rotate.template operator()<4>(a + r * stride);
  for (; r < rows; ++r) rotate.template operator()<1>(a + r * stride);
}

/// The rotation (c, s) with c f + s g = r and c g - s f = 0; the identity where the lane is not active or both are
/// zero.
template <class T, int W>
pack<T, W> make_rotation(lane_mask<T, W> active, pack<T, W> f, pack<T, W> g, pack<T, W>& cosine, pack<T, W>& sine) {
  using P = pack<T, W>;
  const P squares = fma(f, f, g * g);
  const auto is_needed = active & greater(squares, P(negligible_square<T>));
  const P r = sqrt(squares);
  const P inverse = P(1) / r;
  cosine = select(is_needed, f * inverse, P(1));
  sine = select(is_needed, g * inverse, P(0));
  return select(is_needed, r, f);
}

/// The range of a sweep.
struct sweep_range {
  std::int64_t first, last;  // rotations; empty when every lane has converged
};

/// Sets negligible e to zero and finds the first entry `start` of the implicit step wherever a block may begin. Counts
/// the sweep in the lanes that have not converged.
template <class T, int W>
sweep_range prepare_sweep(const pack<T, W>* d, pack<T, W>* e, std::int64_t n, pack<T, W> threshold, pack<T, W>* start,
                          pack<T, W>& sweeps) {
  using P = pack<T, W>;
  constexpr T epsilon = std::numeric_limits<T>::epsilon();
  const P none(0);
  P first(static_cast<T>(n)), last(-1);
  auto below = greater(none, none);  // whether e[i + 1] is there
  P shift(0), smallest(0), largest_entry(0);
  for (std::int64_t i = n - 2; i >= 0; --i) {
    const P upper = abs(d[i]), lower = abs(d[i + 1]);
    const P link = abs(e[i]);
    // Where both entries of the diagonal are the same to the last digits, so is the shift; a link of some eps of them
    // would then only be rotated back and forth.
    const auto active = greater(link, max(threshold, P(2 * epsilon) * (upper + lower)));
    e[i] = select(active, e[i], none);

    // Wilkinson's shift at the end of a block: the eigenvalue of the last 2 x 2 block of B^T B that is nearer to its
    // last entry, each of the two by a formula without cancellation.
    const auto is_end = active & ~below;
    const P above = i > 0 ? e[i - 1] * e[i - 1] : none;
    const P t22 = fma(lower, lower, link * link);
    const P t12 = upper * link;
    const P half = P(T(0.5)) * (fma(upper, upper, above) - t22);
    const P root = sqrt(fma(half, half, t12 * t12));
    const P product = upper * lower;
    const P determinant = fma(product, product, above * t22);
    const auto is_smaller = greater(half, none);
    const P numerator = select(is_smaller, determinant, t12 * t12);
    const P quotient = numerator / max(abs(half) + root + select(is_smaller, t22, none), P(negligible_square<T>));
    const P eigenvalue = select(is_smaller, quotient, t22 + quotient);
    shift = select(is_end, sqrt(eigenvalue), shift);
    smallest = select(is_end, min(upper, lower), min(smallest, upper));
    largest_entry = select(is_end, max(max(upper, lower), link), max(max(largest_entry, upper), link));

    // A diagonal entry that is zero needs the shift zero; it then moves to the end of its block in one sweep.
    const auto is_shifted = greater(smallest, P(4 * epsilon) * largest_entry);
    const P divisor = select(is_shifted, d[i], P(1));
    const P shifted = (upper - shift) * (with_sign_of(P(1), d[i]) + shift / divisor);
    start[i] = select(is_shifted, shifted, d[i]);

    first = select(active, P(static_cast<T>(i)), first);
    last = select(active & greater(none, last), P(static_cast<T>(i)), last);
    below = active;
  }
  sweeps += select(greater(none, last), none, P(1));
  return {-static_cast<std::int64_t>(largest(-first)), static_cast<std::int64_t>(largest(last)) + 1};
}

/// Chases the bulges of all blocks of all lanes from top to bottom, and records the rotations if there is a buffer.
template <class T, int W>
void chase(pack<T, W>* d, pack<T, W>* e, std::int64_t n, const pack<T, W>* start, sweep_range range, pack<T, W>* left,
           pack<T, W>* right) {
  using P = pack<T, W>;
  const P none(0);
  auto was_active = greater(none, none);
  P f(0), g(0);
  P diagonal = d[range.first], link = e[range.first];  // of place i, as the sweep has left them
  auto active = differs(link, none);
  for (std::int64_t i = range.first; i < range.last; ++i) {
    const P next_link_before = i + 2 < n ? e[i + 1] : none;
    const auto is_start = active & ~was_active;
    f = select(is_start, start[i], f);
    g = select(is_start, link, g);
    P cosine, sine;
    const P r = make_rotation(active, f, g, cosine, sine);
    if (i > range.first) e[i - 1] = select(was_active, r, e[i - 1]);
    if (right != nullptr) {
      right[2 * i] = cosine;
      right[2 * i + 1] = sine;
    }
    const P next_before = d[i + 1];
    f = fma(cosine, diagonal, sine * link);
    link = cosine * link - sine * diagonal;
    g = sine * next_before;
    P next = cosine * next_before;

    d[i] = make_rotation(active, f, g, cosine, sine);
    if (left != nullptr) {
      left[2 * i] = cosine;
      left[2 * i + 1] = sine;
    }
    f = fma(cosine, link, sine * next);
    diagonal = cosine * next - sine * link;
    g = sine * next_link_before;
    link = cosine * next_link_before;
    was_active = active;
    active = differs(next_link_before, none);
  }
  d[range.last] = diagonal;
  e[range.last - 1] = select(was_active, f, e[range.last - 1]);
}

/// Iterates until e is zero in every lane or `max_sweeps` are done; `u` (rows, n) and `v` (n, n), if not null, are
/// rotated too. Returns the largest |e| that is left, and counts the sweeps of each lane.
template <class T, int W>
pack<T, W> iterate(pack<T, W>* d, pack<T, W>* e, std::int64_t n, std::int64_t max_sweeps, pack<T, W>* start,
                   rotation_buffer<pack<T, W>> buffer, pack<T, W>* u, std::int64_t u_stride, std::int64_t rows,
                   pack<T, W>* v, std::int64_t v_stride, pack<T, W>& sweeps) {
  using P = pack<T, W>;
  const bool has_vectors = u != nullptr;
  P norm = abs(d[n - 1]);
  for (std::int64_t i = 0; i + 1 < n; ++i) norm = max(norm, max(abs(d[i]), abs(e[i])));
  const P threshold = P(std::numeric_limits<T>::epsilon() / 4) * norm;
  sweeps = P(0);
  const auto flush = [&] {
    if (!has_vectors) return;
    apply_rotations(buffer, buffer.left, u, u_stride, rows);
    apply_rotations(buffer, buffer.right, v, v_stride, n);
    buffer.count = 0;
  };
  P ignored = sweeps;
  for (std::int64_t sweep = 0;; ++sweep) {
    const bool is_last = sweep == max_sweeps;
    const sweep_range range = prepare_sweep(d, e, n, threshold, start, is_last ? ignored : sweeps);
    if (range.last <= range.first || is_last) break;
    const std::int64_t offset = 2 * buffer.count * n;
    chase(d, e, n, start, range, has_vectors ? buffer.left + offset : nullptr,
          has_vectors ? buffer.right + offset : nullptr);
    if (!has_vectors) continue;
    buffer.first[buffer.count] = range.first;
    buffer.last[buffer.count] = range.last;
    if (++buffer.count == buffer.capacity) flush();
  }
  flush();
  P left_over(0);
  for (std::int64_t i = 0; i + 1 < n; ++i) left_over = max(left_over, abs(e[i]));
  return left_over;
}

}  // namespace nullscope::kernels
