/// What fit_slalom checks before it begins, and where the numbers of each fit stand in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/explain/slalom.hpp>
#include <span>

namespace nullscope::detail {

/// Throws invalid_argument, naming the problem.
void check_queries(std::size_t number, const slalom_queries& q);

/// Throws computation_error with the problems whose targets are not finite.
void check_targets(std::span<const slalom_queries> problems);

/// Lengths of the arrays that the fits of a batch share.
struct slalom_lengths {
  std::int64_t numbers = 0, indices = 0, tokens = 0;  // operands
  std::int64_t memory = 0, results = 0;
};

/// `count` elements of an array, from `first` on.
struct array_part {
  std::int64_t first = 0, count = 0;
};

/// Where the parts of one fit stand in the arrays of its batch. Members have the names, extents and meaning of
/// kernels::slalom_problem and kernels::slalom_error_memory, which hold the addresses.
struct slalom_layout {
  /// Appends the parts of `q` to arrays of these lengths, which grow.
  slalom_layout(const slalom_queries& q, bool errors, slalom_lengths& lengths);

  /// The number of entry e of the queries, token t of query i, among the entries of the fit.
  std::int64_t place(std::int64_t i, std::int32_t t, std::int64_t e) const { return dense ? i * ld + t : e; }

  std::int64_t queries, tokens, classes, ld;
  bool dense;  // entries for absent tokens too: full rows

  // Of `numbers`, `indices` and `tokens`; the last two of sparse problems only.
  array_part count, root_weight, weight_up_to, target;
  array_part row_begin, column_begin, column_entry;
  array_part token, entry_query;

  // Of `memory`; from value_inverse to sums with errors only.
  array_part factor, reduced, work, vectors;
  array_part value_inverse, step_inverse, follow, follow_transposed, pulls, moves, values, sums;
  array_part alpha, slope, residual;

  // Of `results`.
  array_part importance, value, figures, importance_error, value_error, covariance;
};

/// Queries that hold the same tokens, in whatever order, are one equation.
std::int64_t different_queries(const slalom_queries& q);

/// Scales the weights so that they sum to `samples`: SGD then takes as many steps as if so many had been drawn.
void count_as(slalom_queries& queries, std::int64_t samples);

}  // namespace nullscope::detail
