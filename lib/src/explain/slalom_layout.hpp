/// What fit_slalom checks before it begins, and how a problem lies in memory.
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

/// Numbers from one row of a matrix (tokens, tokens) to the next.
std::int64_t leading_dimension(const slalom_queries& q);

/// Queries that hold most of the tokens (deletions) are kept as full rows, whose products are those of matrices.
bool is_dense(const slalom_queries& q);

/// Numbers of the entries, absent ones of dense problems included.
std::int64_t entry_count(const slalom_queries& q);

/// Queries that hold the same tokens, in whatever order, are one equation.
std::int64_t different_queries(const slalom_queries& q);

/// Numbers of temporary memory that a fit needs.
std::int64_t memory_of(const slalom_queries& q, bool with_errors);

/// Scales the weights so that they sum to `samples`: SGD then takes as many steps as if so many had been drawn.
void count_as(slalom_queries& queries, std::int64_t samples);

}  // namespace nullscope::detail
