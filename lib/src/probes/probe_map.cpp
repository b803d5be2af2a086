#include "lib/src/probes/probe_map.hpp"

#include <cmath>
#include <nullscope/core/operation.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/layers.hpp>

#include "lib/src/core/fill.hpp"

namespace nullscope::detail {
namespace {

/// Rows [offset, offset + rows * columns) of each probe's parameters as matrices (probes, rows, columns).
template <class T>
view<T, 3> matrices(const view<T, 2>& parameters, std::int64_t offset, std::int64_t rows, std::int64_t columns) {
  return {parameters.data + offset, {parameters.extent[0], rows, columns}, {parameters.stride[0], columns, 1}};
}

/// y (probes, rows, columns) = x w + bias, with a bias (probes, columns) that all rows share.
template <class T>
void multiply_and_shift(context& ctx, const view<const T, 3>& x, const view<const T, 3>& w, view<const T, 3> bias,
                        const view<T, 3>& y) {
  bias.extent[1] = y.extent[1];
  bias.stride[1] = 0;
  copy(ctx, bias, y);
  gemm(ctx, gemm_operands<T>{x, w}, y, {.beta = 1});
}

/// All rows of all probes as one matrix.
template <class T>
view<T, 2> all_rows(const view<T, 3>& x) {
  return merge(x, 0);
}

}  // namespace

template <class T>
void apply_probes(context& ctx, const probe_shape& shape, const view<const T, 2>& parameters,
                  const probe_activations<T>& x) {
  const std::int64_t d = shape.width, h = shape.hidden;
  if (shape.map == probe_map::identity) return;
  if (shape.map == probe_map::linear) {
    gemm(ctx, gemm_operands<T>{x.e, matrices(parameters, 0, d, d)}, x.y);
    return;
  }
  // e (P,B,d) -> pre, post (P,B,h) -> y (P,B,d)
  multiply_and_shift<T>(ctx, x.e, matrices(parameters, 0, d, h), matrices(parameters, shape.first_weights(), 1, h),
                        x.pre);
  apply(ctx, view<const T, 3>(x.pre), x.post, unary_function::gelu);
  multiply_and_shift<T>(ctx, x.post, matrices(parameters, shape.second_weights(), h, d),
                        matrices(parameters, shape.second_bias(), 1, d), x.y);
}

template <class T>
void probe_gradients(context& ctx, const probe_shape& shape, const view<const T, 2>& parameters,
                     const probe_activations<T>& x, const view<T, 2>& gradient) {
  const std::int64_t d = shape.width, h = shape.hidden;
  const view<const T, 3> e = x.e, d_y = x.y, post = x.post;
  if (shape.map == probe_map::linear) {
    gemm(ctx, gemm_operands<T>{transposed(e), d_y}, matrices(gradient, 0, d, d));
    return;
  }
  gemm(ctx, gemm_operands<T>{transposed(post), d_y}, matrices(gradient, shape.second_weights(), h, d));
  row_reduce(ctx, transposed(d_y), select(matrices(gradient, shape.second_bias(), 1, d), 1, 0), row_reduction::sum);
  gemm(ctx, gemm_operands<T>{d_y, transposed(matrices(parameters, shape.second_weights(), h, d))}, x.post);
  activation_backward(ctx, activation_backward_operands<T>{all_rows(x.pre), all_rows(x.post)},
                      activation_gradients<T>{.d_x = all_rows(x.post)}, {.function = activation::gelu});
  gemm(ctx, gemm_operands<T>{transposed(e), post}, matrices(gradient, 0, d, h));
  row_reduce(ctx, transposed(post), select(matrices(gradient, shape.first_weights(), 1, h), 1, 0), row_reduction::sum);
}

template <class T>
void initialise_probe(operation& op, const probe_shape& shape, const view<T, 1>& parameters, std::uint64_t seed,
                      std::uint64_t stream) {
  context& ctx = op.ctx();
  const double limit = std::sqrt(6.0 / static_cast<double>(shape.width + shape.columns()));
  const uniform_options between{-limit, limit};
  fill_uniform(ctx, slice(parameters, 0, 0, shape.first_weights()), {seed, 2 * stream}, between);
  if (shape.map != probe_map::mlp) return;
  fill_uniform(ctx, slice(parameters, 0, shape.second_weights(), shape.hidden * shape.width), {seed, 2 * stream + 1},
               between);
  fill_zero(op, slice(parameters, 0, shape.first_weights(), shape.hidden));
  fill_zero(op, slice(parameters, 0, shape.second_bias(), shape.width));
}

template void apply_probes(context&, const probe_shape&, const view<const float, 2>&, const probe_activations<float>&);
template void apply_probes(context&, const probe_shape&, const view<const double, 2>&,
                           const probe_activations<double>&);
template void probe_gradients(context&, const probe_shape&, const view<const float, 2>&,
                              const probe_activations<float>&, const view<float, 2>&);
template void probe_gradients(context&, const probe_shape&, const view<const double, 2>&,
                              const probe_activations<double>&, const view<double, 2>&);
template void initialise_probe(operation&, const probe_shape&, const view<float, 1>&, std::uint64_t, std::uint64_t);
template void initialise_probe(operation&, const probe_shape&, const view<double, 1>&, std::uint64_t, std::uint64_t);

}  // namespace nullscope::detail
