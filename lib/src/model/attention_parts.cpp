#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nullscope/attention/attention.hpp>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/model/model_states.hpp>

#include "lib/src/core/batches.hpp"

namespace nullscope {
namespace {

constexpr const char* name = "read_attention_parts";

/// What the device computes, for all heads of all layers one after the other.
template <class T>
struct device_parts {
  tensor<T> raw, effective;     // (layers heads, S, S)
  tensor<T> p, u;               // (layers heads, S, c)
  tensor<T> s, log_sum_exp;     // (layers heads, c), (layers heads, S)
  tensor<std::int64_t> rank;    // (layers heads)
  tensor<std::int32_t> status;  // (layers heads)
  tensor<effective_attention_summary<T>> summary;

  device_parts(context& ctx, std::int64_t heads, std::int64_t tokens, std::int64_t columns, bool causal)
      : raw(ctx, {heads, tokens, tokens}),
        effective(ctx, {causal ? heads : 0, tokens, tokens}),
        p(ctx, {heads, tokens, columns}),
        u(ctx, {heads, tokens, columns}),
        s(ctx, {heads, columns}),
        log_sum_exp(ctx, {heads, tokens}),
        rank(ctx, {heads}),
        status(ctx, {heads}),
        summary(ctx, {heads}) {}

  effective_attention_results<T> results(std::int64_t first, std::int64_t count) {
    return {.p = slice(p.template as<3>(), 0, first, count),
            .u = slice(u.template as<3>(), 0, first, count),
            .s = slice(s.template as<2>(), 0, first, count),
            .rank = slice(rank.template as<1>(), 0, first, count),
            .status = slice(status.template as<1>(), 0, first, count),
            .log_sum_exp = slice(log_sum_exp.template as<2>(), 0, first, count),
            .summary = slice(summary.template as<1>(), 0, first, count)};
  }
};

/// Effective attention and the weights of the heads of one layer, which begin at `first`.
template <class T>
void compute_layer(context& ctx, const attention_heads<T>& heads, bool causal, std::int64_t first,
                   device_parts<T>& parts) {
  const std::int64_t count = heads.q.extent[0];
  const effective_attention_results<T> results = parts.results(first, count);
  if (causal) {
    effective_attention_by_rows(ctx, heads, results);
  } else {
    effective_attention(ctx, heads, results);
  }
  const attention_factors<T> factors{heads.q, heads.k, results.log_sum_exp, results.p, results.u, heads.bias};
  const auto write = [&](attention_matrix matrix, tensor<T>& out) {
    attention_part(ctx, factors, slice(out.template as<3>(), 0, first, count),
                   {.matrix = matrix, .causal = causal, .by_rows = causal});
  };
  write(attention_matrix::raw, parts.raw);
  if (causal) write(attention_matrix::effective, parts.effective);
}

/// The mean entropy of the rows of each matrix of raw (heads, S, S), in nats.
template <class T>
std::vector<double> mean_entropies(const std::vector<T>& raw, std::int64_t tokens) {
  std::vector<double> entropies;
  const std::size_t size = static_cast<std::size_t>(tokens * tokens);
  for (std::size_t first = 0; first < raw.size(); first += size) {
    double sum = 0;
    for (std::size_t i = first; i < first + size; ++i) {
      if (raw[i] > 0) sum -= static_cast<double>(raw[i] * std::log(raw[i]));
    }
    entropies.push_back(sum / static_cast<double>(tokens));
  }
  return entropies;
}

}  // namespace

template <class T>
attention_parts<T> read_attention_parts(context& ctx, const transformer<T>& model,
                                        const token_batch::sequence& sequence) {
  transformer_config config = model.config();
  config.pairs = false;
  const token_batch batch(ctx, config, std::span(&sequence, 1));
  const std::int64_t tokens = batch.tokens(), heads = config.layers * config.heads;
  const std::int64_t columns = std::min({tokens, config.value_size, config.width});
  forward_record<T> record(ctx, config, 1, tokens, keep::heads);
  device_parts<T> parts(ctx, heads, tokens, columns, config.causal);

  operation op(ctx, name);  // one, so that all kernels are compiled together
  forward(ctx, model, batch, {}, {.record = &record});
  view<T, 2> table;
  if (config.relative_buckets > 0) {
    table = op.take_array<T>(config.heads, 2 * tokens - 1);
    relative_bias(ctx, model.matrix("relative_bias"), table, {config.relative_distance});
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    compute_layer(ctx, layer_heads<T>(model, record, {layer, 0, tokens}, table), config.causal, layer * config.heads,
                  parts);
  }
  op.submit_and_wait();

  attention_parts<T> result;
  result.layers = config.layers;
  result.heads = config.heads;
  result.tokens = tokens;
  result.columns = columns;
  result.rank = parts.rank.to_host();
  const std::vector<std::int64_t> failed = failed_ids(parts.status.to_host(), result.rank);
  if (!failed.empty()) {
    throw computation_error(fmt::format("{}: {} of {} heads hold NaN or infinity, or did not converge: {}", name,
                                        failed.size(), heads, fmt::join(failed, ", ")),
                            failed);
  }
  result.raw = parts.raw.to_host();
  result.basis = parts.u.to_host();
  result.effective = parts.effective.to_host();
  result.singular_values = parts.s.to_host();
  result.entropy = mean_entropies(result.raw, tokens);
  result.summary = parts.summary.to_host();
  return result;
}

template attention_parts<float> read_attention_parts(context&, const transformer<float>&, const token_batch::sequence&);
template attention_parts<double> read_attention_parts(context&, const transformer<double>&,
                                                      const token_batch::sequence&);

}  // namespace nullscope
