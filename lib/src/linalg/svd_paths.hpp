/// The ways to decompose a batch that `svd` chooses from. All take operands that are checked already, with batch >= 1.
#pragma once

#include <cstdint>
#include <nullscope/core/operation.hpp>
#include <nullscope/linalg/svd.hpp>

#include "kernels/linalg/svd/problem.hpp"

namespace nullscope::detail {

using kernels::svd_problem;  // max_sweeps 0: the path's own limit

/// Bidiagonalisation with one matrix per lane.
void run_laned_svd(operation& op, const svd_problem<float>& problem);
void run_laned_svd(operation& op, const svd_problem<double>& problem);

/// Jacobi rotations with one matrix per work-group.
void run_jacobi_svd(operation& op, const svd_problem<float>& problem);
void run_jacobi_svd(operation& op, const svd_problem<double>& problem);

/// The LAPACK of the device's vendor, if has_lapack: oneMKL's gesdd on the host, cuSOLVER's or rocSOLVER's
/// gesvd.
bool has_lapack(const context& ctx);
void run_lapack_svd(operation& op, const svd_problem<float>& problem);
void run_lapack_svd(operation& op, const svd_problem<double>& problem);

/// `numerical_rank` of what svd has decomposed, with its status (absent: all converged): -1 for a matrix that did not
/// converge.
sycl::event rank_of_decomposed(context& ctx, view<const float, 2> s, view<const std::int32_t, 1> status,
                               view<std::int64_t, 1> rank, const numerical_rank_options& options);
sycl::event rank_of_decomposed(context& ctx, view<const double, 2> s, view<const std::int32_t, 1> status,
                               view<std::int64_t, 1> rank, const numerical_rank_options& options);

}  // namespace nullscope::detail
