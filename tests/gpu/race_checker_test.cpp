/// The checker finds what was planted, names it, and says nothing where nothing is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nullscope/core/kernel.hpp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/gpu/checker/checker.hpp"
#include "tests/gpu/self_test_kernels.hpp"

namespace nullscope::races {
namespace {

using namespace self_test;

constexpr std::size_t local_bytes = items * sizeof(float);

template <class Kernel>
std::vector<fault> faults_of(const Kernel& kernel, std::size_t groups = 1, const settings& how = {}) {
  const checked_kernel* const checked = find_kernel(detail::type_name<Kernel>());
  if (checked == nullptr) throw std::logic_error("the kernel is not in the table");
  return run(*checked, reinterpret_cast<const std::byte*>(&kernel), {groups, items, local_bytes}, how);
}

/// A fault of this kind, whose text has all of these parts.
void expect_fault(const std::vector<fault>& faults, fault_kind kind, const std::vector<std::string>& parts) {
  const auto found = std::find_if(faults.begin(), faults.end(), [&](const fault& one) { return one.kind == kind; });
  ASSERT_NE(found, faults.end());
  for (const std::string& part : parts) {
    EXPECT_NE(found->text.find(part), std::string::npos) << part << " is missing in: " << found->text;
  }
}

/// "self_test_kernels.hpp:24": the first line behind `after` with this text.
std::string line_with(const std::string& after, const std::string& text, const std::string& file = __FILE__) {
  const std::string path = file.substr(0, file.rfind('/')) + "/self_test_kernels.hpp";
  std::ifstream stream(path);
  bool is_behind = false;
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    is_behind |= line.find(after) != std::string::npos;
    if (is_behind && line.find(text) != std::string::npos) return "self_test_kernels.hpp:" + std::to_string(number);
  }
  throw std::logic_error(text + " is not in " + path);
}

TEST(race_checker, finds_a_race_in_local_memory_with_both_lines_and_work_items) {
  std::vector<float> out(items);
  const auto faults = faults_of(rotate<false>{out.data()});
  expect_fault(faults, fault_kind::race,
               {"work-item 0 of work-group 0 reads at", "work-item 1 of work-group 0 writes 4 bytes of local memory",
                line_with("struct rotate", "shared[rank] = "), line_with("struct rotate", "% items"), "rotate<false>"});
}

TEST(race_checker, says_nothing_where_a_barrier_is) {
  std::vector<float> out(2 * items);
  EXPECT_TRUE(faults_of(rotate<true>{out.data()}, 2).empty());
  for (int i = 0; i < 2 * items; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)], static_cast<float>((i + 1) % items));
}

TEST(race_checker, leaves_out_a_barrier_by_its_line) {
  std::vector<float> out(items);
  const std::string line = line_with("struct rotate", "group_barrier");
  const auto without = [&](const std::string& left_out) {
    return faults_of(rotate<true>{out.data()}, 1, {.without_barriers = {left_out}});
  };
  expect_fault(without("tests/gpu/" + line), fault_kind::race, {"local memory"});
  EXPECT_TRUE(without("tests/gpu/self_test_kernels.hpp:1").empty());
}

TEST(race_checker, finds_work_groups_that_write_the_same) {
  std::vector<int> out(4);
  EXPECT_TRUE(faults_of(write_of_groups<false>{out.data()}, 4).empty());
  expect_fault(faults_of(write_of_groups<true>{out.data()}, 4), fault_kind::race,
               {"work-item 0 of work-group 0 writes", "work-item 0 of work-group 1 writes 4 bytes of global memory"});
}

TEST(race_checker, finds_a_work_group_that_reads_what_another_writes_in_any_order) {
  std::vector<int> in(1), out(1);
  for (const std::uint32_t order : {0u, 1u, 2u, 3u, 4u, 5u}) {
    expect_fault(faults_of(read_of_another_group{in.data(), out.data()}, 2, {.order = order}), fault_kind::race,
                 {"work-group 0 reads", "work-group 1 writes"});
  }
}

TEST(race_checker, tells_bytes_apart) {
  std::vector<std::uint8_t> bytes(items);
  std::vector<std::uint32_t> words(1);
  EXPECT_TRUE(faults_of(neighbouring_bytes{bytes.data()}).empty());
  expect_fault(faults_of(byte_of_a_word{words.data()}), fault_kind::race, {"work-item 0", "work-item 5"});
}

TEST(race_checker, takes_atomic_accesses_for_races_with_plain_ones_only) {
  int counter = 0, out = 0;
  EXPECT_TRUE(faults_of(count_atomically<true>{&counter, &out}).empty());
  EXPECT_EQ(out, items);
  expect_fault(faults_of(count_atomically<false>{&counter, &out}), fault_kind::race, {"work-item 0 of work-group 0"});
}

TEST(race_checker, finds_barriers_that_not_all_reach) {
  std::vector<int> out(items);
  const auto expect = [](const std::vector<fault>& faults, const std::vector<std::string>& parts) {
    expect_fault(faults, fault_kind::divergence, parts);
  };
  expect(faults_of(barrier_in_a_branch<meeting::half_has_ended>{out.data()}),
         {"32 of them, the first is 0, have ended", "32 of them, the first is 32, wait in a barrier"});
  expect(faults_of(barrier_in_a_branch<meeting::other_barrier>{out.data()}),
         {line_with("How == meeting::other_barrier", "group_barrier"),
          line_with("How == meeting::other_barrier", "of the others")});
  expect(faults_of(barrier_in_a_branch<meeting::sub_group_has_ended>{out.data()}),
         {"wait in reduce_over_group of the sub-group", "have ended"});
  EXPECT_TRUE(faults_of(neighbouring_bytes{std::vector<std::uint8_t>(items).data()}).empty())
      << "it goes on after that";
}

TEST(race_checker, finds_accesses_outside_of_local_memory) {
  std::uint8_t out = 0;
  const auto end = static_cast<std::int64_t>(local_bytes);
  const auto expect = [](const std::vector<fault>& faults, const std::vector<std::string>& parts) {
    expect_fault(faults, fault_kind::outside_of_local_memory, parts);
  };
  expect(faults_of(beyond_local_memory<true>{end, &out}),
         {"work-item 7 of work-group 0 writes 1 bytes at offset 256 of 256 bytes of local memory"});
  expect(faults_of(beyond_local_memory<false>{-1, &out}), {"reads 1 bytes at offset -1 of 256"});
  EXPECT_TRUE(faults_of(beyond_local_memory<true>{end - 1, &out}).empty());
}

TEST(race_checker, finds_local_memory_that_is_read_before_it_is_written) {
  float out = 0;
  expect_fault(faults_of(read_before_written{&out}), fault_kind::unwritten_local_memory,
               {"work-item 0 of work-group 0 reads local memory at offset 128"});
}

TEST(race_checker, lets_a_barrier_of_a_sub_group_order_that_sub_group_alone) {
  std::vector<float> out(items);
  for (const int size : {8, 16, 32, 64}) {
    for (const std::size_t distance : {1u, 4u, 8u, 16u, 32u}) {
      const auto faults = faults_of(exchange_in_sub_group{distance, out.data()}, 1, {.sub_group_size = size});
      EXPECT_EQ(faults.empty(), distance < static_cast<std::size_t>(size)) << size << " " << distance;
    }
  }
}

TEST(race_checker, remembers_readers_of_another_sub_group) {
  float in = 0;
  std::vector<float> out(items);
  expect_fault(faults_of(write_after_reads{&in, out.data()}, 1, {.sub_group_size = 8}), fault_kind::race,
               {"work-item 16 of work-group 0 reads", "work-item 1 of work-group 0 writes"});
  EXPECT_TRUE(faults_of(write_after_reads{&in, out.data()}, 1, {.sub_group_size = 32}).empty());
}

TEST(race_checker, has_the_collectives_of_sub_groups_of_every_size) {
  constexpr int undefined = -1;
  for (const int size : {8, 16, 32, 64}) {
    std::vector<int> out(collectives::results * items);
    EXPECT_TRUE(faults_of(collectives{out.data()}, 1, {.sub_group_size = size, .order = 5}).empty());
    for (int rank = 0; rank < items; ++rank) {
      const int begin = rank / size * size, end = begin + size;
      const auto sum = [](int from, int to) { return (to * (to - 1) - from * (from - 1)) / 2; };
      const std::array<int, collectives::results> expected{sum(begin, end),
                                                           end - 1,
                                                           sum(begin, rank + 1),
                                                           sum(begin, rank),
                                                           begin + 3,
                                                           rank + 1 < end ? rank + 1 : undefined,
                                                           rank - 2 >= begin ? rank - 2 : undefined,
                                                           rank ^ 4,
                                                           begin <= 9 && 9 < end ? 1 : 0,
                                                           begin + 7 - rank % 8};
      for (int what = 0; what < collectives::results; ++what) {
        EXPECT_EQ(out[static_cast<std::size_t>(what * items + rank)], expected[static_cast<std::size_t>(what)])
            << "collective " << what << " of work-item " << rank << " in sub-groups of " << size;
      }
    }
  }
}

TEST(race_checker, shuffles_work_items_and_groups_by_a_seed) {
  const auto order_of = [](std::uint32_t seed) {
    int count = 0;
    std::vector<int> out(3 * items);
    EXPECT_TRUE(faults_of(note_order{&count, out.data()}, 3, {.order = seed}).empty());
    return out;
  };
  std::vector<int> ascending(3 * items);
  std::iota(ascending.begin(), ascending.end(), 0);
  EXPECT_EQ(order_of(0), ascending);
  EXPECT_EQ(order_of(7), order_of(7));
  EXPECT_NE(order_of(7), order_of(8));
  std::vector<int> all = order_of(7);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, ascending);
}

TEST(race_checker, says_the_same_each_time) {
  std::vector<float> out(3 * items);
  const auto text = [&] {
    std::string all;
    for (const fault& one : faults_of(rotate<false>{out.data()}, 3, {.order = 9})) all += one.text + "\n";
    return all;
  };
  EXPECT_EQ(text(), text());
}

}  // namespace
}  // namespace nullscope::races
