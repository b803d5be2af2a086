/// The parts of a batch of fits fill their arrays: one begins where the one before it ends.
#include "lib/src/explain/slalom_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/explain/planted.hpp"

namespace nullscope::test {
namespace {

using detail::array_part, detail::slalom_layout, detail::slalom_lengths;

void expect_filled(std::vector<array_part> parts, std::int64_t length, const char* array) {
  std::ranges::sort(parts, {}, &array_part::first);
  std::int64_t end = 0;
  for (const array_part& part : parts) {
    if (part.count == 0) continue;
    EXPECT_EQ(part.first, end) << array;
    end = part.first + part.count;
  }
  EXPECT_EQ(end, length) << array;
}

class slalom_layout_test : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(with_and_without_errors, slalom_layout_test, testing::Bool());

TEST_P(slalom_layout_test, parts_fill_the_arrays) {
  slalom_lengths lengths;
  std::vector<array_part> numbers, indices, tokens, memory, results;
  for (const std::int64_t count : {1, 13, 37}) {
    for (const slalom_queries& q : {random_queries(count, 2, 20, 2, 1), random_deletions(count, 3, 20, 1, 2)}) {
      const slalom_layout at(q, GetParam(), lengths);
      EXPECT_GE(at.slope.count, (1 + q.classes) * at.ld);  // gradients of SGD
      const bool has_columns = at.row_begin.count > 0;
      EXPECT_EQ(at.dense, !has_columns);
      EXPECT_EQ(at.factor.count, q.tokens * at.ld);
      EXPECT_EQ(at.value_inverse.count, GetParam() ? q.tokens * at.ld : 0);
      numbers.insert(numbers.end(), {at.count, at.root_weight, at.weight_up_to, at.target});
      indices.insert(indices.end(), {at.row_begin, at.column_begin, at.column_entry});
      tokens.insert(tokens.end(), {at.token, at.entry_query});
      memory.insert(memory.end(),
                    {at.factor, at.reduced, at.work, at.vectors, at.value_inverse, at.step_inverse, at.follow,
                     at.follow_transposed, at.pulls, at.moves, at.values, at.sums, at.alpha, at.slope, at.residual});
      results.insert(results.end(),
                     {at.importance, at.value, at.figures, at.importance_error, at.value_error, at.covariance});
    }
  }
  expect_filled(numbers, lengths.numbers, "numbers");
  expect_filled(indices, lengths.indices, "indices");
  expect_filled(tokens, lengths.tokens, "tokens");
  expect_filled(memory, lengths.memory, "memory");
  expect_filled(results, lengths.results, "results");
}

}  // namespace
}  // namespace nullscope::test
