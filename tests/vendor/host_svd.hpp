/// The decomposition that stand-ins for cuSOLVER and rocSOLVER make, by Jacobi rotations on the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/vendor/recorded_svd.hpp"

namespace nullscope::test {

using column = std::vector<double>;

inline double dot(const column& x, const column& y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); }

inline void rotate(column& x, column& y, double cosine, double sine) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double left = x[i];
    x[i] = cosine * left - sine * y[i];
    y[i] = sine * left + cosine * y[i];
  }
}

/// Turns the columns of w = a v until they are orthogonal.
inline void orthogonalise(std::vector<column>& w, std::vector<column>& v) {
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (std::size_t p = 0; p < w.size(); ++p) {
      for (std::size_t q = p + 1; q < w.size(); ++q) {
        const double product = dot(w[p], w[q]);
        if (product == 0) continue;
        const double zeta = (dot(w[q], w[q]) - dot(w[p], w[p])) / (2 * product);
        const double tangent = std::copysign(1.0, zeta) / (std::abs(zeta) + std::hypot(1.0, zeta));
        const double cosine = 1 / std::hypot(1.0, tangent);
        rotate(w[p], w[q], cosine, cosine * tangent);
        rotate(v[p], v[q], cosine, cosine * tangent);
      }
    }
  }
}

/// Adds columns until there are `count`, each orthogonal to those before.
inline void complete(std::vector<column>& u, std::size_t count) {
  for (std::size_t unit = 0; u.size() < count; ++unit) {
    column next(u[0].size());
    next[unit] = 1;
    for (int twice = 0; twice < 2; ++twice) {
      for (const column& one : u) {
        const double share = dot(one, next);
        for (std::size_t i = 0; i < next.size(); ++i) next[i] -= share * one[i];
      }
    }
    const double length = std::sqrt(dot(next, next));
    if (length < 0.1) continue;
    for (double& x : next) x /= length;
    u.push_back(next);
  }
}

/// As gesvd does it, for a matrix of the recorded size and jobs. Returns what belongs into info.
template <class T>
int decompose_column_major(recorded_svd& recorded, const T* a, T* s, T* u, T* vt) {
  const auto m = static_cast<std::size_t>(recorded.m), n = static_cast<std::size_t>(recorded.n);
  std::vector<column> w, v, left;
  for (std::size_t j = 0; j < n; ++j) {
    w.emplace_back(a + j * m, a + (j + 1) * m);
    v.emplace_back(n)[j] = 1;
  }
  for (const column& one : w) {
    for (const double x : one) recorded.saw_not_finite |= !std::isfinite(x);
  }
  if (recorded.saw_not_finite) return -1;
  orthogonalise(w, v);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::greater(), [&](std::size_t j) { return dot(w[j], w[j]); });
  for (std::size_t j = 0; j < n; ++j) {
    const double value = std::sqrt(dot(w[order[j]], w[order[j]]));
    s[j] = static_cast<T>(value);
    if (value == 0) continue;
    left.push_back(w[order[j]]);
    for (double& x : left.back()) x /= value;
  }
  if (recorded.u_job == 'N') return 0;
  if (left.empty()) left.emplace_back(m)[0] = 1;
  complete(left, recorded.u_job == 'A' ? m : n);
  for (std::size_t j = 0; j < left.size(); ++j)
    std::ranges::transform(left[j], u + j * m, [](double x) { return T(x); });
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) vt[j * n + i] = static_cast<T>(v[order[i]][j]);
  }
  return 0;
}

}  // namespace nullscope::test
