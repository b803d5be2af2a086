/// k_means: planted clusters, sums of squares, representatives, bad input.
#include <nullscope/structure/model_structure.hpp>
#include <set>

#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

class k_means_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, k_means_test, testing::ValuesIn(devices()), device_name);

/// Members around `clusters` far centres, cluster after cluster; all of them far from zero.
template <class T>
std::vector<T> planted(std::int64_t clusters, std::int64_t each, std::int64_t width) {
  const std::vector<T> centres = random_numbers<T>(clusters * width, 11),
                       noise = random_numbers<T>(clusters * each * width, 12);
  std::vector<T> x(noise.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t member = i / static_cast<std::size_t>(width), column = i % static_cast<std::size_t>(width);
    x[i] = T(100) +
           T(10) * centres[member / static_cast<std::size_t>(each) * static_cast<std::size_t>(width) + column] +
           noise[i];
  }
  return x;
}

/// Sum of squared distances of members [first, last) from their mean.
template <class T>
double scatter(const std::vector<T>& x, std::int64_t width, const std::vector<std::int64_t>& members) {
  double total = 0;
  for (std::int64_t j = 0; j < width; ++j) {
    double mean = 0;
    for (const std::int64_t i : members) mean += static_cast<double>(x[static_cast<std::size_t>(i * width + j)]);
    mean /= static_cast<double>(members.size());
    for (const std::int64_t i : members) {
      const double difference = static_cast<double>(x[static_cast<std::size_t>(i * width + j)]) - mean;
      total += difference * difference;
    }
  }
  return total;
}

template <class T>
void check_planted(context& ctx) {
  constexpr std::int64_t clusters = 7, each = 31, width = 19, n = clusters * each;
  const std::vector<T> numbers = planted<T>(clusters, each, width);
  const tensor<T> x(ctx, {n, width}, numbers);
  const k_means_result found = k_means(ctx, x, {.clusters = clusters, .seed = 3});
  EXPECT_TRUE(found.has_converged);
  double within = 0;
  std::set<std::int64_t> planted_clusters;
  for (const std::int64_t member : found.representatives) planted_clusters.insert(member / each);
  EXPECT_EQ(std::ssize(planted_clusters), clusters);
  std::vector<std::int64_t> all;
  for (std::int64_t c = 0; c < clusters; ++c) {
    std::vector<std::int64_t> members;
    for (std::int64_t i = 0; i < n; ++i) {
      if (found.assignment[static_cast<std::size_t>(i)] == c) members.push_back(i);
    }
    ASSERT_EQ(std::ssize(members), found.sizes[static_cast<std::size_t>(c)]);
    all.insert(all.end(), members.begin(), members.end());
    within += scatter(numbers, width, members);
    for (const std::int64_t i : members) EXPECT_EQ(i / each, members[0] / each);
    // The representative is the nearest of all members.
    const double* centroid = found.centroids.data() + c * width;
    const auto distance = [&](std::int64_t i) {
      double sum = 0;
      for (std::int64_t j = 0; j < width; ++j) {
        const double difference = static_cast<double>(numbers[static_cast<std::size_t>(i * width + j)]) - centroid[j];
        sum += difference * difference;
      }
      return sum;
    };
    for (const std::int64_t i : members)
      EXPECT_LE(distance(found.representatives[static_cast<std::size_t>(c)]), distance(i));
  }
  EXPECT_NEAR(found.within, within, 1e-9 * within);
  EXPECT_NEAR(found.within + found.between, scatter(numbers, width, all), 1e-9 * found.between);
}

TEST_P(k_means_test, finds_planted_clusters) {
  check_planted<float>(ctx_);
  if (has_fp64()) check_planted<double>(ctx_);
}

TEST_P(k_means_test, never_raises_the_inertia_and_depends_on_the_seed_alone) {
  const tensor<float> x(ctx_, {300, 5}, random_numbers<float>(1500, 4));
  double last = INFINITY;
  for (const std::int64_t clusters : {1, 2, 8, 40, 300}) {
    const k_means_result found = k_means(ctx_, x, {.clusters = clusters, .seed = 9});
    for (std::size_t i = 1; i < found.inertia.size(); ++i) EXPECT_LE(found.inertia[i], found.inertia[i - 1]);
    EXPECT_LE(found.within, found.inertia.back());
    EXPECT_LT(found.within, last);  // more clusters, less within
    last = found.within;
    const k_means_result again = k_means(ctx_, x, {.clusters = clusters, .seed = 9});
    EXPECT_EQ(again.assignment, found.assignment);
    EXPECT_EQ(again.centroids, found.centroids);
  }
  EXPECT_EQ(last, 0);  // each member is its own cluster
  EXPECT_NE(k_means(ctx_, x, {.clusters = 8, .seed = 1}).assignment,
            k_means(ctx_, x, {.clusters = 8, .seed = 2}).assignment);
}

TEST_P(k_means_test, leaves_clusters_empty_if_members_coincide) {
  const tensor<float> x(ctx_, {6, 2}, std::vector<float>{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2});
  const k_means_result found = k_means(ctx_, x, {.clusters = 3});
  EXPECT_EQ(found.within, 0);
  EXPECT_EQ(std::count(found.sizes.begin(), found.sizes.end(), 3), 2);
  EXPECT_EQ(std::count(found.representatives.begin(), found.representatives.end(), -1), 1);
}

TEST_P(k_means_test, refuses_bad_input) {
  const tensor<float> x(ctx_, {4, 2}, std::vector<float>{1, 2, 3, NAN, 5, 6, INFINITY, 8});
  try {
    k_means(ctx_, x, {.clusters = 2});
    ADD_FAILURE() << "NaN was accepted";
  } catch (const computation_error& failure) {
    EXPECT_EQ(failure.failed_batch_ids(), (std::vector<std::int64_t>{1, 3}));
  }
  const tensor<float> good(ctx_, {4, 2}, std::vector<float>(8, 1.f));
  for (const std::int64_t clusters : {-1, 0, 5}) {
    EXPECT_THROW(k_means(ctx_, good, {.clusters = clusters}), invalid_argument);
  }
  EXPECT_THROW(k_means(ctx_, good, {.clusters = 2, .most_iterations = 0}), invalid_argument);
  EXPECT_THROW(k_means(ctx_, tensor<float>(ctx_, {4}), {}), invalid_argument);
  EXPECT_THROW(k_means(ctx_, tensor<float>(ctx_, {0, 2}), {}), invalid_argument);
}

}  // namespace
}  // namespace nullscope::test
