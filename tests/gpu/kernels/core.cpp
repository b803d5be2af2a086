#include "kernels/core/fill_random.hpp"
#include "tests/gpu/kernels/tables.hpp"

namespace nullscope::races {

kernel_table core_kernels() {
  using namespace kernels;
  return rows<fill_random<double, false, 1, 256>, fill_random<double, false, 1, 32>, fill_random<double, true, 1, 256>,
              fill_random<double, true, 1, 32>, fill_random<float, false, 1, 256>, fill_random<float, false, 1, 32>,
              fill_random<float, true, 1, 256>, fill_random<float, true, 1, 32>>();
}

}  // namespace nullscope::races
