#include "lib/src/model/norm_block.hpp"

#include <nullscope/model/layers.hpp>

namespace nullscope::detail {

template <class T>
void norm_block(const pass<T>& p, const norm_weights<const T>& weights, const pending_sum<T>& from,
                const norm_results<T>& to) {
  layer_norm_residual(p.ctx, {from.x, from.residual, weights.gamma, weights.beta, from.bias, to.next.bias},
                      {to.y, to.sum, to.statistics.mean, to.statistics.inverse_deviation, to.next.rows},
                      {p.config.norm_epsilon});
}

template <class T>
void norm_block_backward(const pass<T>& p, const norm_weights<const T>& weights, const norm_weights<T>& gradients,
                         const view<T, 2>& sum, const norm_statistics<T>& statistics, const view<T, 2>& d_y,
                         const norm_gradients<T>& to) {
  layer_norm_backward(p.ctx, {sum, weights.gamma, statistics.mean, statistics.inverse_deviation, d_y, to.d_residual},
                      {to.d_sum, gradients.gamma, gradients.beta, to.d_bias});
}

template void norm_block(const pass<float>&, const norm_weights<const float>&, const pending_sum<float>&,
                         const norm_results<float>&);
template void norm_block(const pass<double>&, const norm_weights<const double>&, const pending_sum<double>&,
                         const norm_results<double>&);
template void norm_block_backward(const pass<float>&, const norm_weights<const float>&, const norm_weights<float>&,
                                  const view<float, 2>&, const norm_statistics<float>&, const view<float, 2>&,
                                  const norm_gradients<float>&);
template void norm_block_backward(const pass<double>&, const norm_weights<const double>&, const norm_weights<double>&,
                                  const view<double, 2>&, const norm_statistics<double>&, const view<double, 2>&,
                                  const norm_gradients<double>&);

}  // namespace nullscope::detail
