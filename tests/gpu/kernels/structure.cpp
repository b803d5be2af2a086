#include "kernels/structure/cut_rows.hpp"
#include "kernels/structure/nearest.hpp"
#include "kernels/structure/weighted_norm.hpp"
#include "tests/gpu/kernels/tables.hpp"

namespace nullscope::races {

kernel_table structure_kernels() {
  using namespace kernels;
  return rows<cut_rows<double, 1, 256>, cut_rows<double, 1, 32>, cut_rows<float, 1, 256>, cut_rows<float, 1, 32>,
              nearest_column<double>, nearest_column<float>, weighted_norm<double, 1, 256>,
              weighted_norm<double, 1, 32>, weighted_norm<float, 1, 256>, weighted_norm<float, 1, 32>>();
}

}  // namespace nullscope::races
