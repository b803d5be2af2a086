#include <nullscope/attribution/jacobian.hpp>

#include <algorithm>
#include <map>
#include <nullscope/linalg/rows.hpp>
#include <set>

#include "lib/src/attribution/attribution_run.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/fill.hpp"
#include "lib/src/model/pass.hpp"

namespace nullscope {
namespace {

/// Checks what both products take, and returns the layer.
template <class T>
std::int64_t checked(const char* name, const context& ctx, const transformer_config& config, const token_batch& batch,
                     const char* from_name, const view<const T, 4>& from, const char* to_name, const view<T, 4>& to,
                     const jacobian_options<T>& options) {
  check::device_type<T>(name, ctx);
  check::input(name, from_name, from);
  check::shape(name, from_name, from, {from.extent[0], batch.size(), batch.tokens(), config.width});
  check::output(name, to_name, to);
  check::same_shape(name, from_name, from, to_name, to);
  if (options.record == nullptr || options.record->what() != keep::backward || options.record->recomputes()) {
    throw invalid_argument(fmt::format("{}: needs a record with keep::backward that does not recompute", name));
  }
  if (options.layer < 0 || options.layer > config.layers || config.layers == 0) {
    throw invalid_argument(fmt::format("{}: there is no hidden state {} after a layer, the model has {} layers", name,
                                       options.layer, config.layers));
  }
  return options.layer == 0 ? config.layers : options.layer;
}

template <class T>
sycl::event multiply_forward(context& ctx, const transformer<T>& model, const token_batch& batch,
                             const view<const T, 4>& d_inputs, const view<T, 4>& d_hidden,
                             const jacobian_options<T>& options, const events& dependencies) {
  constexpr const char* name = "jacobian_vector_products";
  const std::int64_t last =
      checked(name, ctx, model.config(), batch, "d_inputs", d_inputs, "d_hidden", d_hidden, options);
  operation op(ctx, name, dependencies);
  if (d_inputs.empty()) return op.submit();
  const view<const T, 2> relative = detail::places_of(model).relative_bias.matrix(model.values().data());
  const detail::tangent_layers<T> layers(ctx, model, batch, *options.record,
                                         detail::take_relative_bias(op, model.config(), relative, batch.tokens()));
  detail::tangent_memory<T> memory = layers.take_memory(op, 0, d_inputs.extent[0]);
  // (tangents, S, d) <-> (S, tangents, d) of each sequence
  const auto by_token = [](const auto& x) {
    auto result = x;
    std::swap(result.extent[0], result.extent[1]);
    std::swap(result.stride[0], result.stride[1]);
    return result;
  };
  for (std::int64_t b = 0; b < batch.size(); ++b) copy(ctx, by_token(select(d_inputs, 1, b)), select(memory.x, 0, b));
  layers.through_embedding_norm(memory);
  for (std::int64_t layer = 0; layer < last; ++layer) layers.pass(layer, memory);
  const view<const T, 4> result = layers.hidden_state(last, memory);
  for (std::int64_t b = 0; b < batch.size(); ++b) copy(ctx, select(result, 0, b), by_token(select(d_hidden, 1, b)));
  return op.submit();
}

template <class T>
sycl::event multiply_backward(context& ctx, const transformer<T>& model, const token_batch& batch,
                              const view<const T, 4>& d_hidden, const view<T, 4>& d_inputs,
                              const jacobian_options<T>& options, const events& dependencies) {
  constexpr const char* name = "vector_jacobian_products";
  const std::int64_t last =
      checked(name, ctx, model.config(), batch, "d_hidden", d_hidden, "d_inputs", d_inputs, options);
  if (last != model.config().layers) {
    throw invalid_argument(fmt::format("{}: layer {} is not the last one", name, last));
  }
  operation op(ctx, name, dependencies);
  for (std::int64_t i = 0; i < d_hidden.extent[0] && !d_hidden.empty(); ++i) {
    backward(ctx, model, batch, {.d_last_hidden = select(d_hidden, 0, i)}, {.d_inputs = select(d_inputs, 0, i)},
             {.record = options.record});
  }
  return op.submit();
}

template <class T>
tensor<T> dense_blocks(context& ctx, const transformer<T>& model, const token_batch& batch,
                       std::span<const jacobian_block> blocks, const jacobian_blocks_options& given) {
  const transformer_config& config = model.config();
  std::map<std::int64_t, std::vector<std::size_t>> of_input;
  std::set<std::int64_t> layers;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto& [sequence, layer, hidden, input] = blocks[i];
    const bool has_sequence = sequence >= 0 && sequence < batch.size();
    const std::int64_t length = has_sequence ? batch.lengths()[static_cast<std::size_t>(sequence)] : 0;
    if (!has_sequence || layer <= std::max<std::int64_t>(given.from, 0) || layer > config.layers || hidden < 0 ||
        hidden >= length || input < 0 || input >= length) {
      throw invalid_argument(
          fmt::format("jacobian_blocks: block {} is of sequence {}, layer {}, hidden token {} and "
                      "input token {}, which there is not",
                      i, sequence, layer, hidden, input));
    }
    of_input[input].push_back(i);
    layers.insert(layer);
  }
  const std::int64_t d = config.width;
  tensor<T> result(ctx, {static_cast<std::int64_t>(blocks.size()), d, d});
  if (blocks.empty()) return result;
  detail::attribution_run<T> work(ctx, model, batch,
                                  {.layers = {layers.begin(), layers.end()},
                                   .from = given.from,
                                   .memory = given.memory,
                                   .merging = jacobian_merging::never});
  work.slots_at_once(true);  // or it says how much memory is missing
  for (const auto& [input, places] : of_input) {
    work.sweep(input * d, d,
               [&](operation& op, std::size_t layer, std::int64_t first, const view<T, 4>& tangents) {
                 for (const std::size_t i : places) {
                   if (blocks[i].layer != work.options().layers[layer]) continue;
                   const view<T, 2> to = contiguous(result.data() + static_cast<std::int64_t>(i) * d * d, d, d);
                   if (blocks[i].hidden_token < first) {
                     detail::fill_zero(op, to);
                   } else {
                     const view<T, 2> from =
                         select(select(tangents, 0, blocks[i].sequence), 0, blocks[i].hidden_token - first);
                     transpose(ctx, view<const T, 2>(from), view<T, 3>(to));
                   }
                 }
               })
        .wait_and_throw();
  }
  return result;
}

}  // namespace

sycl::event jacobian_vector_products(context& ctx, const transformer<float>& model, const token_batch& batch,
                                     view<const float, 4> d_inputs, view<float, 4> d_hidden,
                                     const jacobian_options<float>& options, const events& dependencies) {
  return multiply_forward(ctx, model, batch, d_inputs, d_hidden, options, dependencies);
}
sycl::event jacobian_vector_products(context& ctx, const transformer<double>& model, const token_batch& batch,
                                     view<const double, 4> d_inputs, view<double, 4> d_hidden,
                                     const jacobian_options<double>& options, const events& dependencies) {
  return multiply_forward(ctx, model, batch, d_inputs, d_hidden, options, dependencies);
}

sycl::event vector_jacobian_products(context& ctx, const transformer<float>& model, const token_batch& batch,
                                     view<const float, 4> d_hidden, view<float, 4> d_inputs,
                                     const jacobian_options<float>& options, const events& dependencies) {
  return multiply_backward(ctx, model, batch, d_hidden, d_inputs, options, dependencies);
}
sycl::event vector_jacobian_products(context& ctx, const transformer<double>& model, const token_batch& batch,
                                     view<const double, 4> d_hidden, view<double, 4> d_inputs,
                                     const jacobian_options<double>& options, const events& dependencies) {
  return multiply_backward(ctx, model, batch, d_hidden, d_inputs, options, dependencies);
}

tensor<float> jacobian_blocks(context& ctx, const transformer<float>& model, const token_batch& batch,
                              std::span<const jacobian_block> blocks, const jacobian_blocks_options& options) {
  return dense_blocks(ctx, model, batch, blocks, options);
}
tensor<double> jacobian_blocks(context& ctx, const transformer<double>& model, const token_batch& batch,
                               std::span<const jacobian_block> blocks, const jacobian_blocks_options& options) {
  return dense_blocks(ctx, model, batch, blocks, options);
}

}  // namespace nullscope
