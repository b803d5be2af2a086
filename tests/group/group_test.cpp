#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <numeric>
#include <span>

#include "tests/core/support.hpp"
#include "tests/group/group_kernels.hpp"

namespace nullscope {

#ifndef NULLSCOPE_SINGLE_SOURCE
std::vector<kernel_header> group_kernel_headers();  // written by the build
#endif

namespace test {
namespace {

/// Numbers whose sums round, or small integers.
template <class T>
std::vector<T> some_numbers(std::int64_t count) {
  std::vector<T> numbers;
  if constexpr (std::is_floating_point_v<T>) {
    numbers = random_numbers<T>(count, 47);
  } else {
    for (const float x : random_numbers<float>(count, 47)) numbers.push_back(static_cast<T>(x * 100));
  }
  return numbers;
}

/// The combination of numbers in the order of a binary tree: that of the first half with that of the second.
template <class T, class Combine>
T tree_of(std::span<const T> x, Combine combine) {
  if (x.size() == 1) return x[0];
  return combine(tree_of(x.first(x.size() / 2), combine), tree_of(x.subspan(x.size() / 2), combine));
}

/// All scans in the same order: those of the second half follow on the last one of the first half.
template <class T, class Combine>
std::vector<T> scans_of(std::span<const T> x, Combine combine) {
  if (x.size() == 1) return {x[0]};
  std::vector<T> scans = scans_of(x.first(x.size() / 2), combine);
  const T before = scans.back();
  for (const T scan : scans_of(x.subspan(x.size() / 2), combine)) scans.push_back(combine(before, scan));
  return scans;
}

/// The groups of a work-group one after the other.
template <class T, class Combine>
T all_of(std::span<const T> x, std::size_t items, Combine combine) {
  T result = tree_of(x.first(items), combine);
  for (std::size_t i = items; i < x.size(); i += items) result = combine(result, tree_of(x.subspan(i, items), combine));
  return result;
}

/// Checks what the work-item `rank` of a group with the numbers x got.
template <class T>
void check_results(std::span<const T> x, std::int64_t rank, const T* got, bool is_first_work_group) {
  const std::int64_t items = std::ssize(x);
  const auto plus = [](T a, T b) { return static_cast<T>(a + b); };
  EXPECT_EQ(got[sum], tree_of(x, plus));
  EXPECT_EQ(got[largest], *std::max_element(x.begin(), x.end()));
  EXPECT_EQ(got[entangled], tree_of(x, entangle{}));
  EXPECT_EQ(got[first], x[static_cast<std::size_t>(items / 2)]);
  EXPECT_EQ(got[inclusive], scans_of(x, entangle{})[static_cast<std::size_t>(rank)]);
  EXPECT_EQ(got[exclusive], rank == 0 ? T(7) : x[0]);
  EXPECT_EQ(got[broadcast], x[static_cast<std::size_t>(items / 3)]);
  EXPECT_EQ(got[reversed], x[static_cast<std::size_t>(items - 1 - rank)]);
  EXPECT_EQ(got[by_xor], x[static_cast<std::size_t>(rank ^ (items / 2))]);
  EXPECT_EQ(got[anywhere], is_first_work_group ? T(1) : T(0));
}

class group_test : public device_test {
 protected:
  static constexpr bool has_shuffles = kernels::default_lanes != 1;

  static void SetUpTestSuite() {
#ifndef NULLSCOPE_SINGLE_SOURCE
    add_kernel_headers(group_kernel_headers());
#endif
  }

  bool offers(int sub_group) const {
    const std::vector<std::int64_t>& sizes = ctx_.device().sub_group_sizes;
    return sub_group == 0 || std::find(sizes.begin(), sizes.end(), sub_group) != sizes.end();
  }

  /// Two work-groups of `groups` groups each.
  template <class T, int Items, int Lanes, int SubGroup>
  void check(int groups) {
    SCOPED_TRACE(fmt::format("{} groups of {}, {} lanes", groups, Items, Lanes));
    const std::int64_t items = 2 * groups * Items;
    const std::vector<T> numbers = some_numbers<T>(items);
    tensor<T> x(queue_, {items}, numbers), results(queue_, {items, group_result::count});
    const auto size = static_cast<std::size_t>(groups * Items);
    launch(ctx_, range_of(groups * Items), static_cast<std::size_t>(groups) * kernels::group<Items>::local_bytes,
           group_probe<T, Items, Lanes, SubGroup>{x.data(), results.data()})
        .wait();
    const std::vector<T> got = results.to_host();
    for (std::int64_t i = 0; i < items && !HasFailure(); ++i) {
      SCOPED_TRACE("work-item " + std::to_string(i));
      const std::span<const T> of_group(numbers.data() + i / Items * Items, Items);
      const T* of_item = got.data() + i * group_result::count;
      check_results(of_group, i % Items, of_item, i < groups * Items);
      const std::span<const T> of_work_group(numbers.data() + i / (groups * Items) * (groups * Items), size);
      EXPECT_EQ(of_item[of_all], all_of(of_work_group, Items, entangle{}));
    }
  }

  /// Groups smaller and larger than a sub-group, several per work-group too. Without shuffles if Lanes is 1.
  template <class T, int Lanes>
  void check_sizes() {
    constexpr int sub_group = Lanes == 1 ? 0 : Lanes;
    if (!offers(sub_group) || (Lanes > 1 && !has_shuffles)) return;
    for (const int groups : {1, 3, 8}) check<T, 8, Lanes, sub_group>(groups);
    for (const int groups : {1, 3}) check<T, 32, Lanes, sub_group>(groups);
    check<T, 256, Lanes, sub_group>(1);
  }

  /// Returns how many work-items shuffle.
  template <int Items, int SubGroup>
  int check_asking(int groups) {
    SCOPED_TRACE(fmt::format("{} groups of {}, sub-groups of {}", groups, Items, SubGroup));
    const std::int64_t items = 2 * groups * Items;
    const std::vector<float> numbers = some_numbers<float>(items);
    tensor<float> x(queue_, {items}, numbers), results(queue_, {items, 3});
    tensor<int> lanes(queue_, {1});
    launch(ctx_, range_of(groups * Items), static_cast<std::size_t>(groups) * kernels::group<Items>::local_bytes,
           asking_probe<Items, SubGroup>{x.data(), results.data(), lanes.data()})
        .wait();
    const std::vector<float> got = results.to_host();
    for (std::int64_t i = 0; i < items && !HasFailure(); ++i) {
      const std::span<const float> of_group(numbers.data() + i / Items * Items, Items);
      const float* of_item = got.data() + 3 * i;
      EXPECT_EQ(of_item[0], tree_of(of_group, std::plus<float>{})) << i;
      EXPECT_EQ(of_item[1], tree_of(of_group, entangle{})) << i;
      EXPECT_EQ(of_item[2], scans_of(of_group, entangle{})[static_cast<std::size_t>(i % Items)]) << i;
    }
    return lanes.to_host()[0];
  }

  /// Two work-groups.
  static sycl::nd_range<1> range_of(int work_items) {
    const auto size = static_cast<std::size_t>(work_items);
    return {sycl::range<1>(2 * size), sycl::range<1>(size)};
  }

  template <class T, int Items>
  void check_rows(std::int64_t rows, std::int64_t columns, std::int64_t groups) {
    SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(groups) + " per work-group");
    const std::int64_t all_rows = (rows + groups - 1) / groups * groups;  // as if every group had one
    const std::vector<T> numbers = random_numbers<T>(all_rows * columns, 53);
    tensor<T> x(queue_, {all_rows, columns}, numbers);
    tensor<T> sums(queue_, {all_rows}, std::vector<T>(static_cast<std::size_t>(all_rows), T(-9)));
    tensor<int> ranks(queue_, {all_rows});
    const auto size = static_cast<std::size_t>(groups * Items);
    launch(ctx_, sycl::nd_range<1>{static_cast<std::size_t>(all_rows / groups) * size, size},
           static_cast<std::size_t>(groups) * kernels::group<Items>::local_bytes,
           row_sums<T, Items>{x.data(), sums.data(), ranks.data(), rows, columns})
        .wait();
    const std::vector<T> got = sums.to_host();
    const std::vector<int> got_ranks = ranks.to_host();
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto row = numbers.begin() + i * columns;
      const double expected = std::accumulate(row, row + columns, 0.0);
      EXPECT_NEAR(got[static_cast<std::size_t>(i)], expected, 1e-5 * static_cast<double>(columns)) << i;
      EXPECT_EQ(got_ranks[static_cast<std::size_t>(i)], Items * (Items + 1) / 2) << i;
    }
    for (std::int64_t i = rows; i < all_rows; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], T(-9)) << i;
  }

  template <int Items>
  void check_barrier(int size, int groups) {
    SCOPED_TRACE(std::to_string(groups) + " groups of " + std::to_string(size));
    const std::int64_t items = 3 * size * groups;
    std::vector<int> numbers(static_cast<std::size_t>(items));
    std::iota(numbers.begin(), numbers.end(), 0);
    tensor<int> x(queue_, {items}, numbers), out(queue_, {items});
    const auto work_group = static_cast<std::size_t>(size * groups);
    launch(ctx_, sycl::nd_range<1>{3 * work_group, work_group}, sizeof(int) * work_group,
           reverse_by_group<Items>{x.data(), out.data()})
        .wait();
    for (int i = 0; i < items; i += size) std::reverse(numbers.begin() + i, numbers.begin() + i + size);
    EXPECT_EQ(out.to_host(), numbers);
  }

  template <class T, int W, int Items>
  std::vector<T> pack_results(const std::vector<T>& numbers) {
    tensor<T> x(queue_, {W * Items}, numbers), out(queue_, {3 * Items});
    launch(ctx_, sycl::nd_range<1>{Items, Items}, kernels::group<Items>::local_bytes,
           pack_sums<T, W, Items>{x.data(), out.data()})
        .wait();
    return out.to_host();
  }

  template <class T, int W, int Items>
  void check_packs() {
    SCOPED_TRACE(std::to_string(Items) + " work-items with " + std::to_string(W) + " lanes");
    std::vector<T> numbers = random_numbers<T>(W * Items, 43);
    const double sum = std::accumulate(numbers.begin(), numbers.end(), 0.0);
    std::vector<T> got = pack_results<T, W, Items>(numbers);
    EXPECT_NEAR(got[0], sum, 4.0 * W * Items * static_cast<double>(std::numeric_limits<T>::epsilon()));
    EXPECT_EQ(got[1], *std::max_element(numbers.begin(), numbers.end()));
    EXPECT_EQ(got[2], got[1]);
    for (std::size_t i = 3; i < got.size(); ++i) EXPECT_EQ(got[i], got[i % 3]) << "work-items differ";

    // NaN: in every sum and in max_or_nan; where max may ignore it, all work-items have the same answer
    numbers[numbers.size() / 2] = std::numeric_limits<T>::quiet_NaN();
    got = pack_results<T, W, Items>(numbers);
    for (std::size_t i = 0; i < got.size(); i += 3) {
      EXPECT_TRUE(std::isnan(got[i]) && std::isnan(got[i + 2])) << i;
      EXPECT_TRUE(got[i + 1] == got[1] || (std::isnan(got[i + 1]) && std::isnan(got[1]))) << "work-items differ";
    }
  }
};

INSTANTIATE_TEST_SUITE_P(devices, group_test, testing::ValuesIn(devices()), device_name);

TEST_P(group_test, combines_in_the_same_order_with_any_number_of_lanes) {
  check_sizes<float, 1>();
  check_sizes<float, 4>();
  check_sizes<float, 8>();
  check_sizes<float, 16>();
  check_sizes<float, 32>();
  check_sizes<float, 64>();
}

TEST_P(group_test, takes_numbers_of_every_type) {
  for (const int groups : {1, 3}) {
    check<std::int32_t, 64, 1, 0>(groups);
    check<std::uint32_t, 64, 1, 0>(groups);
    check<std::int64_t, 64, 1, 0>(groups);
    if (has_fp64()) check<double, 64, 1, 0>(groups);
  }
  if (!has_shuffles || !offers(16)) return;
  check<std::int64_t, 64, 16, 16>(1);
  if (has_fp64()) check<double, 64, 16, 16>(1);
}

TEST_P(group_test, asks_for_the_size_of_the_sub_groups) {
  if (!has_shuffles) GTEST_SKIP() << "this compiler has no shuffles";
  check_asking<64, 0>(1);
  if (!offers(8) || !offers(16)) return;
  EXPECT_EQ((check_asking<256, 8>(1)), 8);
  EXPECT_EQ((check_asking<32, 16>(1)), 16);
  EXPECT_EQ((check_asking<8, 16>(4)), 16);
  EXPECT_EQ((check_asking<8, 16>(3)), 1) << "24 work-items, the last of them in a sub-group of 8";
}

TEST_P(group_test, groups_without_a_row_write_nothing) {
  for (const std::int64_t rows : {1, 4, 5, 7}) {
    for (const std::int64_t groups : {1, 4}) {
      check_rows<float, 8>(rows, 13, groups);
      check_rows<float, 32>(rows, 100, groups);
    }
  }
}

TEST_P(group_test, meets_at_barriers) {
  for (const int groups : {1, 2, 4}) {
    check_barrier<1>(1, 1);
    check_barrier<8>(8, groups);
    check_barrier<64>(64, groups);
  }
  for (const int size : {1, 5, 48, 128}) check_barrier<kernels::whole_work_group>(size, 1);
}

TEST_P(group_test, combines_packs) {
  check_packs<float, 16, 1>();
  check_packs<float, 1, 32>();
  check_packs<float, 4, 64>();
  if (has_fp64()) check_packs<double, 1, 256>();
}

}  // namespace
}  // namespace test
}  // namespace nullscope
