/// What is computed from a range: the vector of ones in it, projections, random rows and an explicit basis of the null
/// space.
#include <fmt/format.h>

#include "tests/core/layouts.hpp"
#include "tests/null_space/null_space_support.hpp"

namespace nullscope::test {
namespace {

TEST_P(null_space_test, tells_whether_the_ones_are_in_the_range) {
  const std::int64_t tokens = 50, width = 6;
  std::vector<float> outside_t = random_numbers<float>(tokens * width, 31), inside_t = outside_t, zero(300, 0.0f),
                     full = zero;
  for (std::int64_t i = 0; i < tokens; ++i) {  // the last column is 1 minus the others: 1 is in the range
    float rest = 1;
    for (std::int64_t j = 0; j + 1 < width; ++j) rest -= inside_t[static_cast<std::size_t>(i * width + j)];
    inside_t[static_cast<std::size_t>(i * width + width - 1)] = rest;
  }
  std::vector<float> all = outside_t;
  all.insert(all.end(), inside_t.begin(), inside_t.end());
  all.insert(all.end(), zero.begin(), zero.end());
  const range_tensors<float> result =
      range_basis(ctx_, tensor<float>(ctx_, {3, tokens, width}, all), {.with_ones = true});
  EXPECT_EQ(result.rank, (std::vector<std::int64_t>{6, 6, 0}));
  EXPECT_EQ(result.rank_with_ones, (std::vector<std::int64_t>{7, 6, 1}));
  EXPECT_EQ(result.null_dimension_with_ones, (std::vector<std::int64_t>{43, 44, 49}));
  const std::vector<float> basis = result.basis.to_host();
  const matrix ones(static_cast<std::size_t>(tokens), 1.0);
  for (std::int64_t b = 0; b < 3; ++b) {
    const float* u = basis.data() + b * tokens * (width + 1);
    EXPECT_LT(orthogonality(u, tokens, width + 1, result.rank_with_ones[static_cast<std::size_t>(b)]), bound) << b;
    EXPECT_LT(outside(ones, u, tokens, width + 1, 1), bound) << b;
  }
  // S = 3 tokens, rank 3: there is nothing outside
  const range_tensors<float> whole =
      range_basis(ctx_, tensor<float>(ctx_, {3, 4}, random_numbers<float>(12, 5)), {.with_ones = true});
  EXPECT_EQ(whole.rank_with_ones[0], 3);
}

TEST_P(null_space_test, the_tolerance_of_the_values_is_not_that_of_the_ones) {
  // S = 3 tokens, rank 3: what rounding leaves of 1 is no fourth column
  const tensor<float> whole(ctx_, {3, 4}, random_numbers<float>(12, 5));
  for (const rank_tolerance tolerance : {rank_tolerance{.relative = 0}, {.relative = 0, .absolute = 1e-3}}) {
    const range_tensors<float> result = range_basis(ctx_, whole, {.tolerance = tolerance, .with_ones = true});
    EXPECT_EQ(result.rank_with_ones[0], 3) << tolerance.absolute;
    EXPECT_EQ(result.null_dimension_with_ones[0], 0) << tolerance.absolute;
  }
  // Six unit vectors of fifty: all values are one, and 0.94 of the length of 1 is outside.
  std::vector<float> units(50 * 6, 0.0f);
  for (std::size_t i = 0; i < 6; ++i) units[i * 6 + i] = 1;
  const range_tensors<float> loose =
      range_basis(ctx_, tensor<float>(ctx_, {50, 6}, units), {.tolerance = {.relative = 0.99}, .with_ones = true});
  EXPECT_EQ(loose.rank[0], 6);
  EXPECT_EQ(loose.rank_with_ones[0], 7);
}

/// append_ones on a basis (1, S, columns) of which `rank` columns count: the rank with 1, and the basis.
template <class T>
std::pair<std::int64_t, std::vector<T>> with_ones(context& ctx, std::int64_t tokens, const std::vector<T>& basis,
                                                  std::int64_t rank, const rank_tolerance& tolerance = {}) {
  tensor<T> u(ctx, {1, tokens, static_cast<std::int64_t>(basis.size()) / tokens}, basis);
  const tensor<std::int64_t> before(ctx, {1}, std::vector<std::int64_t>{rank});
  tensor<std::int64_t> after(ctx, {1}, std::vector<std::int64_t>{77});
  append_ones(ctx, before, with_ones_results<T>{u, after}, tolerance).wait();
  return {after.to_host()[0], u.to_host()};
}

template <class T>
void check_ones_inside(context& ctx) {
  for (const auto& [tokens, width] : {std::pair<std::int64_t, std::int64_t>{3, 3}, {40, 2}, {300, 40}, {2000, 64}}) {
    std::vector<T> t = random_numbers<T>(tokens * width, 33);
    for (std::int64_t i = 0; i < tokens; ++i) t[static_cast<std::size_t>(i * width)] = 1;
    const range_tensors<T> range = range_basis(ctx, tensor<T>(ctx, {tokens, width}, t));
    ASSERT_EQ(range.rank[0], width);
    EXPECT_EQ(with_ones<T>(ctx, tokens, range.basis.to_host(), width, {.relative = 0}).first, width)
        << tokens << " x " << width;
  }
}

TEST_P(null_space_test, a_tolerance_of_zero_takes_rounding_for_rounding) {
  check_ones_inside<float>(ctx_);
  if (has_fp64()) check_ones_inside<double>(ctx_);
}

TEST_P(null_space_test, ones_are_appended_where_there_is_room_and_never_beyond_the_space) {
  const std::vector<float> no_room{1, 0, 0}, units{1, 0, 0, 0, 1, 0};  // (3, 1), (2, 3)
  EXPECT_EQ(with_ones<float>(ctx_, 3, no_room, 1).first, -1);
  EXPECT_EQ(with_ones<float>(ctx_, 2, units, 2, {.relative = 0}).first, 2);
  EXPECT_EQ(with_ones<float>(ctx_, 2, units, 2, {.relative = 0}).second, units);
  EXPECT_EQ(with_ones<float>(ctx_, 2, units, 3).first, -1);  // two tokens have no three orthonormal columns
}

TEST_P(null_space_test, an_absolute_tolerance_of_the_ones_is_a_length) {
  const std::vector<float> first_axis{1, 0, 0, 0,
                                      0, 0, 0, 0};  // (4, 2): sqrt(3) of the length 2 of the ones is outside
  EXPECT_EQ(with_ones<float>(ctx_, 4, first_axis, 1, {.absolute = 1.73}).first, 2);
  EXPECT_EQ(with_ones<float>(ctx_, 4, first_axis, 1, {.absolute = 1.74}).first, 1);
}

TEST_P(null_space_test, ones_are_appended_to_more_columns_than_local_memory_holds) {
  const std::int64_t columns = properties(GetParam()).usable_local_bytes() / 4 + 1;
  std::vector<float> basis(static_cast<std::size_t>(4 * columns), 0.0f);
  basis[0] = basis[static_cast<std::size_t>(columns + 1)] = 1;  // the first two of four axes
  const auto [rank, got] = with_ones<float>(ctx_, 4, basis, 2);
  EXPECT_EQ(rank, 3);
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(got[static_cast<std::size_t>(i * columns + 2)], i < 2 ? 0 : std::sqrt(0.5), 1e-6) << i;
  }
}

TEST_P(null_space_test, projects_rows_on_the_range_and_on_the_null_space) {
  const std::int64_t batch = 3, tokens = 70, rows = 11, width = 9;
  const factored<float> f = make_heads<float>({batch, tokens, width, 1}, {9, 4, 0}, 41);
  const range_tensors<float> range = range_basis(ctx_, tensor<float>(ctx_, {batch, tokens, width}, f.v));
  const std::vector<float> u = range.basis.to_host(), numbers = random_numbers<float>(batch * rows * tokens, 43);
  tensor<float> x(ctx_, {batch, rows, tokens}, numbers), onto(ctx_, {batch, rows, tokens}),
      off(ctx_, {batch, rows, tokens});
  project(ctx_, {x, range.basis}, onto, row_part::range).wait();
  project(ctx_, {x, range.basis}, off, row_part::null_space).wait();
  const std::vector<float> inside = onto.to_host(), null = off.to_host();
  std::vector<double> expected;
  for (std::int64_t b = 0; b < batch; ++b) {
    const float* ub = u.data() + b * tokens * (width + 1);
    const matrix coefficients = product(numbers.data() + b * rows * tokens, ub, rows, tokens, width + 1);
    const matrix part = product(coefficients.data(), transpose(ub, tokens, width + 1).data(), rows, width + 1, tokens);
    expected.insert(expected.end(), part.begin(), part.end());
    // to rounding nothing of the null part is left in the range: null T = 0
    const matrix zero = product(null.data() + b * rows * tokens, f.v.data() + b * tokens * width, rows, tokens, width);
    EXPECT_LT(norm(zero), bound * std::sqrt(tokens * width) * tokens * eps<float>) << b;
  }
  EXPECT_LT(scaled_residual(inside, expected, tokens), bound);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<double>(numbers[i]) - expected[i];
  EXPECT_LT(scaled_residual(null, expected, tokens), bound);
  project(ctx_, {x, range.basis}, x, row_part::null_space).wait();  // in place
  EXPECT_EQ(x.to_host(), null);
  project(ctx_, {x, range.basis}, off, row_part::null_space).wait();  // again: idempotent
  EXPECT_LT(scaled_residual(off.to_host(), std::vector<double>(null.begin(), null.end()), tokens), bound);
}

TEST_P(null_space_test, draws_reproducible_rows_of_the_null_space) {
  const std::int64_t batch = 2, tokens = 40, rows = 200, width = 38;  // a null space of 2 and of 37 dimensions
  const factored<float> f = make_heads<float>({batch, tokens, width, 1}, {38, 3}, 51);
  const range_tensors<float> range = range_basis(ctx_, tensor<float>(ctx_, {batch, tokens, width}, f.v));
  tensor<float> drawn(ctx_, {batch, rows, tokens}), again(ctx_, {batch, rows, tokens}),
      other(ctx_, {batch, rows, tokens});
  random_null_space_rows(ctx_, range.basis, drawn, {7, 1}).wait();
  random_null_space_rows(ctx_, range.basis, again, {7, 1}).wait();
  random_null_space_rows(ctx_, range.basis, other, {7, 2}).wait();
  const std::vector<float> numbers = drawn.to_host();
  EXPECT_EQ(numbers, again.to_host());
  EXPECT_NE(numbers, other.to_host());
  for (std::int64_t b = 0; b < batch; ++b) {
    const float* row = numbers.data() + b * rows * tokens;
    const matrix zero = product(row, f.v.data() + b * tokens * width, rows, tokens, width);
    const double length = norm(matrix(row, row + rows * tokens));
    EXPECT_LT(norm(zero) / (length * std::sqrt(width)), bound * tokens * eps<float>) << b;
    // the mean squared length is the dimension of the null space
    const double dimension = static_cast<double>(range.null_dimension[static_cast<std::size_t>(b)]);
    EXPECT_NEAR(length * length / rows, dimension, 5 * std::sqrt(2 * dimension / rows)) << b;
  }
}

template <class T>
void check_null_space_basis(context& ctx, std::int64_t tokens, std::int64_t width,
                            const std::vector<std::int64_t>& ranks) {
  const std::int64_t batch = static_cast<std::int64_t>(ranks.size());
  const factored<T> f = make_heads<T>({batch, tokens, width, 1}, ranks, 61);
  const range_tensors<T> range = range_basis(ctx, tensor<T>(ctx, {batch, tokens, width}, f.v));
  const std::int64_t k = std::min(tokens, width);
  const view<const T, 3> u = slice(range.basis.template as<3>(), 2, 0, k);
  tensor<T> n(ctx, {batch, tokens, tokens}, std::vector<T>(static_cast<std::size_t>(batch * tokens * tokens), T(7)));
  const tensor<std::int64_t> rank(ctx, {batch}, range.rank);
  null_space_basis(ctx, null_space_operands<T>{u, rank}, n).wait();
  const std::vector<T> basis = n.to_host(), range_host = range.basis.to_host();
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::string what =
        fmt::format("{} x {} rank {}, {}", tokens, width, ranks[static_cast<std::size_t>(b)], to_string(ctx.layout()));
    const T* nb = basis.data() + b * tokens * tokens;
    EXPECT_LT(orthogonality(nb, tokens, tokens, range.null_dimension[static_cast<std::size_t>(b)]), bound) << what;
    const matrix zero =
        product(transpose(range_host.data() + b * tokens * (k + 1), tokens, k + 1).data(), nb, k + 1, tokens, tokens);
    EXPECT_LT(norm(zero), bound * tokens * eps<T>) << what;
  }
}

TEST_P(null_space_test, gives_an_explicit_basis_of_the_null_space) {
  lane_layout narrow = lane_layout::vectors(ctx_.device(), 32);
  narrow.long_vector_bytes = 32;
  for (const lane_layout& layout :
       compiled({lane_layout::vectors(ctx_.device(), 64), narrow, lane_layout::work_items(ctx_.device())})) {
    context ctx(queue_, layout);
    check_null_space_basis<float>(ctx, 50, 7, {7, 3, 0, 1});
    check_null_space_basis<float>(ctx, 66, 33, {33, 20});
    check_null_space_basis<float>(ctx, 20, 20, {20, 11});
    check_null_space_basis<float>(ctx, 9, 30, {9, 2});
    check_null_space_basis<float>(ctx, 1, 1, {1, 0});
    if (has_fp64()) check_null_space_basis<double>(ctx, 37, 5, {5, 2});
  }
  check_null_space_basis<float>(ctx_, 300, 64, {64, 50});
}

TEST_P(null_space_test, a_rank_that_is_not_known_has_no_null_space_basis) {
  const std::int64_t tokens = 12, width = 5, size = tokens * tokens;
  const factored<float> f = make_heads<float>({2, tokens, width, 1}, {5, 3}, 67);
  const range_tensors<float> range = range_basis(ctx_, tensor<float>(ctx_, {2, tokens, width}, f.v));
  const view<const float, 3> u = slice(range.basis.as<3>(), 2, 0, width);
  const auto basis_with = [&](const std::vector<std::int64_t>& ranks) {
    tensor<float> n(ctx_, {2, tokens, tokens});
    const tensor<std::int64_t> rank(ctx_, {2}, ranks);
    null_space_basis(ctx_, {u, rank}, n).wait();
    return n.to_host();
  };
  const std::vector<float> known = basis_with({5, 3}), unknown = basis_with({-1, 3});
  for (std::int64_t i = 0; i < 2 * size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_TRUE(i < size ? std::isnan(unknown[at]) : unknown[at] == known[at]) << i;
  }
}

}  // namespace
}  // namespace nullscope::test
