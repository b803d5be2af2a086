#include "kernels/null_space/columns.hpp"
#include "kernels/null_space/complement.hpp"
#include "kernels/null_space/logits.hpp"
#include "kernels/null_space/ones.hpp"
#include "kernels/null_space/simplex_check.hpp"
#include "kernels/null_space/simplex_rows.hpp"
#include "tests/gpu/kernels/tables.hpp"

namespace nullscope::races {

kernel_table null_space_kernels() {
  using namespace kernels;
  return rows<append_last_columns<double>, append_last_columns<float>, append_ones<double, 64>, append_ones<float, 64>,
              complement_of_columns<double, 1>, complement_of_columns<float, 1>, keep_first_columns<double>,
              keep_first_columns<float>, logits_of_rows<double>, logits_of_rows<float>,
              simplex_differences<double, 1, 256>, simplex_differences<double, 1, 32>,
              simplex_differences<float, 1, 256>, simplex_differences<float, 1, 32>, simplex_rows<double, 1, 256>,
              simplex_rows<double, 1, 32>, simplex_rows<float, 1, 256>, simplex_rows<float, 1, 32>,
              simplex_worst<double>, simplex_worst<float>>();
}

}  // namespace nullscope::races
