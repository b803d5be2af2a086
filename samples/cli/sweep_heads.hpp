/// Random attention heads for a sweep: tokens E (S x d) and weights of deviation 1 / sqrt(rows), all from streams that
/// depend on seed, length, sample and head alone, and q = E W_Q, k = E W_K, v = E W_V.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nullscope/gemm.hpp>
#include <nullscope/random.hpp>
#include <nullscope/view.hpp>
#include <span>

#include "sweep_settings.hpp"

namespace nullscope::cli {

/// Cuts memory into arrays; with no memory behind it, it only counts bytes.
class memory_cutter {
 public:
  explicit memory_cutter(std::byte* memory) : memory_(memory) {}

  template <class T, class... Extent>
  auto array(Extent... extents) {
    auto result = contiguous<T>(nullptr, extents...);
    result.data = reinterpret_cast<T*>(bytes(result.size() * static_cast<std::int64_t>(sizeof(T))).data());
    return result;
  }

  std::span<std::byte> bytes(std::int64_t count) {
    std::byte* const first = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (count + 63) / 64 * 64;
    return {first, static_cast<std::size_t>(count)};
  }

  std::int64_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::int64_t used_ = 0;
};

/// Heads [first, first + count) of those of a unit, counted as there.
struct head_range {
  std::int64_t first, count;
};

template <class T>
class sweep_heads {
 public:
  view<T, 3> q, k;  ///< (count, S, d_k); without data if no scores are wanted
  view<T, 3> v;     ///< (count, S, d_v)
  view<T, 3> h;     ///< (count, d_v, d)

  sweep_heads(const sweep_settings& settings, const sweep_unit& unit, std::int64_t count, bool with_scores,
              memory_cutter& memory)
      : settings_(settings), unit_(unit), with_scores_(with_scores) {
    const std::int64_t keys = settings.key_size, values = settings.value_size(unit.kind);
    v = memory.array<T>(count, unit.length, values);
    h = memory.array<T>(count, values, settings.width);
    if (with_scores) {
      q = memory.array<T>(count, unit.length, keys);
      k = memory.array<T>(count, unit.length, keys);
    }
    tokens_ = memory.array<T>(1, std::min(unit.length, token_rows), settings.width);
    const std::int64_t at_once = std::min(count, settings.heads);
    value_weights_ = memory.array<T>(at_once, settings.width, values);
    if (with_scores) {
      query_weights_ = memory.array<T>(at_once, settings.width, keys);
      key_weights_ = memory.array<T>(at_once, settings.width, keys);
    }
  }

  /// The queue is in order.
  void generate(sycl::queue& queue, const head_range& range) {
    for (std::int64_t i = range.first; i < range.first + range.count;) {
      const std::int64_t head = i % settings_.heads;
      const std::int64_t count = std::min(settings_.heads - head, range.first + range.count - i);
      generate_sample(queue, i / settings_.heads, head, count, i - range.first);
      i += count;
    }
  }

  /// The numbers from which alternative weights of these heads are drawn.
  random_stream alternatives_stream(const head_range& range) const {
    return stream(purpose::alternatives, range.first / settings_.heads, range.first % settings_.heads);
  }

 private:
  // Tokens are made and multiplied a block at a time, so that S x d numbers are never held.
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

  /// Heads [head, head + count) of the first matrices of `weights` (at_once, rows, columns).
  void fill(sycl::queue& queue, const view<T, 3>& weights, purpose what, std::int64_t sample, std::int64_t head,
            std::int64_t count) {
    const std::int64_t size = weights.extent[1] * weights.extent[2];
    const T deviation = T(1) / std::sqrt(static_cast<T>(weights.extent[1]));
    for (std::int64_t i = 0; i < count; ++i) {
      fill_normal<T>(queue, contiguous(weights.data + i * size, size), stream(what, sample, head + i), 0, deviation);
    }
  }

  void multiply(sycl::queue& queue, const view<T, 3>& tokens, const view<T, 3>& weights, const view<T, 3>& result,
                std::int64_t to, std::int64_t count, std::int64_t row) {
    gemm(queue, T(1), tokens, slice(weights, 0, 0, count), T(0),
         slice(slice(result, 0, to, count), 1, row, tokens.extent[1]));
  }

  /// Heads [head, head + count) of one sample, into matrices [to, to + count) of q, k, v and h.
  void generate_sample(sycl::queue& queue, std::int64_t sample, std::int64_t head, std::int64_t count,
                       std::int64_t to) {
    const bool is_added = unit_.kind == sweep_kind::added;
    fill(queue, value_weights_, is_added ? purpose::added_values : purpose::values, sample, head, count);
    fill(queue, slice(h, 0, to, count), is_added ? purpose::added_outputs : purpose::outputs, sample, head, count);
    if (with_scores_) {
      fill(queue, query_weights_, purpose::queries, sample, head, count);
      fill(queue, key_weights_, purpose::keys, sample, head, count);
    }
    for (std::int64_t row = 0; row < unit_.length; row += token_rows) {
      // (1, rows, d) by (count, d, d_k) -> (count, rows, d_k)
      const view<T, 3> tokens = slice(tokens_, 1, 0, std::min(token_rows, unit_.length - row));
      fill_normal<T>(queue, contiguous(tokens.data, tokens.size()), stream(purpose::tokens, sample, row / token_rows),
                     0, 1);
      multiply(queue, tokens, value_weights_, v, to, count, row);
      if (!with_scores_) continue;
      multiply(queue, tokens, query_weights_, q, to, count, row);
      multiply(queue, tokens, key_weights_, k, to, count, row);
    }
  }

  sweep_settings settings_;
  sweep_unit unit_;
  bool with_scores_;
  view<T, 3> tokens_;                                       // (1, rows of a block, d)
  view<T, 3> query_weights_, key_weights_, value_weights_;  // (heads at once, d, d_k or d_v)
};

}  // namespace nullscope::cli
