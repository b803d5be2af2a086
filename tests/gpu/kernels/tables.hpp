/// The kernels that the library launches on GPUs, for the checker: one file per subject, one row per kernel. A kernel
/// of
/// `./run machine-code` that has no row makes the test fail.
#pragma once

#include "tests/gpu/checker/kernel_table.hpp"

namespace nullscope::races {

kernel_table attention_kernels();
kernel_table attribution_kernels();
kernel_table explain_kernels();
kernel_table linalg_kernels();
kernel_table model_kernels();
kernel_table null_space_kernels();
kernel_table structure_kernels();
kernel_table training_kernels();

}  // namespace nullscope::races
