/// The memory behind a workspace, on a device whose largest allocation is small.
#include "lib/src/core/workspace.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <nullscope/core/errors.hpp>

namespace nullscope::test {
namespace {

constexpr std::int64_t kib = 1024, largest = 1024 * kib;

class workspace_test : public testing::Test {
 protected:
  /// Memory of the host that comes in pieces of at most `largest`, and what the device says about that.
  detail::block_source source(std::int64_t said) {
    const auto allocate = [this](std::int64_t bytes) {
      if (bytes > largest) throw device_bad_alloc("more than the largest allocation");
      ++allocations_;
      return static_cast<std::byte*>(std::aligned_alloc(64, static_cast<std::size_t>(bytes)));
    };
    const auto free = [](std::byte* memory) { std::free(memory); };
    return {allocate, free, said};
  }

  /// What an operation does that takes parts of these sizes. Returns where they are.
  static std::vector<std::byte*> take(detail::workspace& from, const std::vector<std::int64_t>& sizes) {
    from.reset_peak();
    if (from.is_scattered()) from.consolidate();
    std::vector<std::byte*> parts;
    for (const std::int64_t bytes : sizes) parts.push_back(from.take(bytes));
    from.release(0);
    return parts;
  }

  int allocations_ = 0;
};

TEST_F(workspace_test, two_arrays_that_no_allocation_holds_stay_apart) {
  detail::workspace memory(source(largest));
  const std::vector<std::int64_t> sizes{640 * kib, 640 * kib};
  const std::vector<std::byte*> first = take(memory, sizes);
  EXPECT_FALSE(memory.is_scattered()) << "nothing to wait for at the next call";
  for (int call = 0; call < 4; ++call) EXPECT_EQ(take(memory, sizes), first);
  EXPECT_EQ(allocations_, 2);
  EXPECT_EQ(memory.allocated_bytes(), 1280 * kib);
}

TEST_F(workspace_test, neighbours_become_one_as_far_as_one_allocation_holds_them) {
  detail::workspace memory(source(largest));
  const std::vector<std::int64_t> sizes{300 * kib, 310 * kib, 320 * kib, 800 * kib, 330 * kib};
  take(memory, sizes);
  EXPECT_EQ(allocations_, 5);
  const std::vector<std::byte*> parts = take(memory, sizes);
  EXPECT_EQ(allocations_, 6) << "the first three became one";
  EXPECT_EQ(parts[1] - parts[0], 300 * kib);
  EXPECT_EQ(parts[2] - parts[1], 310 * kib);
  EXPECT_EQ(take(memory, sizes), parts);
  EXPECT_EQ(take(memory, {largest / 2}).size(), 1u);
  EXPECT_EQ(allocations_, 6);
}

TEST_F(workspace_test, memory_that_the_device_refuses_is_allocated_on_demand) {
  detail::workspace memory(source(100 * largest));  // says more than it has
  const std::vector<std::int64_t> sizes{640 * kib, 640 * kib};
  take(memory, sizes);
  EXPECT_TRUE(memory.is_scattered());
  EXPECT_NO_THROW(take(memory, sizes));
  EXPECT_FALSE(memory.is_scattered()) << "that is not tried again";
  const int allocations = allocations_;
  EXPECT_NO_THROW(take(memory, sizes));
  EXPECT_EQ(allocations_, allocations);
  EXPECT_THROW(take(memory, {2 * largest}), device_bad_alloc);
}

}  // namespace
}  // namespace nullscope::test
