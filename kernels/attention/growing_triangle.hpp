/// The triangle R with R^T R = sum of x x^T, to which vectors x are added one by one.
#pragma once

#include <cstdint>
#include <sycl/sycl.hpp>

#include "kernels/group/group.hpp"

namespace nullscope::kernels {

/// r (size, size), upper, row by row with a distance of `ld` numbers, a multiple of W; zeros elsewhere, also in the
/// rows that `size` grows into. What one group works on.
template <class T, int W, int Items>
struct growing_triangle {
  using numbers = pack<T, W>;

  T* r;
  std::int64_t size, ld;

  /// R^T R += x x^T by `size` rotations, which leave zeros in x. 6 size^2 / 2 flops.
  void append(const group<Items>& members, T* x) const {
    for (std::int64_t k = 0; k < size; ++k) {
      T* const row = r + k * ld;
      const T a = row[k], b = x[k], squares = a * a + b * b;
      members.barrier();  // all have read them
      if (b == 0 || squares == 0) continue;
      const T inverse = 1 / sycl::sqrt(squares), cosine = a * inverse, sine = b * inverse;
      for (std::int64_t c = (k / W + members.rank()) * W; c < ld; c += Items * W) {
        const numbers above = load<W>(row + c), below = load<W>(x + c);
        store(row + c, fma(numbers(cosine), above, numbers(sine) * below));
        numbers rest = fma(numbers(cosine), below, numbers(-sine) * above);
        if (c <= k) rest.set(static_cast<int>(k - c), T(0));  // exactly, so that r stays a triangle
        store(x + c, rest);
      }
      members.barrier();
    }
  }

  /// y = R^-1 z with z = R^-T b, which overwrites b. Returns |z|^2 = <b, y>. 2 size^2 flops.
  T solve(group<Items>& members, T* b, T* y) const {
    T square(0);
    for (std::int64_t c = members.rank() * W; c < ld; c += Items * W) store(y + c, numbers(T(0)));
    members.barrier();
    for (std::int64_t k = 0; k < size; ++k) {
      const T* const row = r + k * ld;
      const T z = row[k] == 0 ? T(0) : b[k] / row[k];
      square += z * z;
      members.barrier();
      for (std::int64_t c = (k / W + members.rank()) * W; c < ld; c += Items * W) {
        numbers rest = fma(numbers(-z), load<W>(row + c), load<W>(b + c));
        if (c <= k) rest.set(static_cast<int>(k - c), z);
        store(b + c, rest);
      }
      members.barrier();
    }
    for (std::int64_t k = size - 1; k >= 0; --k) {
      const T* const row = r + k * ld;
      numbers sum(T(0));
      for (std::int64_t c = (k / W + members.rank()) * W; c < ld; c += Items * W) {
        sum = fma(load<W>(row + c), load<W>(y + c), sum);
      }
      const T known = members.sum(sum);
      if (members.rank() == 0) y[k] = row[k] == 0 ? T(0) : (b[k] - known) / row[k];
      members.barrier();
    }
    return square;
  }
};

}  // namespace nullscope::kernels
