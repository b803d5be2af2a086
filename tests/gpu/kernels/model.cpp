#include "kernels/model/activation_backward.hpp"
#include "kernels/model/column_partials.hpp"
#include "kernels/model/dropout.hpp"
#include "kernels/model/embedding.hpp"
#include "kernels/model/layer_norm_residual.hpp"
#include "kernels/model/mask_keys.hpp"
#include "kernels/model/pool.hpp"
#include "kernels/model/relative_bias.hpp"
#include "tests/gpu/kernels/tables.hpp"

namespace nullscope::races {

kernel_table model_kernels() {
  using namespace kernels;
  return rows<
      activation_backward<double, activation_kind::gelu, 1, 256>,
      activation_backward<double, activation_kind::gelu, 1, 32>,
      activation_backward<double, activation_kind::gelu_tanh, 1, 256>,
      activation_backward<double, activation_kind::gelu_tanh, 1, 32>,
      activation_backward<double, activation_kind::relu, 1, 256>,
      activation_backward<double, activation_kind::relu, 1, 32>,
      activation_backward<double, activation_kind::tanh, 1, 256>,
      activation_backward<double, activation_kind::tanh, 1, 32>,
      activation_backward<float, activation_kind::gelu, 1, 256>,
      activation_backward<float, activation_kind::gelu, 1, 32>,
      activation_backward<float, activation_kind::gelu_tanh, 1, 256>,
      activation_backward<float, activation_kind::gelu_tanh, 1, 32>,
      activation_backward<float, activation_kind::relu, 1, 256>,
      activation_backward<float, activation_kind::relu, 1, 32>,
      activation_backward<float, activation_kind::tanh, 1, 256>,
      activation_backward<float, activation_kind::tanh, 1, 32>, add_partials<double>, add_partials<float>,
      bias_activation<double, activation_kind::gelu, 1, 256>, bias_activation<double, activation_kind::gelu, 1, 32>,
      bias_activation<double, activation_kind::gelu_tanh, 1, 256>,
      bias_activation<double, activation_kind::gelu_tanh, 1, 32>,
      bias_activation<double, activation_kind::none, 1, 256>, bias_activation<double, activation_kind::none, 1, 32>,
      bias_activation<double, activation_kind::relu, 1, 256>, bias_activation<double, activation_kind::relu, 1, 32>,
      bias_activation<double, activation_kind::tanh, 1, 256>, bias_activation<double, activation_kind::tanh, 1, 32>,
      bias_activation<float, activation_kind::gelu, 1, 256>, bias_activation<float, activation_kind::gelu, 1, 32>,
      bias_activation<float, activation_kind::gelu_tanh, 1, 256>,
      bias_activation<float, activation_kind::gelu_tanh, 1, 32>, bias_activation<float, activation_kind::none, 1, 256>,
      bias_activation<float, activation_kind::none, 1, 32>, bias_activation<float, activation_kind::relu, 1, 256>,
      bias_activation<float, activation_kind::relu, 1, 32>, bias_activation<float, activation_kind::tanh, 1, 256>,
      bias_activation<float, activation_kind::tanh, 1, 32>, dropout<double, 1, 256>, dropout<double, 1, 32>,
      dropout<float, 1, 256>, dropout<float, 1, 32>, embedding<double, 1, 256>, embedding<double, 1, 32>,
      embedding<float, 1, 256>, embedding<float, 1, 32>, embedding_backward<double, 1, 256>,
      embedding_backward<double, 1, 32>, embedding_backward<float, 1, 256>, embedding_backward<float, 1, 32>,
      layer_norm_backward<double, 1, 256>, layer_norm_backward<double, 1, 32>, layer_norm_backward<float, 1, 256>,
      layer_norm_backward<float, 1, 32>, layer_norm_residual<double, 1, 256>, layer_norm_residual<double, 1, 32>,
      layer_norm_residual<float, 1, 256>, layer_norm_residual<float, 1, 32>, mask_keys<double, 256>,
      mask_keys<double, 32>, mask_keys<float, 256>, mask_keys<float, 32>, pool_tokens<double, 1, 256>,
      pool_tokens<double, 1, 32>, pool_tokens<float, 1, 256>, pool_tokens<float, 1, 32>, relative_bias_gradient<double>,
      relative_bias_gradient<float>, relative_bias_table<double>, relative_bias_table<float>,
      sum_columns<double, 1, 256>, sum_columns<double, 1, 32>, sum_columns<float, 1, 256>, sum_columns<float, 1, 32>,
      unpool_tokens<double, 1, 256>, unpool_tokens<double, 1, 32>, unpool_tokens<float, 1, 256>,
      unpool_tokens<float, 1, 32>>();
}

}  // namespace nullscope::races
