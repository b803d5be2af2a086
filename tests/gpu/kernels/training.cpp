#include "kernels/training/adam.hpp"
#include "kernels/training/cross_entropy.hpp"
#include "tests/gpu/kernels/tables.hpp"

namespace nullscope::races {

kernel_table training_kernels() {
  using namespace kernels;
  return rows<adam<double, 1, 256>, adam<float, 1, 256>, clip_scale<double>, clip_scale<float>,
              cross_entropy_gradient<double, 256>, cross_entropy_gradient<double, 32>,
              cross_entropy_gradient<float, 256>, cross_entropy_gradient<float, 32>, cross_entropy_mean<double, 256>,
              cross_entropy_mean<double, 32>, cross_entropy_mean<float, 256>, cross_entropy_mean<float, 32>,
              cross_entropy_rows<double, 256>, cross_entropy_rows<double, 32>, cross_entropy_rows<float, 256>,
              cross_entropy_rows<float, 32>, softmax_backward<double, 1, 256>, softmax_backward<double, 1, 32>,
              softmax_backward<float, 1, 256>, softmax_backward<float, 1, 32>, squares_of_blocks<double, 1, 256>,
              squares_of_blocks<float, 1, 256>>();
}

}  // namespace nullscope::races
