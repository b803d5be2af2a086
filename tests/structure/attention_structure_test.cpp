/// Extraction of W: cut, normalisation, empty rows, accumulation over inputs.
#include <nullscope/structure/structure_norm.hpp>

#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

constexpr double bound = 10;

class attention_structure_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, attention_structure_test, testing::ValuesIn(devices()), device_name);

struct expected_structure {
  std::vector<double> w;
  std::vector<std::int64_t> emptied;
};

expected_structure reference(const std::vector<double>& sum, std::int64_t heads, std::int64_t rows,
                             std::int64_t columns, const cut_options& options) {
  expected_structure result{sum, std::vector<std::int64_t>(static_cast<std::size_t>(heads))};
  for (std::int64_t i = 0; i < heads * rows; ++i) {
    double* row = result.w.data() + i * columns;
    double total = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      row[j] /= static_cast<double>(options.inputs);
      if (row[j] < options.threshold) row[j] = std::max(options.factor * row[j], 0.0);
      total += row[j];
    }
    const double empty = options.empty == empty_rows::uniform ? 1 / static_cast<double>(columns) : 0;
    for (std::int64_t j = 0; j < columns; ++j) row[j] = total == 0 ? empty : row[j] / total;
    result.emptied[static_cast<std::size_t>(i / rows)] += total == 0 ? 1 : 0;
  }
  return result;
}

/// Attention of `inputs` inputs, (inputs, heads, rows, columns), and its sum; some entries are negative.
template <class T>
struct some_attention {
  std::vector<T> a;
  std::vector<double> sum;

  some_attention(std::int64_t inputs, std::int64_t size, std::uint64_t seed)
      : a(random_numbers<T>(inputs * size, seed)), sum(static_cast<std::size_t>(size), 0.0) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = a[i] * T(0.6) + T(0.4);
      sum[i % sum.size()] += static_cast<double>(a[i]);
    }
  }
};

template <class T>
void check_extraction(context& ctx, std::int64_t inputs, std::int64_t heads, std::int64_t rows, std::int64_t columns,
                      const cut_options& cut) {
  const some_attention<T> x(inputs, heads * rows * columns, 3);
  structure_accumulator<T> sums(ctx, heads, rows, columns);
  sums.add(ctx, tensor<T>(ctx, {inputs, heads, rows, columns}, x.a)).wait_and_throw();
  cut_options options = cut;
  options.inputs = inputs;
  const expected_structure expected = reference(x.sum, heads, rows, columns, options);
  const attention_structure<T> found = sums.extract(ctx, cut);
  EXPECT_LT(scaled_residual(found.w.to_host(), expected.w, std::sqrt(static_cast<double>(columns * inputs))), bound);
  EXPECT_EQ(found.emptied, expected.emptied);
}

TEST_P(attention_structure_test, agrees_with_a_plain_loop_on_vectors_and_work_items) {
  for (const lane_layout& layout : compiled({ctx_.layout(), lane_layout::work_items(properties(GetParam()), 32)})) {
    SCOPED_TRACE(name_of(layout));
    context ctx(queue_, layout);
    check_extraction<float>(ctx, 3, 2, 17, 45, {.threshold = 0.4});
    check_extraction<float>(ctx, 1, 1, 1, 1, {.threshold = 0});
    check_extraction<float>(ctx, 4, 3, 9, 20, {.threshold = 0.55, .factor = 0.25});
    check_extraction<float>(ctx, 4, 3, 9, 5, {.threshold = 0.6, .empty = empty_rows::uniform});
  }
  if (has_fp64()) check_extraction<double>(ctx_, 5, 2, 13, 33, {.threshold = 0.5, .factor = 0.1});
}

TEST_P(attention_structure_test, does_not_depend_on_the_number_of_inputs) {
  const some_attention<float> x(1, 3 * 8 * 8, 7);
  const tensor<float> a(ctx_, {1, 3, 8, 8}, x.a);
  structure_accumulator<float> once(ctx_, 3, 8, 8), twice(ctx_, 3, 8, 8);
  once.add(ctx_, a);
  for (int i = 0; i < 2; ++i) twice.add(ctx_, a);  // twice a number is exact
  EXPECT_EQ(once.inputs(), 1);
  EXPECT_EQ(twice.inputs(), 2);
  EXPECT_EQ(once.extract(ctx_, {.threshold = 0.5}).w.to_host(), twice.extract(ctx_, {.threshold = 0.5}).w.to_host());
  EXPECT_EQ(once.mean(ctx_).to_host(), twice.mean(ctx_).to_host());
}

TEST_P(attention_structure_test, merges_what_was_summed_elsewhere) {
  const some_attention<float> x(3, 2 * 5 * 7, 8);
  const tensor<float> a(ctx_, {3, 2, 5, 7}, x.a);
  const view<const float, 4> all = a;
  structure_accumulator<float> whole(ctx_, 2, 5, 7), part(ctx_, 2, 5, 7), rest(ctx_, 2, 5, 7);
  whole.add(ctx_, all).wait_and_throw();
  part.add(ctx_, slice(all, 0, 0, 2));
  rest.add(ctx_, slice(all, 0, 2, 1));
  part.merge(ctx_, rest).wait_and_throw();
  EXPECT_EQ(part.inputs(), 3);
  EXPECT_EQ(part.sum().to_host(), whole.sum().to_host());
  EXPECT_THROW(part.merge(ctx_, structure_accumulator<float>(ctx_, 2, 7, 5)), invalid_argument);
}

TEST_P(attention_structure_test, counts_padding_as_zero) {
  structure_accumulator<float> sums(ctx_, 1, 3, 3);
  sums.add(ctx_, tensor<float>(ctx_, {1, 1, 2, 2}, std::vector<float>{1, 2, 3, 4})).wait_and_throw();
  EXPECT_EQ(sums.mean(ctx_).to_host(), (std::vector<float>{1, 2, 0, 3, 4, 0, 0, 0, 0}));
  EXPECT_THROW(sums.add(ctx_, tensor<float>(ctx_, {1, 1, 4, 3})), invalid_argument);
  EXPECT_THROW(sums.add(ctx_, tensor<float>(ctx_, {1, 2, 3, 3})), invalid_argument);
  EXPECT_EQ(sums.inputs(), 1);
}

TEST_P(attention_structure_test, finds_the_structure_of_a_reversal) {
  // 0.9 on the antidiagonal, the rest spread: the cut leaves the antidiagonal alone.
  constexpr std::int64_t S = 20;
  std::vector<float> a(S * S, 0.1f / (S - 1));
  for (std::int64_t i = 0; i < S; ++i) a[static_cast<std::size_t>(i * S + S - 1 - i)] = 0.9f;
  structure_accumulator<float> sums(ctx_, 1, S, S);
  for (int i = 0; i < 10; ++i) sums.add(ctx_, tensor<float>(ctx_, {1, 1, S, S}, a)).wait_and_throw();
  const std::vector<float> w = sums.extract(ctx_).w.to_host();
  for (std::int64_t i = 0; i < S * S; ++i) {
    EXPECT_EQ(w[static_cast<std::size_t>(i)], i % S == S - 1 - i / S ? 1.f : 0.f);
  }
  EXPECT_EQ(sums.extract(ctx_, {.threshold = 0.95}).emptied[0], S);
}

TEST_P(attention_structure_test, keeps_nan_in_its_row_and_refuses_bad_options) {
  structure_accumulator<float> sums(ctx_, 1, 2, 2);
  EXPECT_THROW(sums.extract(ctx_), invalid_argument);
  EXPECT_THROW(sums.mean(ctx_), invalid_argument);
  sums.add(ctx_, tensor<float>(ctx_, {1, 1, 2, 2}, std::vector<float>{NAN, 1, 1, 1})).wait_and_throw();
  const std::vector<float> w = sums.extract(ctx_).w.to_host();
  EXPECT_TRUE(std::isnan(w[0]) && std::isnan(w[1]));
  EXPECT_EQ(w[2], 0.5f);
  for (const cut_options& bad : {cut_options{.threshold = -0.1}, cut_options{.threshold = NAN},
                                 cut_options{.factor = 1}, cut_options{.factor = -0.5}}) {
    EXPECT_THROW(sums.extract(ctx_, bad), invalid_argument);
  }
}

}  // namespace
}  // namespace nullscope::test
