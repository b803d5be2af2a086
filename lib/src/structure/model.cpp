#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/linalg/svd.hpp>
#include <nullscope/structure/model_structure.hpp>
#include <nullscope/structure/structure_norm.hpp>

#include "lib/src/core/fill.hpp"
#include "lib/src/model/gathered_heads.hpp"

namespace nullscope {
namespace {

/// Checked before anything is allocated for it.
std::int64_t checked_tokens(const transformer_config& config, std::int64_t tokens) {
  if (tokens >= 1 && (!config.has_positions || tokens <= config.positions)) return tokens;
  throw invalid_argument(
      fmt::format("model_structure: {} tokens are not from 1 to the {} of the model", tokens, config.positions));
}

}  // namespace

template <class T>
model_structure<T>::model_structure(context& ctx, const transformer<T>& model, std::int64_t tokens,
                                    const model_structure_options& options)
    : model_(model),
      tokens_(checked_tokens(model.config(), tokens)),
      heads_(model.config().layers * model.config().heads),
      options_(options),
      gathered_(std::make_unique<detail::gathered_heads<T>>(ctx, model, tokens_)),
      attention_(ctx, heads_, tokens_, tokens_),
      subspace_(ctx, heads_, tokens_) {}

template <class T>
model_structure<T>::~model_structure() = default;

template <class T>
template <class Visit>
void model_structure<T>::for_each(context& ctx, const char* function, std::span<const token_batch::sequence> sequences,
                                  Visit visit) {
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (std::ssize(sequences[i].ids) <= tokens_) continue;
    throw invalid_argument(
        fmt::format("{}: sequence {} has {} tokens, more than {}", function, i, sequences[i].ids.size(), tokens_));
  }
  transformer_config config = model_.config();
  config.pairs = false;
  const token_batch batch(ctx, config, sequences);
  forward_record<T> record(ctx, model_.config(), batch.size(), batch.tokens(), keep::heads);
  operation op(ctx, function);
  forward(ctx, model_, batch, forward_results<T>{}, {.record = &record});
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    operation part(ctx, function);  // gives its workspace back
    const std::int64_t count = batch.lengths()[static_cast<std::size_t>(i)];
    log_sum_exp_ = gathered_->gather_log_sum_exp(ctx, record, i, count);
    visit(part, gathered_->gather(ctx, record, i, count), i);
    part.submit();
  }
  op.submit_and_wait();
}

/// A (heads, count, count), raw or effective, as part of the operation.
template <class T>
view<const T, 3> model_structure<T>::dense_attention(operation& op, const attention_heads<T>& heads) {
  context& ctx = op.ctx();
  const std::int64_t count = heads.q.extent[1], columns = heads.basis_columns();
  const bool causal = model_.config().causal;
  const auto dense = op.take_array<T>(heads_, count, count);
  attention_factors<T> factors{heads.q, heads.k, log_sum_exp_, {}, {}, heads.bias};
  const std::int64_t kept = options_.effective ? columns : 0;
  const auto p = op.take_array<T>(heads_, count, kept), u = op.take_array<T>(heads_, count, kept);
  if (options_.effective) {
    const auto log_sum_exp = op.take_array<T>(heads_, count);
    effective_attention(
        ctx, heads,
        effective_attention_results<T>{p, u, op.take_array<T>(heads_, columns), op.take_array<std::int64_t>(heads_),
                                       op.take_array<std::int32_t>(heads_), log_sum_exp},
        {.causal = causal});
  }
  factors.p = p;
  factors.u = u;
  attention_part(
      ctx, factors, dense,
      {.matrix = options_.effective ? attention_matrix::effective : attention_matrix::raw, .causal = causal});
  return dense;
}

template <class T>
void model_structure<T>::add(context& ctx, std::span<const token_batch::sequence> sequences,
                             const structure_parts& parts) {
  for_each(ctx, "model_structure::add", sequences, [&](operation& op, const attention_heads<T>& heads, std::int64_t) {
    if (parts.attention) attention_.add(ctx, view<const T, 4>(dense_attention(op, heads)));
    if (parts.subspace) subspace_.add(ctx, {heads.v, heads.h});
  });
}

template <class T>
std::vector<structure_distances<T>> model_structure<T>::distances(context& ctx,
                                                                  std::span<const token_batch::sequence> sequences,
                                                                  const tensor<T>& reference,
                                                                  const tensor<T>& weights) {
  const tensor<T> one(ctx, {1}, std::vector<T>{T(1)});
  const view<const T, 3> uniform{one.data(), {1, tokens_, tokens_}, {0, 0, 0}};
  tensor<T> results(ctx, {std::ssize(sequences), 2, heads_});
  for_each(ctx, "model_structure::distances", sequences,
           [&](operation& op, const attention_heads<T>& heads, std::int64_t i) {
             view<const T, 3> a = dense_attention(op, heads);
             if (const std::int64_t count = a.extent[1]; count < tokens_) {
               const view<T, 3> padded = op.take_array<T>(heads_, tokens_, tokens_);
               detail::fill_zero(op, padded);
               copy(ctx, a, slice(slice(padded, 1, 0, count), 2, 0, count));
               a = padded;
             }
             const view<T, 2> out = select(view<T, 3>(results), 0, i);
             structure_norm(ctx, structure_norm_operands<T>{a, uniform, reference}, select(out, 0, 0));
             structure_norm(ctx, structure_norm_operands<T>{a, weights, reference}, select(out, 0, 1));
           });
  const std::vector<T> host = results.to_host();
  std::vector<structure_distances<T>> distances;
  for (auto from = host.begin(); from != host.end(); from += 2 * heads_) {
    distances.push_back({{from, from + heads_}, {from + heads_, from + 2 * heads_}});
  }
  return distances;
}

template <class T>
std::vector<std::vector<std::int64_t>> model_structure<T>::switched_off_dimensions(
    context& ctx, std::span<const token_batch::sequence> sequences, const tensor<T>& basis) {
  constexpr const char* function = "model_structure::switched_off_dimensions";
  tensor<std::int64_t> results(ctx, {std::ssize(sequences), heads_});
  for_each(ctx, function, sequences, [&](operation& op, const attention_heads<T>& heads, std::int64_t i) {
    const view<const T, 3> space = basis;
    const auto u = op.take_array<T>(space.extent[0], space.extent[1], space.extent[2]);
    switched_off(
        ctx, switched_off_operands<T>{space, heads.v, heads.h},
        switched_off_results<T>{u, select(view<std::int64_t, 2>(results), 0, i), op.take_array<std::int32_t>(heads_)});
  });
  const std::vector<std::int64_t> host = results.to_host();
  std::vector<std::vector<std::int64_t>> dimensions;
  for (auto from = host.begin(); from != host.end(); from += heads_) {
    const std::vector<std::int64_t>& of_input = dimensions.emplace_back(from, from + heads_);
    const std::vector<std::int64_t> failed = failed_ids(std::vector<std::int32_t>(of_input.size()), of_input);
    if (!failed.empty()) {
      throw computation_error(fmt::format("{}: input {} is not finite in {} heads: {}", function, dimensions.size() - 1,
                                          failed.size(), fmt::join(failed, ", ")),
                              failed);
    }
  }
  return dimensions;
}

template class model_structure<float>;
template class model_structure<double>;

}  // namespace nullscope
