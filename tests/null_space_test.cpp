#include <fmt/format.h>

#include <nullscope/launch.hpp>
#include <nullscope/null_space.hpp>
#include <nullscope/svd.hpp>
#include <nullscope/tensor.hpp>

#include "null_space_basis.hpp"
#include "support.hpp"

namespace nullscope::test {
namespace {

constexpr double bound = 10;  // of a scaled residual

class null_space_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, null_space_test, testing::ValuesIn(devices()), device_name);

using matrix = std::vector<double>;  // row-major

/// (rows x inner) (inner x columns)
template <class A, class B>
matrix product(const A* a, const B* b, std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  matrix c(static_cast<std::size_t>(rows * columns), 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t l = 0; l < inner; ++l) {
      const double factor = static_cast<double>(a[i * inner + l]);
      for (std::int64_t j = 0; j < columns; ++j) {
        c[static_cast<std::size_t>(i * columns + j)] += factor * static_cast<double>(b[l * columns + j]);
      }
    }
  }
  return c;
}

template <class A>
matrix transpose(const A* a, std::int64_t rows, std::int64_t columns) {
  matrix t(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j)
      t[static_cast<std::size_t>(j * rows + i)] = static_cast<double>(a[i * columns + j]);
  }
  return t;
}

double norm(const matrix& x) {
  double sum = 0;
  for (const double e : x) sum += e * e;
  return std::sqrt(sum);
}

template <class T>
constexpr double eps = static_cast<double>(std::numeric_limits<T>::epsilon());

/// How far u^T u (u has S rows) is from the identity of its first `rank` columns, in units of S eps.
template <class T>
double orthogonality(const T* u, std::int64_t tokens, std::int64_t columns, std::int64_t rank) {
  matrix gram = product(transpose(u, tokens, columns).data(), u, columns, tokens, columns);
  for (std::int64_t j = 0; j < rank; ++j) gram[static_cast<std::size_t>(j * columns + j)] -= 1;
  return norm(gram) / (static_cast<double>(std::max<std::int64_t>(columns, 4)) * eps<T>);
}

/// |T - U U^T T| / (|T| S eps): what of T the basis does not reach.
template <class T>
double outside(const matrix& t, const T* u, std::int64_t tokens, std::int64_t columns, std::int64_t width) {
  const matrix coefficients = product(transpose(u, tokens, columns).data(), t.data(), columns, tokens, width);
  const matrix inside = product(u, coefficients.data(), tokens, columns, width);
  matrix difference = t;
  for (std::size_t i = 0; i < t.size(); ++i) difference[i] -= inside[i];
  const double size = norm(t);
  return size == 0 ? norm(difference)
                   : norm(difference) / (size * static_cast<double>(std::max(tokens, width)) * eps<T>);
}

struct heads {
  std::int64_t batch, tokens, value_width, model_width;
  std::int64_t columns() const { return std::min({tokens, value_width, model_width}); }
};

/// v (batch, S, dv) and h (batch, dv, d) of heads with ranks that are known: head i has rank at most limit(i).
template <class T>
struct factored {
  std::vector<T> v, h;
};
template <class T>
factored<T> make_heads(const heads& s, const std::vector<std::int64_t>& ranks, std::uint64_t seed) {
  factored<T> f{random_numbers<T>(s.batch * s.tokens * s.value_width, seed),
                random_numbers<T>(s.batch * s.value_width * s.model_width, seed + 1)};
  for (std::int64_t b = 0; b < s.batch; ++b) {  // every row is an exact copy of one of the first `rank` rows
    T* v = f.v.data() + b * s.tokens * s.value_width;
    for (std::int64_t i = 0; i < s.tokens; ++i) {
      const std::int64_t rank = ranks[static_cast<std::size_t>(b)];
      for (std::int64_t j = 0; j < s.value_width; ++j) {
        v[i * s.value_width + j] = rank == 0 ? T(0) : v[(i % rank) * s.value_width + j];
      }
    }
  }
  return f;
}

template <class T>
void check_factored(sycl::queue& queue, const heads& s, const std::vector<std::int64_t>& ranks) {
  const factored<T> f = make_heads<T>(s, ranks, 5);
  const tensor<T> v(queue, {s.batch, s.tokens, s.value_width}, f.v),
      h(queue, {s.batch, s.value_width, s.model_width}, f.h);
  const range_result<T> result = range_basis(queue, v, h);
  const std::int64_t k = s.columns();
  const std::vector<T> basis = result.basis.to_host(), values = result.s.to_host();
  ASSERT_EQ(result.basis.shape(), (std::vector<std::int64_t>{s.batch, s.tokens, k + 1}));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::string what =
        fmt::format("head {} of ({}, {}, {}, {})", b, s.batch, s.tokens, s.value_width, s.model_width);
    const std::int64_t rank = result.rank[static_cast<std::size_t>(b)];
    EXPECT_EQ(rank, std::min(k, ranks[static_cast<std::size_t>(b)])) << what;
    EXPECT_EQ(result.null_dimension[static_cast<std::size_t>(b)], s.tokens - rank) << what;
    const T* u = basis.data() + b * s.tokens * (k + 1);
    const matrix t = product(f.v.data() + b * s.tokens * s.value_width, f.h.data() + b * s.value_width * s.model_width,
                             s.tokens, s.value_width, s.model_width);
    EXPECT_LT(orthogonality(u, s.tokens, k + 1, rank), bound) << what;
    EXPECT_LT(outside(t, u, s.tokens, k + 1, s.model_width), bound) << what;
    // The columns of U^T T have the singular values as their lengths, and |T|_F^2 is the sum of their squares.
    const matrix rotated = product(transpose(u, s.tokens, k + 1).data(), t.data(), k + 1, s.tokens, s.model_width);
    double largest = static_cast<double>(values[static_cast<std::size_t>(b * k)]), worst = 0, squares = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      const auto begin = rotated.begin() + j * s.model_width;
      const double value = static_cast<double>(values[static_cast<std::size_t>(b * k + j)]);
      squares += value * value;
      if (j < rank) worst = std::max(worst, std::abs(value - norm({begin, begin + s.model_width})));
      if (j > 0) {
        EXPECT_LE(value, static_cast<double>(values[static_cast<std::size_t>(b * k + j - 1)])) << what;
      }
    }
    const double unit = static_cast<double>(std::max(s.value_width, k)) * eps<T>;
    EXPECT_LE(worst, bound * largest * unit) << what;
    EXPECT_NEAR(std::sqrt(squares), norm(t), bound * norm(t) * unit) << what;
  }
}

TEST_P(null_space_test, finds_rank_values_and_range_of_factored_heads) {
  check_factored<float>(queue_, {5, 100, 16, 48}, {16, 7, 0, 1, 15});
  check_factored<float>(queue_, {2, 200, 24, 20}, {24, 9});  // d < d_v
  check_factored<float>(queue_, {2, 10, 16, 40}, {16, 3});   // S < d_v: S x S
  check_factored<float>(queue_, {1, 1, 1, 1}, {1});
  check_factored<float>(queue_, {3, 33, 1, 5}, {1, 1, 0});
  check_factored<float>(queue_, {2, 1000, 64, 96}, {64, 40});
}

TEST_P(null_space_test, works_in_double) {
  if (!has_fp64()) GTEST_SKIP();
  check_factored<double>(queue_, {4, 90, 12, 30}, {12, 5, 0, 11});
}

TEST_P(null_space_test, finds_rank_and_range_of_a_plain_matrix) {
  for (const auto& [tokens, width] :
       {std::pair<std::int64_t, std::int64_t>{80, 20}, {20, 80}, {30, 30}, {1, 4}, {4, 1}}) {
    for (const std::int64_t rank : {std::int64_t{0}, std::int64_t{1}, std::min(tokens, width)}) {
      const factored<float> f = make_heads<float>({1, tokens, width, 1}, {rank}, 9);
      const range_result<float> result = range_basis(queue_, tensor<float>(queue_, {tokens, width}, f.v));
      const std::int64_t k = std::min(tokens, width);
      const std::vector<float> u = result.basis.to_host();
      EXPECT_EQ(result.rank[0], rank) << tokens << " x " << width;
      EXPECT_LT(orthogonality(u.data(), tokens, k + 1, rank), bound);
      EXPECT_LT(outside(matrix(f.v.begin(), f.v.end()), u.data(), tokens, k + 1, width), bound)
          << tokens << " x " << width;
    }
  }
}

TEST_P(null_space_test, counts_singular_values_by_the_tolerance) {
  // T = diag(1, 1e-2, 1e-4, 1e-9): by default the last one does not count
  std::vector<float> t(16, 0.0f);
  t[0] = 1, t[5] = 1e-2f, t[10] = 1e-4f, t[15] = 1e-9f;
  const tensor<float> x(queue_, {4, 4}, t);
  EXPECT_EQ(range_basis(queue_, x).rank[0], 3);
  EXPECT_EQ(range_basis(queue_, x, {.tolerance = {.relative = 1e-3}}).rank[0], 2);
  EXPECT_EQ(range_basis(queue_, x, {.tolerance = {.relative = 0, .absolute = 0.5}}).rank[0], 1);
  EXPECT_EQ(range_basis(queue_, x, {.tolerance = {.relative = 0}}).rank[0], 4);
  EXPECT_EQ(range_basis(queue_, x, {.tolerance = {.absolute = 2}}).rank[0], 0);
}

TEST_P(null_space_test, survives_extreme_scales) {
  for (const float scale : {1e-15f, 1e15f}) {
    factored<float> f = make_heads<float>({1, 60, 8, 20}, {5}, 21);
    for (float& x : f.v) x *= scale;
    for (float& x : f.h) x *= scale;
    const range_result<float> result =
        range_basis(queue_, tensor<float>(queue_, {60, 8}, f.v), tensor<float>(queue_, {8, 20}, f.h));
    EXPECT_EQ(result.rank[0], 5) << scale;
    EXPECT_LT(orthogonality(result.basis.to_host().data(), 60, 9, 5), bound);
  }
}

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
  const range_result<float> result =
      range_basis(queue_, tensor<float>(queue_, {3, tokens, width}, all), {.with_ones = true});
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
  const range_result<float> whole =
      range_basis(queue_, tensor<float>(queue_, {3, 4}, random_numbers<float>(12, 5)), {.with_ones = true});
  EXPECT_EQ(whole.rank_with_ones[0], 3);
}

TEST_P(null_space_test, projects_rows_on_the_range_and_on_the_null_space) {
  const std::int64_t batch = 3, tokens = 70, rows = 11, width = 9;
  const factored<float> f = make_heads<float>({batch, tokens, width, 1}, {9, 4, 0}, 41);
  const range_result<float> range = range_basis(queue_, tensor<float>(queue_, {batch, tokens, width}, f.v));
  const std::vector<float> u = range.basis.to_host(), numbers = random_numbers<float>(batch * rows * tokens, 43);
  tensor<float> x(queue_, {batch, rows, tokens}, numbers), onto(queue_, {batch, rows, tokens}),
      off(queue_, {batch, rows, tokens});
  tensor<std::byte> scratchpad(queue_, {project_scratchpad_size<float>(batch, rows, width + 1)});
  const std::span<std::byte> work(scratchpad.data(), static_cast<std::size_t>(scratchpad.size()));
  project(queue_, row_part::range, x.as<3>(), range.basis.as<3>(), onto.as<3>(), work).wait();
  project(queue_, row_part::null_space, x.as<3>(), range.basis.as<3>(), off.as<3>(), work).wait();
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
  project(queue_, row_part::null_space, x.as<3>(), range.basis.as<3>(), x.as<3>(), work).wait();  // in place
  EXPECT_EQ(x.to_host(), null);
  project(queue_, row_part::null_space, x.as<3>(), range.basis.as<3>(), off.as<3>(), work).wait();  // again: idempotent
  EXPECT_LT(scaled_residual(off.to_host(), std::vector<double>(null.begin(), null.end()), tokens), bound);
}

TEST_P(null_space_test, draws_reproducible_rows_of_the_null_space) {
  const std::int64_t batch = 2, tokens = 40, rows = 200, width = 38;  // a null space of 2 and of 37 dimensions
  const factored<float> f = make_heads<float>({batch, tokens, width, 1}, {38, 3}, 51);
  const range_result<float> range = range_basis(queue_, tensor<float>(queue_, {batch, tokens, width}, f.v));
  tensor<float> drawn(queue_, {batch, rows, tokens}), again(queue_, {batch, rows, tokens}),
      other(queue_, {batch, rows, tokens});
  tensor<std::byte> scratchpad(queue_, {project_scratchpad_size<float>(batch, rows, width + 1)});
  const std::span<std::byte> work(scratchpad.data(), static_cast<std::size_t>(scratchpad.size()));
  random_null_space_rows(queue_, range.basis.as<3>(), drawn.as<3>(), {7, 1}, work).wait();
  random_null_space_rows(queue_, range.basis.as<3>(), again.as<3>(), {7, 1}, work).wait();
  random_null_space_rows(queue_, range.basis.as<3>(), other.as<3>(), {7, 2}, work).wait();
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
void check_null_space_basis(sycl::queue& queue, bool team, std::int64_t tokens, std::int64_t width,
                            const std::vector<std::int64_t>& ranks) {
  const std::int64_t batch = static_cast<std::int64_t>(ranks.size());
  const factored<T> f = make_heads<T>({batch, tokens, width, 1}, ranks, 61);
  const range_result<T> range = range_basis(queue, tensor<T>(queue, {batch, tokens, width}, f.v));
  const std::int64_t k = std::min(tokens, width);
  const view<const T, 3> u = slice(range.basis.template as<3>(), 2, 0, k);
  tensor<T> n(queue, {batch, tokens, tokens}, std::vector<T>(static_cast<std::size_t>(batch * tokens * tokens), T(7)));
  const tensor<std::int64_t> rank(queue, {batch}, range.rank);
  tensor<std::byte> scratchpad(queue, {null_space_basis_scratchpad_size<T>(queue, batch, tokens, k)});
  detail::null_space_basis<T>(queue, team, u, rank.as<1>(), n.template as<3>(), scratchpad.data(), {}).wait();
  const std::vector<T> basis = n.to_host(), range_host = range.basis.to_host();
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::string what =
        fmt::format("{} x {} rank {} team {}", tokens, width, ranks[static_cast<std::size_t>(b)], team);
    const T* nb = basis.data() + b * tokens * tokens;
    EXPECT_LT(orthogonality(nb, tokens, tokens, range.null_dimension[static_cast<std::size_t>(b)]), bound) << what;
    const matrix zero =
        product(transpose(range_host.data() + b * tokens * (k + 1), tokens, k + 1).data(), nb, k + 1, tokens, tokens);
    EXPECT_LT(norm(zero), bound * tokens * eps<T>) << what;
  }
}

TEST_P(null_space_test, gives_an_explicit_basis_of_the_null_space) {
  for (const bool team : {false, true}) {
    check_null_space_basis<float>(queue_, team, 50, 7, {7, 3, 0, 1});
    check_null_space_basis<float>(queue_, team, 66, 33, {33, 20});
    check_null_space_basis<float>(queue_, team, 20, 20, {20, 11});
    check_null_space_basis<float>(queue_, team, 9, 30, {9, 2});
    check_null_space_basis<float>(queue_, team, 1, 1, {1, 0});
    if (has_fp64()) check_null_space_basis<double>(queue_, team, 37, 5, {5, 2});
  }
  check_null_space_basis<float>(queue_, false, 300, 64, {64, 50});
}

/// The low-level function on everything that the tests below vary.
struct low_level {
  low_level(sycl::queue& q, const heads& s, const factored<float>& f)
      : v(q, {s.batch, s.tokens, s.value_width}, f.v),
        h(q, {s.batch, s.value_width, s.model_width}, f.h),
        u(q, {s.batch, s.tokens, s.columns()}),
        s(q, {s.batch, s.columns()}),
        rank(q, {s.batch}),
        status(q, {s.batch}),
        scratchpad(q, {range_basis_scratchpad_size<float>(q, s.batch, s.tokens, s.value_width, s.model_width)}) {}

  std::span<std::byte> work() { return {scratchpad.data(), static_cast<std::size_t>(scratchpad.size())}; }
  sycl::event run(sycl::queue& q, const std::vector<sycl::event>& dependencies = {}) {
    return range_basis(q, v.as<3>(), h.as<3>(), u.as<3>(), s.as<2>(), rank.as<1>(), status.as<1>(), work(), {},
                       dependencies);
  }

  tensor<float> v, h, u, s;
  tensor<std::int64_t> rank;
  tensor<std::int32_t> status;
  tensor<std::byte> scratchpad;
};

TEST_P(null_space_test, nan_stays_in_its_head) {
  const heads s{4, 60, 8, 12};
  factored<float> f = make_heads<float>(s, {8, 8, 5, 8}, 71);
  low_level clean(queue_, s, f);
  clean.run(queue_).wait();
  f.v[static_cast<std::size_t>(1 * 480 + 100)] = std::numeric_limits<float>::quiet_NaN();
  f.h[static_cast<std::size_t>(3 * 96 + 5)] = std::numeric_limits<float>::infinity();
  low_level dirty(queue_, s, f);
  dirty.run(queue_).wait();
  EXPECT_EQ(clean.rank.to_host(), (std::vector<std::int64_t>{8, 8, 5, 8}));
  EXPECT_EQ(dirty.rank.to_host(), (std::vector<std::int64_t>{8, -1, 5, -1}));
  EXPECT_EQ(dirty.status.to_host(),
            (std::vector<std::int32_t>{svd_converged, svd_not_finite, svd_converged, svd_not_finite}));
  const std::vector<float> expected = clean.u.to_host(), got = dirty.u.to_host();
  for (const std::ptrdiff_t b : {0, 2}) {
    EXPECT_TRUE(std::equal(got.begin() + b * 480, got.begin() + (b + 1) * 480, expected.begin() + b * 480)) << b;
  }
  try {
    range_basis(queue_, dirty.v, dirty.h);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const computation_error& failure) {
    EXPECT_EQ(failure.failed_batch_ids(), (std::vector<std::int64_t>{1, 3}));
    EXPECT_EQ(std::string(failure.what()),
              "range_basis: 2 of 4 matrices hold NaN or infinity, or did not converge: 1, 3");
  }
}

TEST_P(null_space_test, one_projection_serves_the_whole_batch_and_bits_repeat) {
  const heads s{3, 64, 8, 12};
  factored<float> f = make_heads<float>(s, {8, 4, 8}, 81);
  for (std::int64_t i = 0; i < 2 * 96; ++i)
    f.h[static_cast<std::size_t>(96 + i)] = f.h[static_cast<std::size_t>(i % 96)];
  low_level each(queue_, s, f), shared(queue_, s, f);
  each.run(queue_).wait();
  view<const float, 3> repeated = shared.h.as<3>();
  repeated.stride[0] = 0;
  range_basis(queue_, shared.v.as<3>(), repeated, shared.u.as<3>(), shared.s.as<2>(), shared.rank.as<1>(),
              shared.status.as<1>(), shared.work())
      .wait();
  EXPECT_EQ(each.rank.to_host(), shared.rank.to_host());
  const std::vector<float> got = shared.s.to_host(), expected = each.s.to_host();
  EXPECT_LT(scaled_residual(got, std::vector<double>(expected.begin(), expected.end()), 8), bound);
  const std::vector<float> first = each.u.to_host();
  each.run(queue_).wait();
  EXPECT_EQ(each.u.to_host(), first);
}

TEST_P(null_space_test, takes_heads_that_are_interleaved) {
  const heads s{4, 30, 8, 20};
  const factored<float> f = make_heads<float>(s, {8, 8, 2, 8}, 91);
  low_level packed(queue_, s, f), strided(queue_, s, f);
  packed.run(queue_).wait();
  std::vector<float> tokens_first(f.v.size());  // (S, heads, d_v), as a projection of all heads gives it
  for (std::int64_t b = 0; b < 4; ++b) {
    for (std::int64_t i = 0; i < 30; ++i) {
      for (std::int64_t j = 0; j < 8; ++j) {
        tokens_first[static_cast<std::size_t>((i * 4 + b) * 8 + j)] =
            f.v[static_cast<std::size_t>((b * 30 + i) * 8 + j)];
      }
    }
  }
  strided.v.copy_from(tokens_first);
  const view<const float, 3> v{strided.v.data(), {4, 30, 8}, {8, 32, 1}};
  range_basis(queue_, v, strided.h.as<3>(), strided.u.as<3>(), strided.s.as<2>(), strided.rank.as<1>(),
              strided.status.as<1>(), strided.work())
      .wait();
  EXPECT_EQ(strided.u.to_host(), packed.u.to_host());
  EXPECT_EQ(strided.rank.to_host(), packed.rank.to_host());
}

TEST_P(null_space_test, honours_dependencies_and_takes_empty_batches) {
  sycl::queue out_of_order(GetParam());
  const heads s{2, 64, 8, 12};
  const factored<float> f = make_heads<float>(s, {8, 3}, 95);
  low_level expected(queue_, s, f), late(queue_, s, {std::vector<float>(f.v.size(), 0.0f), f.h});
  expected.run(queue_).wait();
  tensor<float> large(queue_, {1 << 24}), source(queue_, {2, 64, 8}, f.v);
  sycl::event before;
  for (int i = 0; i < 8; ++i) before = out_of_order.fill(large.data(), float(i), 1 << 24, before);  // takes a while
  before = out_of_order.memcpy(late.v.data(), source.data(), f.v.size() * sizeof(float), before);
  late.run(out_of_order, {before}).wait();
  EXPECT_EQ(late.u.to_host(), expected.u.to_host());
  EXPECT_EQ(late.rank.to_host(), expected.rank.to_host());
  EXPECT_TRUE(range_basis(queue_, tensor<float>(queue_, {0, 5, 3})).rank.empty());
  EXPECT_EQ(range_basis(queue_, tensor<float>(queue_, {2, 5, 0})).null_dimension, (std::vector<std::int64_t>{5, 5}));
}

TEST_P(null_space_test, refuses_what_it_cannot_take) {
  const heads s{2, 10, 4, 6};
  low_level d(queue_, s, make_heads<float>(s, {4, 4}, 99));
  const auto message = [&](view<const float, 3> h, view<float, 3> u, view<float, 2> values, std::span<std::byte> work,
                           rank_tolerance tolerance = {}) {
    return message_of<invalid_argument>(
        [&] { range_basis(queue_, d.v.as<3>(), h, u, values, d.rank.as<1>(), d.status.as<1>(), work, tolerance); });
  };
  EXPECT_EQ(
      message(slice(d.h.as<3>(), 1, 0, 3), d.u.as<3>(), d.s.as<2>(), d.work()),
      "range_basis: dimension 2 of v (2, 10, 4) with strides (40, 4, 1) differs from dimension 1 of h (2, 3, 6) with "
      "strides (24, 6, 1)");
  EXPECT_EQ(message(d.h.as<3>(), slice(d.u.as<3>(), 2, 0, 3), d.s.as<2>(), d.work()),
            "range_basis: u (2, 10, 3) with strides (40, 4, 1) should have the shape (2, 10, 4)");
  EXPECT_EQ(message(d.h.as<3>(), d.u.as<3>(), slice(d.s.as<2>(), 1, 0, 2), d.work()),
            "range_basis: s (2, 2) with strides (4, 1) should have the shape (2, 4)");
  EXPECT_EQ(message(d.h.as<3>(), d.u.as<3>(), d.s.as<2>(), d.work(), {.absolute = -1}),
            "range_basis: tolerances (relative -1, absolute -1) are NaN or negative");
  EXPECT_NE(message(d.h.as<3>(), d.u.as<3>(), d.s.as<2>(), d.work().first(100)).find("holds 100 elements"),
            std::string::npos);
  EXPECT_EQ(message_of<invalid_argument>([&] { range_basis(queue_, tensor<float>(queue_, {4})); }),
            "range_basis: t [4] is neither a matrix nor a batch of matrices");
  tensor<float> rows(queue_, {2, 3, 10}), n(queue_, {2, 10, 9});
  EXPECT_EQ(message_of<invalid_argument>([&] {
              project(queue_, row_part::range, rows.as<3>(), slice(d.u.as<3>(), 1, 0, 9), rows.as<3>(), d.work());
            }),
            "project: dimension 1 of u (2, 9, 4) with strides (40, 4, 1) differs from dimension 2 of x (2, 3, 10) with "
            "strides (30, 10, 1)");
  EXPECT_EQ(message_of<invalid_argument>(
                [&] { random_null_space_rows(queue_, d.u.as<3>(), slice(rows.as<3>(), 1, 0, 2), {}, d.work()); }),
            "random_null_space_rows: out (2, 2, 10) with strides (30, 10, 1) is not densely packed");
  EXPECT_EQ(
      message_of<invalid_argument>([&] { null_space_basis(queue_, d.u.as<3>(), d.rank.as<1>(), n.as<3>(), d.work()); }),
      "null_space_basis: dimension 2 of null_basis (2, 10, 9) with strides (90, 9, 1) differs from dimension 1 of u "
      "(2, "
      "10, 4) with strides (40, 4, 1)");
  EXPECT_EQ(message_of<invalid_argument>(
                [&] { append_ones(queue_, d.u.as<3>(), d.rank.as<1>(), slice(d.rank.as<1>(), 0, 0, 1), d.work()); }),
            "append_ones: dimension 0 of rank_with_ones (1) with strides (1) differs from dimension 0 of basis (2, 10, "
            "4) with "
            "strides (40, 4, 1)");
}

}  // namespace
}  // namespace nullscope::test
