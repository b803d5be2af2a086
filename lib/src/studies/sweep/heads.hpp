/// The attention heads that a sweep is about, and where they come from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nullscope/attention/attention.hpp>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/studies/sweep.hpp>

namespace nullscope {

/// Heads [first, first + count) of those of a unit, counted as there.
struct head_range {
  std::int64_t first, count;
};

/// Calls use(sample, heads of it, place of the first one in the range) for each sample that the range touches.
template <class Use>
void for_each_sample(std::int64_t heads_per_sample, const head_range& range, Use use) {
  for (std::int64_t i = range.first; i < range.first + range.count;) {
    const std::int64_t head = i % heads_per_sample;
    const std::int64_t count = std::min(heads_per_sample - head, range.first + range.count - i);
    use(i / heads_per_sample, head_range{head, count}, i - range.first);
    i += count;
  }
}

/// From which the rows of a head are drawn that its correlation is estimated from: of all streams of a sweep the only
/// one with the number 8 in these bits, see random_heads.hpp. `i` as in the unit.
inline random_stream stream_of_rows(const sweep_settings& settings, const sweep_unit& unit, std::int64_t i) {
  return {settings.seed, static_cast<std::uint64_t>(unit.length) << 40 |
                             static_cast<std::uint64_t>(i / settings.heads) << 20 | std::uint64_t{8} << 16 |
                             static_cast<std::uint64_t>(i % settings.heads)};
}

template <class T>
struct head_views {
  view<T, 3> q, k;             ///< (count, S, d_k); absent without scores
  view<T, 3> v;                ///< (count, S, d_v)
  view<T, 3> h;                ///< (count, d_v, d)
  view<T, 2> bias_table = {};  ///< (count, 2 S - 1): of the scores, by relative positions; absent without
};

template <class T>
struct sweep_heads {
  head_views<T> views;
  bool causal = false;

  /// As `effective_attention` takes them.
  attention_heads<T> operands() const {
    attention_heads<T> result{views.q, views.k, views.v, views.h};
    if (!views.bias_table.is_absent()) {
      result.bias = select(relative_bias_view(view<const T, 2>(views.bias_table), 1), 0, 0);
    }
    return result;
  }

  random_stream alternatives = {};  ///< from which alternative weights of these heads are drawn

  /// Memory for the heads, from the workspace of `op`.
  sweep_heads(operation& op, const sweep_settings& settings, const sweep_unit& unit, const head_range& range,
              bool with_scores) {
    const std::int64_t keys = settings.key_size, values = settings.value_size(unit.kind);
    views.v = op.take_array<T>(range.count, unit.length, values);
    views.h = op.take_array<T>(range.count, values, settings.width);
    if (!with_scores) return;
    views.q = op.take_array<T>(range.count, unit.length, keys);
    views.k = op.take_array<T>(range.count, unit.length, keys);
  }
};

template <class T>
class head_source {
 public:
  virtual ~head_source() = default;

  /// Takes memory for the heads from the workspace of `op`, and fills it by steps of it.
  virtual sweep_heads<T> make(operation& op, const sweep_unit& unit, const head_range& range, bool with_scores) = 0;

  /// Device memory that it holds beside the workspace.
  virtual std::int64_t bytes() const { return 0; }
};

}  // namespace nullscope
