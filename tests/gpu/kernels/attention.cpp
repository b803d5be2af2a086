#include "kernels/attention/backward.hpp"
#include "kernels/attention/backward_operands.hpp"
#include "kernels/attention/bias_gradient.hpp"
#include "kernels/attention/by_rows.hpp"
#include "kernels/attention/by_rows_summary.hpp"
#include "kernels/attention/effective_summary.hpp"
#include "kernels/attention/entropy.hpp"
#include "kernels/attention/exponentials.hpp"
#include "kernels/attention/forward.hpp"
#include "kernels/attention/indicators.hpp"
#include "kernels/attention/query_rows.hpp"
#include "kernels/attention/received.hpp"
#include "kernels/attention/rollout.hpp"
#include "kernels/attention/row_moments.hpp"
#include "tests/gpu/kernels/tables.hpp"

namespace nullscope::races {

kernel_table attention_kernels() {
  using namespace kernels;
  return rows<
      add_bias_sums<double>, add_bias_sums<float>, add_block_sums<double, double>, add_block_sums<float, double>,
      attention_backward<double, attention_tile_shape<1, 2, 2, 16, 4, 64>>,
      attention_backward<float, attention_tile_shape<1, 4, 2, 16, 4, 64>>,
      attention_backward_operands<bfloat16, float, attention_tile_shape<1, 4, 2, 16, 4, 64>>,
      attention_backward_operands<double, double, attention_tile_shape<1, 2, 2, 16, 4, 64>>,
      attention_backward_operands<float, float, attention_tile_shape<1, 4, 2, 16, 4, 64>>,
      attention_by_rows<double, 1, 256>, attention_by_rows<double, 1, 32>, attention_by_rows<float, 1, 256>,
      attention_by_rows<float, 1, 32>, attention_exponentials<double, 1, 256>, attention_exponentials<double, 1, 32>,
      attention_exponentials<float, 1, 256>, attention_exponentials<float, 1, 32>,
      attention_forward<bfloat16, float, attention_tile_shape<1, 4, 2, 16, 1, 64>>,
      attention_forward<bfloat16, float, attention_tile_shape<1, 4, 2, 16, 4, 64>>,
      attention_forward<double, double, attention_tile_shape<1, 4, 2, 16, 1, 64>>,
      attention_forward<double, double, attention_tile_shape<1, 4, 2, 16, 4, 64>>,
      attention_forward<float, float, attention_tile_shape<1, 4, 2, 16, 1, 64>>,
      attention_forward<float, float, attention_tile_shape<1, 4, 2, 16, 4, 64>>,
      attention_received<double, attention_tile_shape<1, 4, 2, 16, 4, 64>>,
      attention_received<float, attention_tile_shape<1, 4, 2, 16, 4, 64>>, attention_row_moments<double, 1, 256>,
      attention_row_moments<double, 1, 32>, attention_row_moments<float, 1, 256>, attention_row_moments<float, 1, 32>,
      by_rows_summary<double, double, 32>, by_rows_summary<float, double, 32>, class_indicators<double>,
      class_indicators<float>, effective_summary<double, double, 32>, effective_summary<float, double, 32>,
      gather_queries<double, 1, 256>, gather_queries<double, 1, 32>, gather_queries<float, 1, 256>,
      gather_queries<float, 1, 32>, gather_score_bias<double, 256>, gather_score_bias<double, 32>,
      gather_score_bias<float, 256>, gather_score_bias<float, 32>, rollout_layer<double, 1, 256>,
      rollout_layer<double, 1, 32>, rollout_layer<float, 1, 256>, rollout_layer<float, 1, 32>,
      row_entropy<double, 1, 256>, row_entropy<double, 1, 32>, row_entropy<float, 1, 256>, row_entropy<float, 1, 32>>();
}

}  // namespace nullscope::races
