#include "kernels/attribution/attention_tangent.hpp"
#include "kernels/attribution/entering_attention.hpp"
#include "kernels/attribution/layer_norm_product.hpp"
#include "tests/gpu/kernels/tables.hpp"

namespace nullscope::races {

kernel_table attribution_kernels() {
  using namespace kernels;
  return rows<attention_tangent<double, attention_tile_shape<1, 4, 2, 16, 4, 64>>,
              attention_tangent<float, attention_tile_shape<1, 4, 2, 16, 4, 64>>, entering_attention<double, 1, 256>,
              entering_attention<double, 1, 32>, entering_attention<float, 1, 256>, entering_attention<float, 1, 32>,
              layer_norm_product<double, 1, 256, false>, layer_norm_product<double, 1, 256, true>,
              layer_norm_product<double, 1, 32, false>, layer_norm_product<double, 1, 32, true>,
              layer_norm_product<float, 1, 256, false>, layer_norm_product<float, 1, 256, true>,
              layer_norm_product<float, 1, 32, false>, layer_norm_product<float, 1, 32, true>>();
}

}  // namespace nullscope::races
