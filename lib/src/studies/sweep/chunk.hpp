/// The heads of a unit that are computed at once, as one operation: all of their memory comes from the workspace.
#pragma once

#include <nullscope/attention/attention_statistics.hpp>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/null_space/null_space.hpp>
#include <nullscope/null_space/simplex.hpp>
#include <vector>

#include "lib/src/core/fill.hpp"
#include "lib/src/studies/sweep/heads.hpp"

namespace nullscope {

/// What is found, on the host: one element per head.
template <class T>
struct chunk_results {
  std::vector<std::int32_t> status;
  std::vector<std::int64_t> rank, rank_with_ones;
  std::vector<T> moments;             ///< (heads, rows, 3) of `attention_row_moments`; empty without a correlation
  std::vector<std::int64_t> queries;  ///< (heads, rows): which rows, if they are sampled
  std::vector<std::int64_t> raw_logit_rank, alternative_logit_rank;  ///< empty unless of kind logits
};

template <class T>
class sweep_chunk {
 public:
  sweep_chunk(const sweep_settings& settings, head_source<T>& source, const sweep_unit& unit, const head_range& range)
      : settings_(settings),
        source_(source),
        unit_(unit),
        range_(range),
        is_logits_(unit.kind == sweep_kind::logits),
        has_scores_(is_logits_ || unit.rows > 0) {}

  /// `results` is filled when the event is complete, and must live until then.
  sycl::event compute(context& ctx, chunk_results<T>& results) const {
    operation op(ctx, "sweep");
    const std::int64_t count = range_.count, s = unit_.length, k = std::min(s, settings_.value_size(unit_.kind));
    const sweep_heads<T> heads = source_.make(op, unit_, range_, has_scores_);
    // u, and a column of zeros, where the vector of ones will go
    const view<T, 3> basis = op.take_array<T>(count, s, k + 1), u = slice(basis, 2, 0, k);
    detail::fill_zero(op, basis);
    const view<T, 2> singular_values = op.take_array<T>(count, k);
    const view<std::int32_t, 1> status = op.take_array<std::int32_t>(count);
    const view<std::int64_t, 1> rank = op.take_array<std::int64_t>(count);
    const view<std::int64_t, 1> rank_with_ones = op.take_array<std::int64_t>(count);
    if (is_logits_) {
      const view<T, 3> p = op.take_array<T>(count, s, k);
      const view<T, 2> log_sum_exp = op.take_array<T>(count, s);
      effective_attention(
          ctx, heads.operands(),
          {.p = p, .u = u, .s = singular_values, .rank = rank, .status = status, .log_sum_exp = log_sum_exp},
          {.causal = heads.causal});
      append_ones(ctx, rank, {.basis = basis, .rank_with_ones = rank_with_ones});
      find_logit_ranks(op, heads, {heads.views.q, heads.views.k, log_sum_exp, p, u}, basis, rank_with_ones, results);
    } else {
      range_basis(ctx, {heads.views.v, heads.views.h}, {.u = u, .s = singular_values, .rank = rank, .status = status});
      if (has_scores_) find_moments(op, heads, u, results);
      append_ones(ctx, rank, {.basis = basis, .rank_with_ones = rank_with_ones});
    }
    to_host(op, status, results.status);
    to_host(op, rank, results.rank);
    to_host(op, rank_with_ones, results.rank_with_ones);
    return op.submit();
  }

 private:
  // Below 1, because the largest possible step would put a zero, which has no logit, into every row.
  static constexpr double share_of_largest_step = 0.5;

  template <class Number>
  static void to_host(operation& op, const view<Number, 1>& from, std::vector<Number>& to) {
    to.resize(static_cast<std::size_t>(from.size()));
    op.run([=, host = to.data()](sycl::queue& queue, const events& dependencies) {
      return queue.copy(from.data, host, static_cast<std::size_t>(from.size()), dependencies);
    });
  }

  /// What the correlation needs of the rows of the unit. Before 1 is appended to u, which may go into its last columns.
  void find_moments(operation& op, const sweep_heads<T>& heads, const view<T, 3>& u, chunk_results<T>& results) const {
    const std::int64_t count = range_.count, rows = unit_.rows;
    const attention_heads<T> operands = heads.operands();
    const view<T, 3> moments = op.take_array<T>(count, rows, 3);
    view<std::int64_t, 2> chosen;
    const bool is_sampled = settings_.rows_of(unit_.kind, unit_.length) < unit_.length;
    if (is_sampled) {
      chosen = op.take_array<std::int64_t>(count, rows);
      for (std::int64_t i = range_.first; i < range_.first + count; ++i) {
        const std::vector<std::int64_t> all =
            random_rows(stream_of_rows(settings_, unit_, i), unit_.length, settings_.query_sample);
        results.queries.insert(results.queries.end(), all.begin() + unit_.first_row,
                               all.begin() + unit_.first_row + rows);
      }
      op.run([=, host = results.queries.data()](sycl::queue& queue, const events& dependencies) {
        return queue.copy(host, chosen.data, static_cast<std::size_t>(chosen.size()), dependencies);
      });
    }
    attention_row_moments(op.ctx(), {operands.q, operands.k, u, operands.bias, chosen}, moments,
                          {.causal = heads.causal, .first_query = is_sampled ? 0 : unit_.first_row});
    to_host(op, contiguous(moments.data, moments.size()), results.moments);
  }

  /// Weights A, other weights with the same output, and the ranks of the logits of both.
  void find_logit_ranks(operation& op, const sweep_heads<T>& heads, const attention_factors<T>& factors,
                        const view<T, 3>& basis, const view<std::int64_t, 1>& rank_with_ones,
                        chunk_results<T>& results) const {
    const std::int64_t count = range_.count, s = unit_.length;
    const view<T, 3> raw = op.take_array<T>(count, s, s);
    const view<T, 4> alternatives = op.take_array<T>(count, 1, s, s);
    const view<T, 3> lambda = op.take_array<T>(count, 1, s);
    const view<std::int64_t, 1> raw_rank = op.take_array<std::int64_t>(count);
    const view<std::int64_t, 1> alternative_rank = op.take_array<std::int64_t>(count);
    attention_part(op.ctx(), factors, raw, {.matrix = attention_matrix::raw});
    simplex_alternatives(op.ctx(), {raw, basis, rank_with_ones}, {alternatives, lambda},
                         {.stream = heads.alternatives, .share = share_of_largest_step});
    logit_rank(op.ctx(), raw, raw_rank);
    logit_rank(op.ctx(), merge(alternatives, 0), alternative_rank);
    to_host(op, raw_rank, results.raw_logit_rank);
    to_host(op, alternative_rank, results.alternative_logit_rank);
  }

  const sweep_settings& settings_;
  head_source<T>& source_;
  const sweep_unit& unit_;
  head_range range_;
  bool is_logits_, has_scores_;
};

}  // namespace nullscope
