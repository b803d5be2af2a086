#include "lib/src/core/kernel_arguments.hpp"

#include <future>
#include <numeric>

#include "tests/core/context_fixture.hpp"

#ifndef NULLSCOPE_SINGLE_SOURCE

namespace nullscope::test {
namespace {

class kernel_arguments_test : public context_fixture {
 protected:
  using arguments = detail::kernel_arguments;

  static arguments::sent_functors send(arguments& to, const std::vector<std::vector<std::byte>>& functors) {
    return to.send(std::vector<std::span<const std::byte>>(functors.begin(), functors.end()));
  }

  std::vector<std::byte> on_device(const std::byte* address, std::size_t count) {
    std::vector<std::byte> bytes(count);
    queue_.memcpy(bytes.data(), address, count).wait();
    return bytes;
  }

  /// An event that is complete when `promise` is kept.
  static sycl::event until(std::promise<void>& promise, sycl::queue queue) {
    return queue.submit([&](sycl::handler& handler) { handler.host_task([&] { promise.get_future().wait(); }); });
  }
};

INSTANTIATE_TEST_SUITE_P(devices, kernel_arguments_test, testing::ValuesIn(devices()), device_name);

std::vector<std::byte> bytes_of(std::size_t count, int value) { return {count, std::byte(value)}; }

TEST_P(kernel_arguments_test, functors_arrive_aligned_and_whole) {
  arguments to(queue_);
  const std::vector<std::vector<std::byte>> functors{bytes_of(1, 7), bytes_of(64, 8), bytes_of(65, 9), bytes_of(9, 1)};
  const auto sent = send(to, functors);
  sycl::event::wait(sent.copied);
  ASSERT_EQ(sent.addresses.size(), functors.size());
  for (std::size_t i = 0; i < functors.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(sent.addresses[i]) % arguments::alignment, 0u);
    EXPECT_EQ(on_device(sent.addresses[i], functors[i].size()), functors[i]);
  }
}

TEST_P(kernel_arguments_test, a_block_is_used_again_when_its_operation_is_complete_and_not_before) {
  arguments to(queue_);
  std::promise<void> first_ends, second_ends;
  const auto first = send(to, {bytes_of(100, 1)});
  const sycl::event first_use = until(first_ends, sycl::queue(GetParam()));
  to.use_until(first.block, first_use);
  const auto second = send(to, {bytes_of(100, 2)});
  const sycl::event second_use = until(second_ends, sycl::queue(GetParam()));
  to.use_until(second.block, second_use);
  EXPECT_NE(second.addresses, first.addresses);
  EXPECT_EQ(on_device(first.addresses[0], 100), bytes_of(100, 1));
  first_ends.set_value();
  sycl::event(first_use).wait();
  const auto third = send(to, {bytes_of(100, 3)});
  EXPECT_EQ(third.addresses, first.addresses);
  to.use_until(third.block, sycl::event());
  EXPECT_EQ(on_device(second.addresses[0], 100), bytes_of(100, 2)) << "still in use";
  second_ends.set_value();
}

TEST_P(kernel_arguments_test, a_block_that_is_too_small_grows) {
  arguments to(queue_);
  to.use_until(send(to, {bytes_of(10, 1)}).block, sycl::event());
  const std::vector<std::byte> large = bytes_of(1 << 20, 5);
  const auto sent = send(to, {bytes_of(3, 4), large});
  sycl::event::wait(sent.copied);
  EXPECT_EQ(on_device(sent.addresses[1], large.size()), large);
}

/// Every operation has its own functors until its last kernel has ended, however many are under way.
TEST_P(kernel_arguments_test, many_operations_under_way_keep_their_functors) {
  constexpr int operations = 40;
  for (context* ctx : {&ctx_, &out_of_order_}) {
    std::vector<tensor<int>> out;
    for (int i = 0; i < operations; ++i) out.push_back(rubbish());
    launch(*ctx, range_, 0, slow_increment{out[0].data(), slow});
    events under_way;
    for (int i = 0; i < operations; ++i) {
      operation op(*ctx, "op");
      op.launch(range_, 0, slow_increment{out[static_cast<std::size_t>(i)].data(), slow / 20});
      op.launch(range_, 0, count_from{out[static_cast<std::size_t>(i)].data(), 1000 * i});
      under_way.push_back(op.submit());
    }
    sycl::event::wait(under_way);
    for (int i = 0; i < operations; ++i) {
      std::vector<int> expected(count);
      std::iota(expected.begin(), expected.end(), 1000 * i);
      EXPECT_EQ(out[static_cast<std::size_t>(i)].to_host(), expected);
    }
  }
}

}  // namespace
}  // namespace nullscope::test

#endif
