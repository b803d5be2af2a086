#include <algorithm>
#include <cmath>
#include <nullscope/linalg/qr.hpp>
#include <nullscope/linalg/svd.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "bench/check/operations.hpp"

namespace nullscope::check_device {
namespace {

template <class T>
outcome check_qr(context& ctx) {
  constexpr std::int64_t m = 300, n = 37;
  const random_operand<T> a(ctx, {m, n}, 21);
  tensor<T> q(ctx, {m, n}), r(ctx, {n, n});
  qr(ctx, a.device, {.q = q, .r = r}).wait_and_throw();
  const std::vector<T> q_host = q.to_host();
  const numbers back = product(to_doubles(q_host), to_doubles(r.to_host()), m, n, n);
  const double residual = scaled_residual(std::vector<T>(back.begin(), back.end()), a.host, std::sqrt(n));
  return {worse(residual, orthogonality(q_host.data(), m, n, n, 1))};
}

template <class T>
outcome check_svd(context& ctx) {
  constexpr std::int64_t m = 70, n = 33;
  const random_operand<T> a(ctx, {m, n}, 22);
  const svd_tensors<T> found = svd(ctx, a.device, {});
  numbers us = to_doubles(found.u.to_host());
  const std::vector<T> s = found.s.to_host(), u = found.u.to_host();
  for (std::size_t i = 0; i < us.size(); ++i) us[i] *= static_cast<double>(s[i % n]);
  const numbers back = product(us, to_doubles(found.vt.to_host()), m, n, n);
  const double residual = scaled_residual(std::vector<T>(back.begin(), back.end()), a.host, n);
  return {worse(residual, orthogonality(u.data(), m, n, n, 1))};
}

/// T = V H of known rank: the basis spans the columns of V, and the rank is right.
template <class T>
outcome check_range(context& ctx) {
  constexpr std::int64_t tokens = 200, d_v = 24, d = 40;
  const random_operand<T> v(ctx, {tokens, d_v}, 23), h(ctx, {d_v, d}, 24);
  const range_tensors<T> found = range_basis(ctx, v.device, h.device);
  if (found.rank[0] != d_v) return {static_cast<double>(std::abs(found.rank[0] - d_v)), 0};
  const numbers u = to_doubles(found.basis.to_host());
  // |V - U U^T V|: u (tokens, columns), whose last column is zero
  constexpr std::int64_t columns = d_v + 1;
  numbers coefficients(static_cast<std::size_t>(columns * d_v));
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < columns; ++i) {
      for (std::int64_t j = 0; j < d_v; ++j) {
        coefficients[static_cast<std::size_t>(i * d_v + j)] +=
            u[static_cast<std::size_t>(t * columns + i)] * v.host[static_cast<std::size_t>(t * d_v + j)];
      }
    }
  }
  const numbers back = product(u, coefficients, tokens, d_v, columns);
  return {scaled_residual(std::vector<T>(back.begin(), back.end()), v.host, d_v)};
}

template <class T>
checked_operations of_type() {
  const std::string type = type_name<T>();
  return {{"QR", type, check_qr<T>}, {"SVD", type, check_svd<T>}, {"range and rank of T", type, check_range<T>}};
}

}  // namespace

checked_operations lapack_operations(bool fp64) {
  checked_operations all = of_type<float>();
  if (fp64) {
    for (checked_operation& one : of_type<double>()) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace nullscope::check_device
