#include "tests/gpu/kernels/tables.hpp"

namespace nullscope::races {

kernel_table table() {
  kernel_table all;
  for (const auto part : {attention_kernels, attribution_kernels, explain_kernels, linalg_kernels, model_kernels,
                          null_space_kernels, structure_kernels, training_kernels}) {
    const kernel_table rows = part();
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace nullscope::races
