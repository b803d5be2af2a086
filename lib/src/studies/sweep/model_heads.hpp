/// The heads of a model that reads texts: number i of a sample is head i % h of layer i / h.
#pragma once

#include <map>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/model_states.hpp>
#include <nullscope/model/transformer.hpp>
#include <vector>

#include "lib/src/studies/sweep/heads.hpp"

namespace nullscope {

template <class T>
class model_heads : public head_source<T> {
 public:
  model_heads(context& ctx, const sweep_settings& settings, const transformer<T>& model, const sweep_texts& texts)
      : settings_(settings), model_(model), record_(ctx, model_.config(), 1, settings.lengths.back(), keep::heads) {
    transformer_config config = model_.config();
    config.pairs = false;  // a sample is one text
    for (const std::int64_t length : settings.lengths) {
      const std::int64_t samples = settings.samples_of(settings.kinds()[0], length);
      for (const token_batch::sequence& sequence : texts.choose(length, samples, settings.seed)) {
        batches_[length].emplace_back(ctx, config, std::span(&sequence, 1));
      }
    }
  }

  sweep_heads<T> make(operation& op, const sweep_unit& unit, const head_range& range, bool with_scores) override {
    sweep_heads<T> heads(op, settings_, unit, range, with_scores);
    const transformer_config& config = model_.config();
    heads.causal = config.causal;
    const bool has_bias = with_scores && config.relative_buckets > 0;
    if (has_bias) heads.views.bias_table = op.take_array<T>(range.count, 2 * unit.length - 1);
    for_each_sample(settings_.heads, range, [&](std::int64_t sample, const head_range& of_sample, std::int64_t to) {
      operation part(op.ctx(), "sweep: heads");  // its memory is free again when these heads are complete
      const token_batch& batch = batches_.at(unit.length).at(static_cast<std::size_t>(sample));
      forward(op.ctx(), model_, batch, {}, {.record = &record_});
      view<T, 2> table;
      if (has_bias) {
        table = part.take_array<T>(config.heads, 2 * unit.length - 1);
        relative_bias(op.ctx(), model_.matrix("relative_bias"), table, {config.relative_distance});
      }
      copy_heads(op.ctx(), unit.length, of_sample, table, slices(heads.views, to, of_sample.count));
      part.submit();
    });
    return heads;
  }

  std::int64_t bytes() const override {
    return record_.bytes() + model_.values().size() * static_cast<std::int64_t>(sizeof(T));
  }

 private:
  static head_views<T> slices(const head_views<T>& all, std::int64_t first, std::int64_t count) {
    const auto part = [&](const view<T, 3>& x) { return x.is_absent() ? x : slice(x, 0, first, count); };
    const view<T, 2>& table = all.bias_table;
    return {part(all.q), part(all.k), part(all.v), part(all.h),
            table.is_absent() ? table : slice(table, 0, first, count)};
  }

  /// Copies these heads of the sample that was read last, layer by layer; `table` (heads, 2 S - 1) is the bias of all
  /// layers.
  void copy_heads(context& ctx, std::int64_t length, const head_range& range, const view<const T, 2>& table,
                  const head_views<T>& to) {
    const auto copy_layer = [&](std::int64_t layer, const head_range& heads, std::int64_t place) {
      const auto copy_part = [&](const view<const T, 3>& x, const view<T, 3>& out) {
        if (!out.is_absent()) copy(ctx, slice(x, 0, heads.first, heads.count), out);
      };
      const attention_heads<T> from = layer_heads(model_, record_, {layer, 0, length}, table);
      const head_views<T> part = slices(to, place, heads.count);
      copy_part(from.q, part.q);
      copy_part(from.k, part.k);
      copy_part(from.v, part.v);
      copy_part(from.h, part.h);
      if (!part.bias_table.is_absent()) copy(ctx, slice(table, 0, heads.first, heads.count), part.bias_table);
    };
    for_each_sample(model_.config().heads, range, copy_layer);
  }

  const sweep_settings& settings_;
  const transformer<T>& model_;
  forward_record<T> record_;                                  // of one text, which the next one overwrites
  std::map<std::int64_t, std::vector<token_batch>> batches_;  // by length and sample
};

}  // namespace nullscope
