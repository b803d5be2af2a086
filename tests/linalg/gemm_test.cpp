/// The products themselves: sizes, layouts, factors, paths, NaN.
#include "tests/linalg/gemm_support.hpp"

namespace nullscope::test {
namespace {

INSTANTIATE_TEST_SUITE_P(devices, gemm_test, testing::ValuesIn(devices()), device_name);

TEST_P(gemm_test, multiplies_matrices_of_every_small_size) {
  std::mt19937 generator(7);
  const auto size = [&] { return static_cast<std::int64_t>(generator() % 40 + 1); };
  check_types({1, 1, 1, 1});
  check_types({1, 1, 40, 1});
  check_types({1, 40, 1, 3});
  for (int i = 0; i < 20; ++i) check_types({1 + i % 3, size(), size(), size()});
}

TEST_P(gemm_test, multiplies_matrices_larger_than_every_block) {
  check_types({1, 257, 129, 513});
  check_types({1, 450, 100, 40});
  check_types({1, 31, 700, 300});
}

TEST_P(gemm_test, takes_every_combination_of_layouts) {
  const layout all[] = {layout::rows, layout::columns, layout::rows_with_gap, layout::columns_with_gap,
                        layout::strided};
  for (const layout a : all) {
    for (const layout b : all) {
      for (const layout c : all) check_ways<float, float>({2, 41, 53, 37, a, b, c, 1.5, -0.5});
    }
  }
  for (const layout order : all) {
    check_types({2, 70, 67, 65, order, layout::rows, layout::rows});
    check_types({2, 70, 67, 65, layout::rows, order, layout::rows});
    check_types({2, 70, 67, 65, layout::rows, layout::rows, order, 1, 2});
  }
}

TEST_P(gemm_test, scales_by_alpha_and_beta) {
  for (const double alpha : {0.0, 1.0, -2.5}) {
    for (const double beta : {0.0, 1.0, 0.5}) {
      check_types({1, 20, 50, 30, layout::rows, layout::rows, layout::rows, alpha, beta});
      check_types({1, 20, 50, 300, layout::rows, layout::rows, layout::rows_with_gap, alpha, beta});
    }
  }
}

TEST_P(gemm_test, repeats_one_matrix_for_the_whole_batch) {
  for (const bool one_a : {true, false}) {
    problem p{5, 17, 33, 19};
    p.one_a = one_a;
    p.one_b = !one_a;
    check_types(p);
    p.a = p.b = layout::columns;
    check_types(p);
  }
  tensor<float> a(queue_, {1, 2, 2}, std::vector<float>{1, 2, 3, 4});
  tensor<float> b(queue_, {3, 2, 1}, std::vector<float>{1, 0, 0, 1, 1, 1}), c(queue_, {3, 2, 1});
  gemm(ctx_, {a, b}, c).wait();
  EXPECT_EQ(c.to_host(), (std::vector<float>{1, 3, 2, 4, 3, 7}));
}

TEST_P(gemm_test, agrees_on_every_public_path) {
  for (const problem& p : {problem{1, 64, 96, 128}, problem{3, 33, 18, 65, layout::columns, layout::columns_with_gap},
                           problem{2, 40, 21, 7, layout::rows, layout::columns, layout::columns, 2, 1}}) {
    check<float, float>(way::own, p);
    check<bfloat16, float>(way::own, p);
    if (has_fp64()) check<double, double>(way::own, p);
    if (!has_vendor()) continue;
    check<float, float>(way::vendor, p);
    check<bfloat16, float>(way::vendor, p);
    if (has_fp64()) check<double, double>(way::vendor, p);
  }
}

TEST_P(gemm_test, lets_nan_and_infinity_spread_as_in_the_formula) {
  const std::int64_t m = 21, n = 40, k = 300;
  for (const way by : {way::automatic, way::vectors_512, way::vectors_256, way::work_items}) {
    std::vector<float> a(static_cast<std::size_t>(m * k), 1), b(static_cast<std::size_t>(k * n), 1);
    a[3 * k + 299] = static_cast<float>(not_a_number);  // row 3 is NaN
    a[7 * k + 5] = static_cast<float>(infinity);        // row 7 is infinite
    b[5 * n + 2] = 0;                                   // but infinity times 0 is NaN
    b[9 * n + 39] = static_cast<float>(-infinity);      // column 39: with row 7 infinity - infinity
    tensor<float> da(queue_, {1, m, k}, a), db(queue_, {1, k, n}, b), dc(queue_, {1, m, n});
    multiply_by<float, float>(by, {da, db}, dc).wait();
    const std::vector<float> c = dc.to_host();
    for (std::int64_t r = 0; r < m; ++r) {
      for (std::int64_t s = 0; s < n; ++s) {
        const float x = c[static_cast<std::size_t>(r * n + s)];
        SCOPED_TRACE(testing::Message() << "row " << r << ", column " << s << ", way " << static_cast<int>(by));
        if (r == 3 || (r == 7 && (s == 2 || s == 39))) {
          EXPECT_TRUE(std::isnan(x));
        } else if (r == 7) {
          EXPECT_EQ(x, static_cast<float>(infinity));
        } else {
          EXPECT_EQ(x, s == 39 ? static_cast<float>(-infinity) : static_cast<float>(s == 2 ? k - 1 : k));
        }
      }
    }
  }
}

}  // namespace
}  // namespace nullscope::test
