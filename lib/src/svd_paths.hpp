/// The ways to decompose a batch that `svd` chooses from. All take what is checked already, with m >= n: a wide matrix
/// comes as its transpose, with u and v exchanged.
#pragma once

#include <cstdint>
#include <nullscope/svd.hpp>

namespace nullscope::detail {

template <class T>
struct svd_problem {
  view<const T, 3> a;            // (batch, m, n), m >= n >= 1
  view<T, 2> s;                  // (batch, n)
  view<T, 3> u;                  // (batch, m, u_columns)
  view<T, 3> v;                  // (batch, n, n)
  view<std::int32_t, 1> status;  // (batch)
  view<std::int32_t, 1> sweeps;  // (batch), or no memory
  std::int64_t u_columns;        // 0: values only; n; m
  std::int64_t max_sweeps;       // 0: the path's own

  std::int64_t batch() const { return a.extent[0]; }
  std::int64_t m() const { return a.extent[1]; }
  std::int64_t n() const { return a.extent[2]; }
};

/// A path: what it needs, and what it does. `scratch` is aligned to 64 bytes.
template <class T>
struct pack_path {
  static std::int64_t scratch_bytes(const sycl::queue& queue, const svd_problem<T>& problem);
  static sycl::event run(sycl::queue& queue, const svd_problem<T>& problem, std::byte* scratch,
                         const std::vector<sycl::event>& dependencies);
};

/// How the Jacobi kernel is laid over a device: one work-item with wide packs a work-group, or `group` work-items.
struct jacobi_shape {
  bool is_wide;
  std::int64_t group;

  static jacobi_shape of(const sycl::queue& queue);
};

template <class T>
struct jacobi_path {
  static std::int64_t scratch_bytes(const sycl::queue& queue, const svd_problem<T>& problem, jacobi_shape shape);
  static sycl::event run(sycl::queue& queue, const svd_problem<T>& problem, jacobi_shape shape, std::byte* scratch,
                         const std::vector<sycl::event>& dependencies);
};

/// oneMKL's gesdd in a host task, for CPU devices.
template <class T>
struct lapack_path {
  static bool serves(const sycl::queue& queue);
  static std::int64_t scratch_bytes(const sycl::queue& queue, const svd_problem<T>& problem);
  static sycl::event run(sycl::queue& queue, const svd_problem<T>& problem, std::byte* scratch,
                         const std::vector<sycl::event>& dependencies);
};

/// `numerical_rank` of what svd has decomposed, with its status: -1 for a matrix that did not converge.
template <class T>
sycl::event rank_of_decomposed(sycl::queue& queue, view<const T, 2> s, view<const std::int32_t, 1> status,
                               std::int64_t m, std::int64_t n, T rtol, T atol, view<std::int64_t, 1> rank,
                               const std::vector<sycl::event>& dependencies);

}  // namespace nullscope::detail
