/// Effective attention of one head by its definitions, dense and in double, and the heads it is compared on.
#pragma once

#include <fmt/format.h>

#include <cmath>

#include "tests/core/support.hpp"

namespace nullscope::test {

struct head_shape {
  std::int64_t heads, queries, keys, dk, dv, d;  // d = 0: no h
  bool causal = false;
  std::int64_t rank = -1;  // of v, by repeated rows; -1: full

  std::string text() const {
    return fmt::format("{} heads, {} queries, {} keys, dk {}, dv {}, d {}{}", heads, queries, keys, dk, dv, d,
                       causal ? ", causal" : "");
  }
};

template <class T>
struct head_data {
  std::vector<T> q, k, v, h;
};

template <class T>
head_data<T> make_data(const head_shape& s, double spread = 2) {
  head_data<T> data{random_numbers<T>(s.heads * s.queries * s.dk, 1), random_numbers<T>(s.heads * s.keys * s.dk, 2),
                    random_numbers<T>(s.heads * s.keys * s.dv, 3), random_numbers<T>(s.heads * s.dv * s.d, 4)};
  for (T& x : data.q) x *= static_cast<T>(spread);
  if (s.rank < 0) return data;
  for (std::int64_t i = 0; i < s.heads * s.keys; ++i) {  // each row of a head is a copy of one of its first `rank` rows
    const std::int64_t from = i / s.keys * s.keys + i % s.keys % s.rank;
    for (std::int64_t j = 0; j < s.dv; ++j) {
      data.v[static_cast<std::size_t>(i * s.dv + j)] = data.v[static_cast<std::size_t>(from * s.dv + j)];
    }
  }
  return data;
}

using matrix = std::vector<double>;

/// What one head should give, by the formulas in double: dense A, the projector of the range of T, their product.
struct reference {
  matrix raw, effective, received_raw, received_effective;
  std::int64_t rank;
  double pearson, raw_norm, effective_norm, null_norm;
};

template <class T>
matrix weights(const head_data<T>& data, const head_shape& s, std::int64_t head) {
  matrix a(static_cast<std::size_t>(s.queries * s.keys), 0.0);
  for (std::int64_t i = 0; i < s.queries; ++i) {
    double total = 0;
    double* row = a.data() + i * s.keys;
    for (std::int64_t j = 0; j < s.keys; ++j) {
      if (s.causal && j - s.keys > i - s.queries) continue;
      double score = 0;
      for (std::int64_t c = 0; c < s.dk; ++c) {
        score += static_cast<double>(data.q[static_cast<std::size_t>((head * s.queries + i) * s.dk + c)]) *
                 static_cast<double>(data.k[static_cast<std::size_t>((head * s.keys + j) * s.dk + c)]);
      }
      row[j] = std::exp(score / std::sqrt(static_cast<double>(s.dk)));
      total += row[j];
    }
    if (total == 0) continue;
    for (std::int64_t j = 0; j < s.keys; ++j) row[j] /= total;
  }
  return a;
}

/// Orthonormal vectors (each of `keys` entries) that span the columns of T = v h: Gram-Schmidt, twice, largest first.
template <class T>
std::vector<matrix> range(const head_data<T>& data, const head_shape& s, std::int64_t head) {
  const std::int64_t width = s.d == 0 ? s.dv : s.d;
  std::vector<matrix> columns(static_cast<std::size_t>(width), matrix(static_cast<std::size_t>(s.keys), 0.0));
  for (std::int64_t i = 0; i < s.keys; ++i) {
    for (std::int64_t c = 0; c < s.dv; ++c) {
      const double value = static_cast<double>(data.v[static_cast<std::size_t>((head * s.keys + i) * s.dv + c)]);
      for (std::int64_t j = 0; j < width; ++j) {
        const double factor = s.d == 0
                                  ? double(c == j)
                                  : static_cast<double>(data.h[static_cast<std::size_t>((head * s.dv + c) * s.d + j)]);
        columns[static_cast<std::size_t>(j)][static_cast<std::size_t>(i)] += value * factor;
      }
    }
  }
  const auto dot = [](const matrix& x, const matrix& y) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
    return sum;
  };
  std::vector<matrix> basis;
  double largest = 0;
  for (;;) {
    std::size_t best = 0;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (dot(columns[c], columns[c]) > dot(columns[best], columns[best])) best = c;
    }
    matrix next = columns[best];
    const double length = std::sqrt(dot(next, next));
    largest = std::max(largest, length);
    if (length <= 1e-9 * largest || static_cast<std::int64_t>(basis.size()) == s.keys) return basis;
    for (double& x : next) x /= length;
    for (int pass = 0; pass < 2; ++pass) {
      for (matrix& column : columns) {
        const double along = dot(column, next);
        for (std::size_t i = 0; i < next.size(); ++i) column[i] -= along * next[i];
      }
    }
    basis.push_back(next);
  }
}

inline double correlation(const matrix& x, const matrix& y) {
  const double n = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / n;
    mean_y += y[i] / n;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  return xy / std::sqrt(xx * yy);
}

template <class T>
reference make_reference(const head_data<T>& data, const head_shape& s, std::int64_t head) {
  reference r;
  r.raw = weights(data, s, head);
  r.effective.assign(r.raw.size(), 0.0);
  const std::vector<matrix> basis = range(data, s, head);
  r.rank = static_cast<std::int64_t>(basis.size());
  for (std::int64_t i = 0; i < s.queries; ++i) {
    for (const matrix& u : basis) {
      double along = 0;
      for (std::int64_t j = 0; j < s.keys; ++j) {
        along += r.raw[static_cast<std::size_t>(i * s.keys + j)] * u[static_cast<std::size_t>(j)];
      }
      for (std::int64_t j = 0; j < s.keys; ++j) {
        r.effective[static_cast<std::size_t>(i * s.keys + j)] += along * u[static_cast<std::size_t>(j)];
      }
    }
  }
  const auto norm = [&](auto entry) {
    double sum = 0;
    for (std::size_t i = 0; i < r.raw.size(); ++i) sum += entry(i) * entry(i);
    return std::sqrt(sum);
  };
  r.raw_norm = norm([&](std::size_t i) { return r.raw[i]; });
  r.effective_norm = norm([&](std::size_t i) { return r.effective[i]; });
  r.null_norm = norm([&](std::size_t i) { return r.raw[i] - r.effective[i]; });
  r.pearson = correlation(r.raw, r.effective);
  r.received_raw.assign(static_cast<std::size_t>(s.keys), 0.0);
  r.received_effective = r.received_raw;
  for (std::size_t i = 0; i < r.raw.size(); ++i) {
    r.received_raw[i % static_cast<std::size_t>(s.keys)] += r.raw[i];
    r.received_effective[i % static_cast<std::size_t>(s.keys)] += r.effective[i];
  }
  return r;
}

}  // namespace nullscope::test
