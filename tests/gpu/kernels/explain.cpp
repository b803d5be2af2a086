#include "kernels/explain/gradient_path.hpp"
#include "kernels/explain/linear_fit.hpp"
#include "kernels/explain/slalom_errors.hpp"
#include "kernels/explain/slalom_fit.hpp"
#include "kernels/explain/slalom_sgd.hpp"
#include "tests/gpu/kernels/tables.hpp"

namespace nullscope::races {

kernel_table explain_kernels() {
  using namespace kernels;
  return rows<gradient_figures<double, 1, 256>, gradient_figures<double, 1, 32>, gradient_figures<float, 1, 256>,
              gradient_figures<float, 1, 32>, linear_fit<double, 1, 256>, linear_fit<double, 1, 32>,
              linear_fit<float, 1, 256>, linear_fit<float, 1, 32>, path_points<double, 1, 256>,
              path_points<double, 1, 32>, path_points<float, 1, 256>, path_points<float, 1, 32>,
              slalom_errors<double, 1, 256>, slalom_errors<double, 1, 32>, slalom_errors<float, 1, 256>,
              slalom_errors<float, 1, 32>, slalom_fit<double, 1, 256>, slalom_fit<double, 1, 32>,
              slalom_fit<float, 1, 256>, slalom_fit<float, 1, 32>, slalom_sgd<double, 256>, slalom_sgd<double, 32>,
              slalom_sgd<float, 256>, slalom_sgd<float, 32>>();
}

}  // namespace nullscope::races
