/// What the tests of the null-space toolkit share: plain products in double, how orthonormal a basis is and what it
/// misses, heads of known rank.
#pragma once

#include <nullscope/null_space/null_space.hpp>

#include "tests/core/support.hpp"

namespace nullscope::test {

constexpr double bound = 10;  // of a scaled residual

class null_space_test : public device_test {};

using matrix = std::vector<double>;  // row-major

/// (rows x inner) (inner x columns)
template <class A, class B>
matrix product(const A* a, const B* b, std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  matrix c(static_cast<std::size_t>(rows * columns), 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t l = 0; l < inner; ++l) {
      const double factor = static_cast<double>(a[i * inner + l]);
      for (std::int64_t j = 0; j < columns; ++j) {
        c[static_cast<std::size_t>(i * columns + j)] += factor * static_cast<double>(b[l * columns + j]);
      }
    }
  }
  return c;
}

template <class A>
matrix transpose(const A* a, std::int64_t rows, std::int64_t columns) {
  matrix t(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j)
      t[static_cast<std::size_t>(j * rows + i)] = static_cast<double>(a[i * columns + j]);
  }
  return t;
}

inline double norm(const matrix& x) {
  double sum = 0;
  for (const double e : x) sum += e * e;
  return std::sqrt(sum);
}

template <class T>
constexpr double eps = static_cast<double>(std::numeric_limits<T>::epsilon());

/// How far u^T u (u has S rows) is from the identity of its first `rank` columns, in units of S eps.
template <class T>
double orthogonality(const T* u, std::int64_t tokens, std::int64_t columns, std::int64_t rank) {
  matrix gram = product(transpose(u, tokens, columns).data(), u, columns, tokens, columns);
  for (std::int64_t j = 0; j < rank; ++j) gram[static_cast<std::size_t>(j * columns + j)] -= 1;
  return norm(gram) / (static_cast<double>(std::max<std::int64_t>(columns, 4)) * eps<T>);
}

/// |T - U U^T T| / (|T| S eps): what of T the basis does not reach.
template <class T>
double outside(const matrix& t, const T* u, std::int64_t tokens, std::int64_t columns, std::int64_t width) {
  const matrix coefficients = product(transpose(u, tokens, columns).data(), t.data(), columns, tokens, width);
  const matrix inside = product(u, coefficients.data(), tokens, columns, width);
  matrix difference = t;
  for (std::size_t i = 0; i < t.size(); ++i) difference[i] -= inside[i];
  const double size = norm(t);
  return size == 0 ? norm(difference)
                   : norm(difference) / (size * static_cast<double>(std::max(tokens, width)) * eps<T>);
}

struct heads {
  std::int64_t batch, tokens, value_width, model_width;
  std::int64_t columns() const { return std::min({tokens, value_width, model_width}); }
};

/// v (batch, S, dv) and h (batch, dv, d) of heads with ranks that are known: head i has rank at most limit(i).
template <class T>
struct factored {
  std::vector<T> v, h;
};
template <class T>
factored<T> make_heads(const heads& s, const std::vector<std::int64_t>& ranks, std::uint64_t seed) {
  factored<T> f{random_numbers<T>(s.batch * s.tokens * s.value_width, seed),
                random_numbers<T>(s.batch * s.value_width * s.model_width, seed + 1)};
  for (std::int64_t b = 0; b < s.batch; ++b) {  // every row is an exact copy of one of the first `rank` rows
    T* v = f.v.data() + b * s.tokens * s.value_width;
    for (std::int64_t i = 0; i < s.tokens; ++i) {
      const std::int64_t rank = ranks[static_cast<std::size_t>(b)];
      for (std::int64_t j = 0; j < s.value_width; ++j) {
        v[i * s.value_width + j] = rank == 0 ? T(0) : v[(i % rank) * s.value_width + j];
      }
    }
  }
  return f;
}

}  // namespace nullscope::test
