#include "tests/attention/attention_fixture.hpp"

namespace nullscope::test {
namespace {

class attention_test : public attention_fixture {};
INSTANTIATE_TEST_SUITE_P(devices, attention_test, attention_layouts(), attention_layout_name);
INSTANTIATE_TEST_SUITE_P(one_worker, attention_test, attention_layouts({attention_kernels::one_worker}),
                         attention_layout_name);

TEST_P(attention_test, the_layout_chooses_the_kernel) {
  tensor<float> x(queue_, {1, 1, 4, 8}), out(queue_, {1, 1, 4, 8});
  context ctx(queue_, layout_for<float>(8, 8));
  const pipeline_needs needs = dry_run(ctx, [&](context& dry) { attention(dry, {x, x, x}, {.out = out}); });
  ASSERT_FALSE(needs.kernels.empty());
  const std::string_view found = needs.kernels.back()->type_name;
  const std::string_view expected =
      kernels_under_test() == attention_kernels::vectors_64   ? "attention_query_lanes<16, 8, 3, 128>"
      : kernels_under_test() == attention_kernels::vectors_32 ? "attention_query_lanes<8, 4, 3, 128>"
      : kernels_under_test() == attention_kernels::work_items ? "attention_tile_shape<1, 4, 2, 16, 4, 64>"
                                                              : "attention_tile_shape<1, 4, 2, 16, 1, 64>";
  EXPECT_NE(found.find(expected), std::string_view::npos) << found;
}

TEST_P(attention_test, agrees_with_f64_at_odd_sizes) {
  for (const std::int64_t s : {1, 2, 13, 16, 31, 33, 47, 48, 49, 100, 257}) check<float, float>({1, 2, s, s, 17, 5});
  for (const std::int64_t d : {1, 7, 8, 9, 15, 16, 25}) check<float, float>({1, 1, 20, 140, d, d});
  check<float, float>({2, 3, 40, 300, 64, 64});
  check<float, float>({1, 1, 300, 40, 3, 70});
  check<float, float>({1, 1, 30, 600, 1, 1});
  check<double, double>({2, 1, 37, 530, 20, 33});
}

TEST_P(attention_test, masks_by_causality_and_by_length) {
  check<float, float>({2, 2, 70, 70, 16, 24, true});
  check<float, float>({1, 2, 20, 50, 16, 24, true});
  check<float, float>({1, 1, 300, 300, 4, 9, true});
  check<float, float>({3, 1, 30, 290, 8, 8, false, {290, 1, 259}});
  check<float, float>({2, 1, 65, 65, 8, 8, true, {65, 40}});
  check<double, double>({2, 1, 65, 65, 8, 8, true, {65, 40}});
}

TEST_P(attention_test, takes_bfloat16_and_sums_in_float) {
  check<bfloat16, float>({1, 2, 67, 131, 64, 48});
  check<bfloat16, float>({2, 1, 33, 33, 9, 7, true});
}

TEST_P(attention_test, huge_logits_and_large_heads_are_no_problem) {
  check<float, float>({1, 1, 40, 40, 16, 8, false, {}, 1e4});
  check<float, float>({1, 1, 40, 400, 16, 8, false, {}, 1e4});
  check<float, float>({1, 1, 5, 40, 512, 512});
  check<float, float>({1, 1, 5, 40, 300, 2});
  check<double, double>({1, 1, 5, 40, 512, 512});
}

/// bfloat16 on a matrix engine; where there is none, on what the device has instead.
class attention_tiles_test : public attention_fixture {};
INSTANTIATE_TEST_SUITE_P(devices, attention_tiles_test, attention_layouts({attention_kernels::matrix_engine}),
                         attention_layout_name);

TEST_P(attention_tiles_test, agrees_with_f64_as_well_as_plain_bfloat16) {
  for (const std::int64_t s : {1, 2, 13, 31, 33, 100, 257, 600}) check<bfloat16, float>({1, 2, s, s, 17, 5});
  check<bfloat16, float>({2, 3, 40, 300, 64, 64});
  check<bfloat16, float>({1, 1, 300, 40, 3, 70});
  check<bfloat16, float>({1, 1, 5, 40, 512, 512});
  check<bfloat16, float>({2, 2, 70, 70, 16, 24, true});
  check<bfloat16, float>({1, 2, 20, 550, 16, 24, true});
  check<bfloat16, float>({1, 2, 50, 20, 16, 24, true});
  check<bfloat16, float>({4, 1, 30, 590, 8, 8, false, {590, 1, 259, 0}});
  check<bfloat16, float>({2, 1, 65, 65, 8, 8, true, {65, 40}});
  check<bfloat16, float>({1, 1, 40, 40, 16, 8, false, {}, 1e4});
}

}  // namespace
}  // namespace nullscope::test
