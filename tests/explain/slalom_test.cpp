/// Fits of SLALOM: a planted model comes back to rounding, standard errors are those of a finite-difference Jacobian,
/// and what the scores do not determine is said.
#include <nullscope/explain/slalom.hpp>

#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"
#include "tests/explain/planted.hpp"

namespace nullscope::test {
namespace {

class slalom_test : public device_test {
 protected:
  void SetUp() override {
    if (!has_fp64()) GTEST_SKIP() << "bounds are those of double";
  }

  slalom_model fit(const slalom_queries& queries, const slalom_options& options = {}) {
    return fit_slalom(ctx_, {&queries, 1}, options)[0];
  }

  static void expect_recovered(const slalom_model& found, const slalom_model& planted, double bound,
                               const std::string& what) {
    EXPECT_LE(largest_difference(found.value, planted.value), bound) << what;
    EXPECT_LE(largest_difference(found.importance, planted.importance), bound) << what;
    EXPECT_TRUE(found.converged) << what;
  }
};

INSTANTIATE_TEST_SUITE_P(devices, slalom_test, testing::ValuesIn(devices()), device_name);

TEST_P(slalom_test, least_squares_recovers_a_planted_model) {
  for (const lane_layout& layout : compiled({ctx_.layout(), lane_layout::work_items(properties(GetParam()), 32)})) {
    context ctx(queue_, layout);
    std::vector<slalom_queries> problems;
    std::vector<slalom_model> planted;
    for (const std::int64_t classes : {1, 3}) {
      for (const std::int64_t tokens : {2, 5, 9, 37}) {
        planted.push_back(planted_slalom(tokens, classes, 11));
        problems.push_back(with_targets(random_queries(tokens, classes, 30 * tokens, 2, 12), planted.back()));
        planted.push_back(planted_slalom(tokens, classes, 13));
        problems.push_back(with_targets(random_queries(tokens, classes, 30 * tokens, 3, 14), planted.back()));
      }
      planted.push_back(planted_slalom(23, classes, 15));
      problems.push_back(with_targets(random_deletions(23, classes, 300, 18, 16), planted.back()));
    }
    const std::vector<slalom_model> found = fit_slalom(ctx, problems);
    for (std::size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(name_of(layout) + ", problem " + std::to_string(i));
      expect_recovered(found[i], planted[i], 1e-11, std::to_string(found[i].iterations) + " iterations");
      EXPECT_LE(found[i].mean_squared_error, 1e-26);
      EXPECT_TRUE(found[i].has_enough_queries);
      EXPECT_TRUE(found[i].without_importance.empty());
    }
  }
}

TEST_P(slalom_test, weights_count_as_repeated_queries) {
  const slalom_model planted = planted_slalom(6, 1, 21);
  const slalom_queries weighted = with_targets(random_queries(6, 1, 60, 2, 22), planted, 0.1);
  slalom_queries repeated(6);
  for (std::int64_t i = 0; i < weighted.size(); ++i) {
    const auto place = static_cast<std::size_t>(i);
    std::vector<std::int32_t> query;
    for (auto e = static_cast<std::size_t>(weighted.begin[place]);
         e < static_cast<std::size_t>(weighted.begin[place + 1]); ++e) {
      query.insert(query.end(), static_cast<std::size_t>(weighted.count[e]), weighted.token[e]);
    }
    for (int k = 0; k < static_cast<int>(weighted.weight[place]); ++k) {
      repeated.add(query);
      repeated.targets.push_back(weighted.targets[place]);
    }
  }
  const slalom_model a = fit(weighted), b = fit(repeated);
  EXPECT_LE(largest_difference(a.value, b.value), 1e-8);
  EXPECT_LE(largest_difference(a.importance, b.importance), 1e-8);
  EXPECT_NEAR(a.mean_squared_error, b.mean_squared_error, 1e-12);
}

/// The gradient of the error is 0 at a fit, and not beside it.
TEST_P(slalom_test, a_fit_is_where_finite_differences_vanish) {
  for (const std::int64_t classes : {1, 3}) {
    const slalom_queries queries =
        with_targets(random_queries(8, classes, 200, 3, 32), planted_slalom(8, classes, 31), 0.3);
    const slalom_model found = fit(queries);
    constexpr double h = 1e-5;
    const auto slope = [&](auto member, std::size_t j) {
      slalom_model up = found, down = found;
      (up.*member)[j] += h;
      (down.*member)[j] -= h;
      return (mean_squared_error(up, queries) - mean_squared_error(down, queries)) / (2 * h);
    };
    for (std::size_t j = 0; j < found.importance.size(); ++j) EXPECT_NEAR(slope(&slalom_model::importance, j), 0, 1e-7);
    for (std::size_t j = 0; j < found.value.size(); ++j) EXPECT_NEAR(slope(&slalom_model::value, j), 0, 1e-7);
    EXPECT_NEAR(found.mean_squared_error, mean_squared_error(found, queries), 1e-12);
    EXPECT_GT(found.mean_squared_error, 0.01);
  }
}

TEST_P(slalom_test, adam_comes_close_and_least_squares_is_never_worse) {
  for (const std::uint64_t seed : {41, 42, 43, 44}) {
    const slalom_model planted = planted_slalom(12, 1, seed);
    const slalom_queries exact = with_targets(random_queries(12, 1, 1500, 2, seed), planted);
    const slalom_model by_sgd = fit(exact, {.method = slalom_method::sgd});
    expect_recovered(by_sgd, planted, 0.1, "by SGD");
    const slalom_queries noisy = with_targets(random_queries(12, 1, 300, 2, seed), planted, 1.0);
    EXPECT_LE(fit(noisy).mean_squared_error,
              fit(noisy, {.method = slalom_method::sgd}).mean_squared_error * (1 + 1e-12));
  }
}

/// Columns of the Jacobian of all predictions by central differences: importances, then values.
std::vector<std::vector<double>> finite_jacobian(const slalom_model& model, const slalom_queries& queries) {
  std::vector<std::vector<double>> columns;
  constexpr double h = 1e-6;
  for (std::vector<double> slalom_model::*part : {&slalom_model::importance, &slalom_model::value}) {
    for (std::size_t j = 0; j < (model.*part).size(); ++j) {
      slalom_model up = model, down = model;
      (up.*part)[j] += h;
      (down.*part)[j] -= h;
      std::vector<double> a = predict(up, queries);
      const std::vector<double> b = predict(down, queries);
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = (a[i] - b[i]) / (2 * h);
      columns.push_back(a);
    }
  }
  return columns;
}

/// Inverse by Gauss-Jordan with pivots.
std::vector<std::vector<double>> inverse_of(std::vector<std::vector<double>> a) {
  const std::size_t n = a.size();
  for (std::size_t i = 0; i < n; ++i) {
    a[i].resize(2 * n);
    a[i][n + i] = 1;
  }
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k; i < n; ++i) pivot = std::abs(a[i][k]) > std::abs(a[pivot][k]) ? i : pivot;
    std::swap(a[k], a[pivot]);
    for (std::size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < 2 * n; ++j) a[i][j] -= factor * a[k][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = n; j < 2 * n; ++j) a[i][j] /= a[i][i];
    a[i].erase(a[i].begin(), a[i].begin() + static_cast<std::ptrdiff_t>(n));
  }
  return a;
}

TEST_P(slalom_test, standard_errors_are_the_sandwich_of_a_finite_difference_jacobian) {
  for (const bool deletions : {false, true}) {
    const std::int64_t tokens = deletions ? 11 : 6;
    const slalom_model planted = planted_slalom(tokens, 1, 51);
    const slalom_queries queries = with_targets(
        deletions ? random_deletions(tokens, 1, 150, 9, 52) : random_queries(tokens, 1, 150, 2, 52), planted, 0.02);
    const slalom_model found = fit(queries);
    const auto columns = finite_jacobian(found, queries);
    const std::vector<double> scores = predict(found, queries);
    const std::size_t n = columns.size(), k = static_cast<std::size_t>(tokens);
    std::vector<std::vector<double>> bread(n, std::vector<double>(n)), meat = bread;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double r = queries.targets[i] - scores[i], w = queries.weight[i];
      for (std::size_t a = 0; a < n; ++a) {
        for (std::size_t b = 0; b < n; ++b) {
          bread[a][b] += w * columns[a][i] * columns[b][i];
          meat[a][b] += w * r * r * columns[a][i] * columns[b][i];
        }
      }
    }
    for (std::size_t a = 0; a < k; ++a) {  // the sum of importances is fixed
      for (std::size_t b = 0; b < k; ++b) bread[a][b] += 1;
    }
    const auto inverse = inverse_of(bread);
    const double m = static_cast<double>(queries.size()), p = static_cast<double>(2 * tokens - 1);
    const auto covariance = [&](std::size_t a, std::size_t b) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) sum += inverse[a][i] * meat[i][j] * inverse[j][b];
      }
      return m / (m - p) * sum;
    };
    for (std::size_t j = 0; j < k; ++j) {
      EXPECT_NEAR(found.importance_error[j], std::sqrt(covariance(j, j)), 1e-5) << deletions << j;
      EXPECT_NEAR(found.value_error[j], std::sqrt(covariance(k + j, k + j)), 1e-5) << deletions << j;
      EXPECT_NEAR(found.covariance[j], covariance(j, k + j), 1e-6) << deletions << j;
    }
  }
}

TEST_P(slalom_test, the_analytic_fit_is_exact) {
  for (const std::int64_t classes : {1, 4}) {
    const std::int64_t tokens = 19;
    const slalom_model planted = planted_slalom(tokens, classes, 61);
    slalom_queries single(tokens, classes), pairs(tokens, classes);
    for (std::int32_t j = 0; j < tokens; ++j) single.add({{j}});
    const std::vector<double> alone = predict(planted, single);
    const std::int32_t reference = best_reference(alone, classes);
    for (std::int32_t j = 0; j < tokens; ++j) pairs.add({{reference, j}});
    const slalom_model found = analytic_slalom(alone, predict(planted, pairs), classes, reference, 0);
    expect_recovered(found, planted, 1e-11, "analytic");
  }
  EXPECT_NE(message_of<invalid_argument>([] { analytic_slalom(std::vector{1.0}, std::vector{1.0, 2.0}, 1, 0); }), "");
}

TEST_P(slalom_test, says_what_is_not_identified) {
  slalom_queries constant = random_queries(6, 1, 40, 2, 71);
  constant.targets.assign(40, 0.75);
  const slalom_model flat = fit(constant);
  EXPECT_EQ(flat.without_importance.size(), 6u);
  for (const double v : flat.value) EXPECT_NEAR(v, 0.75, 1e-12);
  for (const double s : flat.importance) EXPECT_EQ(s, 0);

  slalom_queries four(4), five(5);  // all pairs of different tokens
  for (std::int32_t a = 0; a < 5; ++a) {
    for (std::int32_t b = 0; b < a; ++b) {
      if (a < 4) four.add({{a, b}});
      five.add({{a, b}});
    }
  }
  EXPECT_FALSE(fit(with_targets(four, planted_slalom(4, 1, 72))).has_enough_queries);
  EXPECT_TRUE(fit(with_targets(five, planted_slalom(5, 1, 72))).has_enough_queries);

  slalom_queries one(1);
  one.add({{0}});
  one.targets = {-0.5};
  const slalom_model single = fit(one);
  EXPECT_NEAR(single.value[0], -0.5, 1e-15);
  EXPECT_EQ(single.importance[0], 0);
}

TEST_P(slalom_test, refuses_wrong_queries) {
  const slalom_queries right = with_targets(random_queries(5, 1, 20, 2, 81), planted_slalom(5, 1, 82));
  const auto refused = [&](auto change) {
    slalom_queries wrong = right;
    change(wrong);
    return message_of<invalid_argument>([&] { fit(wrong); });
  };
  EXPECT_NE(refused([](auto& q) { q.targets.pop_back(); }).find("19 targets"), std::string::npos);
  EXPECT_NE(refused([](auto& q) { q.token[0] = 5; }).find("token 5"), std::string::npos);
  EXPECT_NE(refused([](auto& q) { q.weight[3] = 0; }).find("weight 0 for query 3"), std::string::npos);
  EXPECT_NE(refused([](auto& q) { q.tokens = 0; }).find("0 tokens"), std::string::npos);
  slalom_queries broken = right;
  broken.targets[7] = NAN;
  const std::vector<slalom_queries> two{right, broken};
  try {
    fit_slalom(ctx_, two);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const computation_error& failure) {
    EXPECT_EQ(failure.failed_batch_ids(), std::vector<std::int64_t>{1});
  }
  EXPECT_TRUE(fit_slalom(ctx_, {}).empty());
}

TEST_P(slalom_test, scores_follow_their_formulas) {
  const slalom_model model = planted_slalom(4, 1, 91);
  const std::vector<std::int32_t> text{2, 0, 2, 3};
  const slalom_scores scores = scores_of(model, text);
  slalom_queries all(4), without(4);
  all.add(text);
  const double f = predict(model, all)[0];
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::vector<std::int32_t> rest = text;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    slalom_queries query(4);
    query.add(rest);
    EXPECT_NEAR(scores.removal[i], f - predict(model, query)[0], 1e-14);
    EXPECT_NEAR(scores.linearised[i], scores.value[i] * std::exp(scores.importance[i]), 1e-14);
    slalom_queries more = all, less = all;  // the presence of a token, a little more and a little less
    const double h = 1e-6;
    for (std::size_t e = 0; e < more.token.size(); ++e) {
      if (more.token[e] == text[i]) more.count[e] += h, less.count[e] -= h;
    }
    EXPECT_NEAR(scores.derivative[i], (predict(model, more)[0] - predict(model, less)[0]) / (2 * h), 1e-8);
  }
  EXPECT_TRUE(std::isnan(scores_of(model, std::vector<std::int32_t>{1}).removal[0]));
}

TEST_P(slalom_test, the_same_seed_gives_the_same_bits) {
  const slalom_queries queries = with_targets(random_queries(9, 2, 100, 3, 95), planted_slalom(9, 2, 96), 0.5);
  for (const slalom_method method : {slalom_method::least_squares, slalom_method::sgd}) {
    const slalom_model a = fit(queries, {.method = method}), b = fit(queries, {.method = method});
    EXPECT_EQ(a.value, b.value);
    EXPECT_EQ(a.importance, b.importance);
    EXPECT_EQ(a.value_error, b.value_error);
  }
}

}  // namespace
}  // namespace nullscope::test
