/// The heads of a unit that are computed at once, all in one piece of device memory.
#pragma once

#include <algorithm>
#include <nullscope/effective_attention.hpp>
#include <nullscope/null_space.hpp>
#include <nullscope/simplex.hpp>
#include <optional>
#include <span>

#include "sweep_heads.hpp"

namespace nullscope::cli {

template <class T>
class sweep_chunk {
 public:
  // What `compute` finds, one number a head.
  view<std::int32_t, 1> status;
  view<std::int64_t, 1> rank, rank_with_ones;
  view<effective_attention_summary<T>, 1> summary;               ///< with scores
  view<std::int64_t, 1> raw_logit_rank, alternative_logit_rank;  ///< of kind logits

  /// Lays out memory for `count` heads; a last chunk may have `fewer`.
  sweep_chunk(const sycl::queue& queue, const sweep_settings& settings, const sweep_unit& unit, std::int64_t count,
              std::int64_t fewer, std::byte* memory)
      : unit_(unit),
        is_logits_(unit.kind == sweep_kind::logits),
        has_scores_(is_logits_ || settings.has_pearson(unit.kind, unit.length)) {
    memory_cutter cutter(memory);
    const std::int64_t s = unit.length, k = std::min(s, settings.value_size(unit.kind));
    heads_.emplace(settings, unit, count, has_scores_, cutter);
    basis_ = cutter.array<T>(count, s, k + 1);
    singular_values_ = cutter.array<T>(count, k);
    status = cutter.array<std::int32_t>(count);
    rank = cutter.array<std::int64_t>(count);
    rank_with_ones = cutter.array<std::int64_t>(count);
    if (has_scores_) {
      p_ = cutter.array<T>(count, s, k);
      log_sum_exp_ = cutter.array<T>(count, s);
      summary = cutter.array<effective_attention_summary<T>>(count);
    }
    if (is_logits_) {
      raw_ = cutter.array<T>(count, s, s);
      alternatives_ = cutter.array<T>(count, 1, s, s);
      lambda_ = cutter.array<T>(count, 1, s);
      raw_logit_rank = cutter.array<std::int64_t>(count);
      alternative_logit_rank = cutter.array<std::int64_t>(count);
    }
    scratchpad_ = cutter.bytes(std::max(scratchpad_size(queue, count), scratchpad_size(queue, fewer)));
    bytes_ = cutter.used();
  }

  std::int64_t bytes() const { return bytes_; }

  /// The queue is in order; results are there when it is empty.
  void compute(sycl::queue& queue, const head_range& range) {
    const auto part = [&](auto array) { return slice(array, 0, 0, range.count); };
    heads_->generate(queue, range);
    // (count, S, k) of u and a column of zeros, where the vector of ones will go
    queue.memset(basis_.data, 0, static_cast<std::size_t>(basis_.size()) * sizeof(T));
    const view<T, 3> basis = part(basis_), u = slice(basis, 2, 0, basis.extent[2] - 1);
    if (has_scores_) {
      effective_attention_results<T> results{part(p_),          u, part(singular_values_), part(rank), part(status),
                                             part(log_sum_exp_)};
      results.summary = part(summary);
      effective_attention<T>(queue, heads(range.count), results, scratchpad_);
    } else {
      range_basis<T>(queue, part(heads_->v), part(heads_->h), u, part(singular_values_), part(rank), part(status),
                     scratchpad_);
    }
    append_ones<T>(queue, basis, part(rank), part(rank_with_ones), scratchpad_);
    if (is_logits_) compute_logit_ranks(queue, range);
  }

 private:
  // Below 1, because the largest possible step would put a zero, which has no logit, into every row.
  static constexpr double share_of_largest_step = 0.5;

  attention_heads<T> heads(std::int64_t count) const {
    return {slice(heads_->q, 0, 0, count), slice(heads_->k, 0, 0, count), slice(heads_->v, 0, 0, count),
            slice(heads_->h, 0, 0, count)};
  }

  std::int64_t scratchpad_size(const sycl::queue& queue, std::int64_t count) const {
    const std::int64_t s = unit_.length, columns = basis_.extent[2];
    std::int64_t size = append_ones_scratchpad_size<T>(count, s);
    size = std::max(
        size, has_scores_ ? effective_attention_scratchpad_size<T>(queue, heads(count))
                          : range_basis_scratchpad_size<T>(queue, count, s, heads_->v.extent[2], heads_->h.extent[2]));
    if (!is_logits_) return size;
    return std::max({size, simplex_alternatives_scratchpad_size<T>(queue, count, 1, s, s, columns),
                     logit_rank_scratchpad_size<T>(queue, count, s, s)});
  }

  /// Weights A, other weights with the same output, and the ranks of the logits of both.
  void compute_logit_ranks(sycl::queue& queue, const head_range& range) {
    const auto part = [&](auto array) { return slice(array, 0, 0, range.count); };
    const attention_heads<T> heads = this->heads(range.count);
    const view<T, 3> basis = part(basis_), raw = part(raw_);
    attention_part<T>(queue, attention_matrix::raw,
                      {heads.q, heads.k, part(log_sum_exp_), part(p_), slice(basis, 2, 0, basis.extent[2] - 1)}, 0, 0,
                      raw);
    simplex_options options;
    options.share = share_of_largest_step;
    simplex_alternatives<T>(queue, raw, basis, part(rank_with_ones), part(alternatives_), part(lambda_),
                            heads_->alternatives_stream(range), scratchpad_, options);
    logit_rank<T>(queue, raw, part(raw_logit_rank), scratchpad_);
    logit_rank<T>(queue, contiguous<const T>(alternatives_.data, range.count, unit_.length, unit_.length),
                  part(alternative_logit_rank), scratchpad_);
  }

  sweep_unit unit_;
  bool is_logits_, has_scores_;
  std::optional<sweep_heads<T>> heads_;
  view<T, 3> basis_, p_;  // (count, S, k + 1), (count, S, k)
  view<T, 2> singular_values_, log_sum_exp_;
  view<T, 3> raw_, lambda_;  // (count, S, S), (count, 1, S)
  view<T, 4> alternatives_;  // (count, 1, S, S)
  std::span<std::byte> scratchpad_;
  std::int64_t bytes_ = 0;
};

}  // namespace nullscope::cli
