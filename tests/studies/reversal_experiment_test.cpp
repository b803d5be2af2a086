/// The experiment on reversed sequences: what a trained model must show.
#include "lib/src/studies/reversal_experiment.hpp"

#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

TEST(reversal_experiment, learns_the_antidiagonal) {
  context ctx(select_device());
  const reversal_result found = run_reversal(ctx);
  EXPECT_GT(found.accuracy, 0.99);
  ASSERT_EQ(found.attention.size(), 400u);
  ASSERT_EQ(found.structures.size(), 11u);
  for (const reversal_structure& one : found.structures) {
    if (one.threshold > 0.35 && one.threshold < 0.45) {
      EXPECT_GT(one.on_antidiagonal, 0.99);
      EXPECT_LE(one.emptied, 2);
    }
  }
  ASSERT_EQ(found.distances.size(), 6u);
  const auto& reversed = found.distances[0];
  const auto& off = found.distances[2];
  const auto& on = found.distances[3];
  const auto& simplex = found.distances[4];
  EXPECT_NEAR(off.plain, on.plain, 1e-6);       // the plain norm does not see the difference
  EXPECT_LT(10 * off.structure, on.structure);  // the structure-aware norm does
  EXPECT_LT(10 * off.structure, reversed.structure);
  EXPECT_GT(reversed.output_change, 0.1);
  EXPECT_LT(simplex.output_change, 1e-4);  // other weights, the same output
}

TEST(reversal_experiment, refuses_bad_options) {
  context ctx(select_device());
  EXPECT_THROW(run_reversal(ctx, {.tokens = 1}), invalid_argument);
  EXPECT_THROW(run_reversal(ctx, {.value_size = 19}), invalid_argument);
  EXPECT_THROW(run_reversal(ctx, {.most_steps = 0}), invalid_argument);
}

}  // namespace
}  // namespace nullscope::test
