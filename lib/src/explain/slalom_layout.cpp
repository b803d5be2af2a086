#include "lib/src/explain/slalom_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <numeric>
#include <string>
#include <unordered_set>

#include "kernels/explain/slalom_errors.hpp"
#include "lib/src/core/ranges.hpp"

namespace nullscope::detail {
namespace {

[[noreturn]] void refuse(std::size_t problem, const std::string& why) {
  throw invalid_argument(fmt::format("fit_slalom: problem {} {}", problem, why));
}

/// Queries that hold most of the tokens are kept as full rows, whose products are those of matrices.
bool is_dense(const slalom_queries& q) {
  return static_cast<std::int64_t>(q.token.size()) * 3 > q.size() * q.tokens && q.tokens > 8;
}

/// The next `count` elements of an array that is `length` long so far.
array_part append(std::int64_t& length, std::int64_t count) {
  const array_part part{length, count};
  length += count;
  return part;
}

}  // namespace

void check_queries(std::size_t number, const slalom_queries& q) {
  const auto queries = static_cast<std::size_t>(q.size());
  if (q.tokens < 1 || q.classes < 1 || queries == 0) {
    refuse(number, fmt::format("has {} tokens, {} classes and {} queries", q.tokens, q.classes, queries));
  }
  if (q.begin.size() != queries + 1 || q.begin.front() != 0 ||
      q.begin.back() != static_cast<std::int64_t>(q.token.size()) || q.count.size() != q.token.size()) {
    refuse(number, fmt::format("has {} bounds for {} queries, and {} tokens with {} counts", q.begin.size(), queries,
                               q.token.size(), q.count.size()));
  }
  if (q.targets.size() != queries * static_cast<std::size_t>(q.classes)) {
    refuse(number, fmt::format("has {} targets for {} queries of {} classes", q.targets.size(), queries, q.classes));
  }
  for (std::size_t i = 0; i < queries; ++i) {
    const std::int64_t first = q.begin[i], last = q.begin[i + 1];
    if (first >= last) refuse(number, fmt::format("has no tokens in query {}", i));
    if (!(q.weight[i] > 0)) refuse(number, fmt::format("has weight {} for query {}", q.weight[i], i));
    for (auto e = static_cast<std::size_t>(first); e < static_cast<std::size_t>(last); ++e) {
      if (q.token[e] < 0 || q.token[e] >= q.tokens || !(q.count[e] > 0)) {
        refuse(number, fmt::format("has token {} {} times in query {}; there are {} tokens", q.token[e], q.count[e], i,
                                   q.tokens));
      }
      if (static_cast<std::int64_t>(e) > first && q.token[e] <= q.token[e - 1]) {
        refuse(number, fmt::format("has tokens in query {} that do not ascend", i));
      }
    }
  }
}

void check_targets(std::span<const slalom_queries> problems) {
  std::vector<std::int64_t> failed;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (!std::ranges::all_of(problems[i].targets, [](double y) { return std::isfinite(y); })) {
      failed.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (failed.empty()) return;
  throw computation_error(fmt::format("fit_slalom: scores of problems {} are not finite", fmt::join(failed, ", ")),
                          failed);
}

slalom_layout::slalom_layout(const slalom_queries& q, bool errors, slalom_lengths& lengths)
    : queries(q.size()), tokens(q.tokens), classes(q.classes), ld(padded_row(q.tokens)), dense(is_dense(q)) {
  const std::int64_t matrix = tokens * ld, block = kernels::slalom_block * ld;
  const std::int64_t entries = dense ? queries * ld : static_cast<std::int64_t>(q.token.size());
  count = append(lengths.numbers, entries);
  root_weight = append(lengths.numbers, queries);
  weight_up_to = append(lengths.numbers, queries);
  target = append(lengths.numbers, classes * queries);
  if (!dense) {
    row_begin = append(lengths.indices, queries + 1);
    column_begin = append(lengths.indices, tokens + 1);
    column_entry = append(lengths.indices, entries);
    token = append(lengths.tokens, entries);
    entry_query = append(lengths.tokens, entries);
  }
  for (array_part* part : {&factor, &reduced, &work}) *part = append(lengths.memory, matrix);
  vectors = append(lengths.memory, kernels::slalom_vectors * ld);
  if (errors) {
    for (array_part* part : {&value_inverse, &step_inverse}) *part = append(lengths.memory, matrix);
    for (array_part* part : {&follow, &follow_transposed}) *part = append(lengths.memory, classes * matrix);
    for (array_part* part : {&pulls, &moves, &values}) *part = append(lengths.memory, block);
    sums = append(lengths.memory, (1 + 2 * classes) * ld);
  }
  alpha = append(lengths.memory, entries);
  slope = append(lengths.memory, std::max(entries, (1 + classes) * ld));  // SGD keeps gradients here
  residual = append(lengths.memory, classes * queries);
  importance = append(lengths.results, tokens);
  value = append(lengths.results, classes * tokens);
  figures = append(lengths.results, kernels::slalom_figures);
  importance_error = append(lengths.results, tokens);
  value_error = append(lengths.results, classes * tokens);
  covariance = append(lengths.results, classes * tokens);
}

std::int64_t different_queries(const slalom_queries& q) {
  std::unordered_set<std::string> known;
  for (std::size_t i = 0; i + 1 < q.begin.size(); ++i) {
    const auto first = static_cast<std::size_t>(q.begin[i]), count = static_cast<std::size_t>(q.begin[i + 1]) - first;
    std::string key(reinterpret_cast<const char*>(q.token.data() + first), count * sizeof(q.token[0]));
    key.append(reinterpret_cast<const char*>(q.count.data() + first), count * sizeof(q.count[0]));
    known.insert(std::move(key));
  }
  return static_cast<std::int64_t>(known.size());
}

void count_as(slalom_queries& queries, std::int64_t samples) {
  const double total = std::accumulate(queries.weight.begin(), queries.weight.end(), 0.0);
  for (double& weight : queries.weight) weight *= static_cast<double>(samples) / total;
}

}  // namespace nullscope::detail
