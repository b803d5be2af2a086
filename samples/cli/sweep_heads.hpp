/// Random attention heads for a sweep: tokens E (S x d) and weights of deviation 1 / sqrt(rows), all from streams that
/// depend on seed, length, sample and head alone, and q = E W_Q, k = E W_K, v = E W_V.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nullscope/gemm.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/random.hpp>
#include <nullscope/view.hpp>

#include "sweep_settings.hpp"

namespace nullscope::cli {

/// Heads [first, first + count) of those of a unit, counted as there.
struct head_range {
  std::int64_t first, count;
};

template <class T>
class sweep_heads {
 public:
  view<T, 3> q, k;  ///< (count, S, d_k); absent without scores
  view<T, 3> v;     ///< (count, S, d_v)
  view<T, 3> h;     ///< (count, d_v, d)

  /// Takes memory for the heads from the workspace of `op` and generates them as steps of it.
  sweep_heads(operation& op, const sweep_settings& settings, const sweep_unit& unit, const head_range& range,
              bool with_scores)
      : ctx_(op.ctx()), settings_(settings), unit_(unit), with_scores_(with_scores) {
    const std::int64_t keys = settings.key_size, values = settings.value_size(unit.kind);
    v = op.take_array<T>(range.count, unit.length, values);
    h = op.take_array<T>(range.count, values, settings.width);
    if (with_scores) {
      q = op.take_array<T>(range.count, unit.length, keys);
      k = op.take_array<T>(range.count, unit.length, keys);
    }
    for (std::int64_t i = range.first; i < range.first + range.count;) {
      const std::int64_t head = i % settings.heads;
      const std::int64_t count = std::min(settings.heads - head, range.first + range.count - i);
      generate(i / settings.heads, {head, count}, i - range.first);
      i += count;
    }
  }

  /// The numbers from which alternative weights of these heads are drawn.
  random_stream alternatives_stream(const head_range& range) const {
    return stream(purpose::alternatives, range.first / settings_.heads, range.first % settings_.heads);
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

  random_stream stream(purpose what, std::int64_t sample, std::int64_t index) const {
    return {settings_.seed, static_cast<std::uint64_t>(unit_.length) << 40 | static_cast<std::uint64_t>(sample) << 20 |
                                static_cast<std::uint64_t>(what) << 16 | static_cast<std::uint64_t>(index)};
  }

  /// The weights of some heads of a sample; weights (heads, rows, columns) is contiguous.
  void fill(const view<T, 3>& weights, purpose what, std::int64_t sample, std::int64_t first_head) {
    const double deviation = static_cast<double>(T(1) / std::sqrt(static_cast<T>(weights.extent[1])));
    for (std::int64_t i = 0; i < weights.extent[0]; ++i) {
      fill_normal(ctx_, merge(select(weights, 0, i), 0), stream(what, sample, first_head + i),
                  {.deviation = deviation});
    }
  }

  /// Some heads of one sample, as matrices [to, to + heads.count) of q, k, v and h.
  void generate(std::int64_t sample, const head_range& heads, std::int64_t to) {
    operation op(ctx_, "sweep: heads");  // its memory is free again when these heads are complete
    const bool is_added = unit_.kind == sweep_kind::added;
    const auto weights = [&](purpose what, std::int64_t columns) {
      const view<T, 3> result = op.take_array<T>(heads.count, settings_.width, columns);
      fill(result, what, sample, heads.first);
      return result;
    };
    fill(slice(h, 0, to, heads.count), is_added ? purpose::added_outputs : purpose::outputs, sample, heads.first);
    const view<T, 3> value_weights = weights(is_added ? purpose::added_values : purpose::values, v.extent[2]);
    view<T, 3> query_weights, key_weights;
    if (with_scores_) {
      query_weights = weights(purpose::queries, q.extent[2]);
      key_weights = weights(purpose::keys, k.extent[2]);
    }
    const view<T, 3> block = op.take_array<T>(1, std::min(unit_.length, token_rows), settings_.width);
    for (std::int64_t row = 0; row < unit_.length; row += token_rows) {
      const view<T, 3> tokens = slice(block, 1, 0, std::min(token_rows, unit_.length - row));
      fill_normal(ctx_, contiguous(tokens.data, tokens.size()), stream(purpose::tokens, sample, row / token_rows));
      // (1, rows, d) by (heads, d, d_k) -> (heads, rows, d_k)
      const auto multiply = [&](const view<T, 3>& by, const view<T, 3>& result) {
        gemm(ctx_, {tokens, by}, slice(slice(result, 0, to, heads.count), 1, row, tokens.extent[1]));
      };
      multiply(value_weights, v);
      if (!with_scores_) continue;
      multiply(query_weights, q);
      multiply(key_weights, k);
    }
    op.submit();
  }

  context& ctx_;
  const sweep_settings& settings_;
  const sweep_unit& unit_;
  bool with_scores_;
};

}  // namespace nullscope::cli
