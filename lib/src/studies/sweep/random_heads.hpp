/// Random attention heads: tokens E (S x d) and weights of deviation 1 / sqrt(rows), all from streams that depend on
/// seed, length, sample and head alone, and q = E W_Q, k = E W_K, v = E W_V.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/random.hpp>

#include "lib/src/studies/sweep/heads.hpp"

namespace nullscope {

template <class T>
class random_heads : public head_source<T> {
 public:
  explicit random_heads(const sweep_settings& settings) : settings_(settings) {}

  sweep_heads<T> make(operation& op, const sweep_unit& unit, const head_range& range, bool with_scores) override {
    sweep_heads<T> heads(op, settings_, unit, range, with_scores);
    heads.alternatives =
        stream(unit, purpose::alternatives, range.first / settings_.heads, range.first % settings_.heads);
    for_each_sample(settings_.heads, range, [&](std::int64_t sample, const head_range& of_sample, std::int64_t to) {
      generate(op.ctx(), unit, heads, sample, of_sample, to);
    });
    return heads;
  }

 private:
  // Tokens are generated and multiplied in blocks, so that S x d numbers are never held.
  static constexpr std::int64_t token_rows = 8192;

  enum class purpose : std::uint64_t {
    tokens,
    queries,
    keys,
    values,
    outputs,
    added_values,
    added_outputs,
    alternatives
  };

  random_stream stream(const sweep_unit& unit, purpose what, std::int64_t sample, std::int64_t index) const {
    return {settings_.seed, static_cast<std::uint64_t>(unit.length) << 40 | static_cast<std::uint64_t>(sample) << 20 |
                                static_cast<std::uint64_t>(what) << 16 | static_cast<std::uint64_t>(index)};
  }

  /// The weights of some heads of a sample; weights (heads, rows, columns) is contiguous.
  void fill(context& ctx, const sweep_unit& unit, const view<T, 3>& weights, purpose what, std::int64_t sample,
            std::int64_t first_head) const {
    const double deviation = static_cast<double>(T(1) / std::sqrt(static_cast<T>(weights.extent[1])));
    for (std::int64_t i = 0; i < weights.extent[0]; ++i) {
      fill_normal(ctx, merge(select(weights, 0, i), 0), stream(unit, what, sample, first_head + i),
                  {.deviation = deviation});
    }
  }

  /// Some heads of one sample, as matrices [to, to + heads.count) of q, k, v and h.
  void generate(context& ctx, const sweep_unit& unit, const sweep_heads<T>& all, std::int64_t sample,
                const head_range& heads, std::int64_t to) const {
    operation op(ctx, "sweep: heads");  // its memory is free again when these heads are complete
    const view<T, 3>&q = all.views.q, &k = all.views.k, &v = all.views.v, &h = all.views.h;
    const bool is_added = unit.kind == sweep_kind::added;
    const auto weights = [&](purpose what, std::int64_t columns) {
      const view<T, 3> result = op.take_array<T>(heads.count, settings_.width, columns);
      fill(ctx, unit, result, what, sample, heads.first);
      return result;
    };
    fill(ctx, unit, slice(h, 0, to, heads.count), is_added ? purpose::added_outputs : purpose::outputs, sample,
         heads.first);
    const view<T, 3> value_weights = weights(is_added ? purpose::added_values : purpose::values, v.extent[2]);
    const bool with_scores = !q.is_absent();
    view<T, 3> query_weights, key_weights;
    if (with_scores) {
      query_weights = weights(purpose::queries, q.extent[2]);
      key_weights = weights(purpose::keys, k.extent[2]);
    }
    const view<T, 3> block = op.take_array<T>(1, std::min(unit.length, token_rows), settings_.width);
    for (std::int64_t row = 0; row < unit.length; row += token_rows) {
      const view<T, 3> tokens = slice(block, 1, 0, std::min(token_rows, unit.length - row));
      fill_normal(ctx, contiguous(tokens.data, tokens.size()), stream(unit, purpose::tokens, sample, row / token_rows));
      // (1, rows, d) by (heads, d, d_k) -> (heads, rows, d_k)
      const auto multiply = [&](const view<T, 3>& by, const view<T, 3>& result) {
        gemm(ctx, {tokens, by}, slice(slice(result, 0, to, heads.count), 1, row, tokens.extent[1]));
      };
      multiply(value_weights, v);
      if (!with_scores) continue;
      multiply(query_weights, q);
      multiply(key_weights, k);
    }
    op.submit();
  }

  const sweep_settings& settings_;
};

}  // namespace nullscope
