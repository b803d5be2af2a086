/// The libraries behind `svd_algorithm::lapack`: oneMKL on the host, cuSOLVER and rocSOLVER on
/// GPUs of NVIDIA and AMD.
#pragma once

#include "lib/src/linalg/svd_paths.hpp"
#include "lib/src/vendor/cusolver.hpp"
#include "lib/src/vendor/rocsolver.hpp"

namespace nullscope::detail {

/// oneMKL was built in.
bool has_onemkl_svd();

void svd_onemkl(operation& op, const svd_problem<float>& problem);
void svd_onemkl(operation& op, const svd_problem<double>& problem);

/// One matrix after the other, each on the whole device.
void svd_cusolver(operation& op, const cusolver::functions& library, const svd_problem<float>& problem);
void svd_cusolver(operation& op, const cusolver::functions& library, const svd_problem<double>& problem);

/// All matrices in one call.
void svd_rocsolver(operation& op, const rocsolver::functions& library, const svd_problem<float>& problem);
void svd_rocsolver(operation& op, const rocsolver::functions& library, const svd_problem<double>& problem);

}  // namespace nullscope::detail
