/// What nobody may ask for while an operation is open: nothing of it has run.
#include <optional>
#include <thread>

#include "tests/core/context_fixture.hpp"

namespace nullscope::test {
namespace {

class open_operation_test : public context_fixture {};

INSTANTIATE_TEST_SUITE_P(devices, open_operation_test, testing::ValuesIn(devices()), device_name);

TEST_P(open_operation_test, nobody_reads_what_it_will_write) {
  for (context* ctx : {&ctx_, &out_of_order_}) {
    tensor<int> x(*ctx, {count}, rubbish_), of_another_queue = rubbish();
    operation op(*ctx, "count up");
    op.launch(range_, 0, count_from{x.data(), 4});
    EXPECT_EQ(message_of<invalid_argument>([&] { x.to_host(); }),
              "tensor::to_host: nothing of the operation count up has run yet; submit it and wait for it first");
    EXPECT_THROW(of_another_queue.to_host(), invalid_argument) << "its kernels can write there, too";
    through_workspace(*ctx, of_another_queue.data(), 1);
    EXPECT_THROW(of_another_queue.to_host(), invalid_argument);
    const tensor<int> made_meanwhile(*ctx, {count}, rubbish_);
    std::jthread([&] { EXPECT_EQ(made_meanwhile.to_host(), rubbish_); });  // with nothing of its own open
    op.submit().wait();
    EXPECT_EQ(x.to_host(), (std::vector{4, 5, 6, 7}));
    EXPECT_EQ(of_another_queue.to_host(), expected(1));
  }
  tensor<int> x = rubbish();
  {
    const operation abandoned(ctx_, "abandoned");
    EXPECT_THROW(x.to_host(), invalid_argument);
  }
  EXPECT_EQ(x.to_host(), rubbish_);
}

TEST_P(open_operation_test, the_event_of_a_call_inside_is_good_for_that_operation_only) {
  tensor<int> x = rubbish(), y = rubbish();
  sycl::event nested;
  {
    operation op(out_of_order_, "outer");
    nested = through_workspace(out_of_order_, x.data(), 1);
    launch(out_of_order_, range_, 0, slow_increment{x.data(), fast}, {nested});
    EXPECT_EQ(
        message_of<invalid_argument>([&] {
          launch(ctx_, range_, 0, copy_numbers{x.data(), y.data()}, {nested});
        }),
        "launch: a dependency is the event of a call inside an operation, which stands for nothing outside of it; "
        "wait for the event of that operation instead");
    op.submit().wait();
  }
  EXPECT_THROW(launch(out_of_order_, range_, 0, count_from{x.data(), 0}, {sycl::event(), nested}), invalid_argument);
  queue_.wait();
  std::vector<int> expected_x = expected(1);
  for (int& value : expected_x) value = 3 * value + 1;
  EXPECT_EQ(x.to_host(), expected_x);
  EXPECT_EQ(y.to_host(), rubbish_);
  launch(ctx_, range_, 0, copy_numbers{x.data(), y.data()}, {sycl::event()})
      .wait();  // any other event without a command
  EXPECT_EQ(y.to_host(), expected_x);
}

TEST_P(open_operation_test, ends_when_it_is_submitted) {
  for (context* ctx : {&ctx_, &out_of_order_}) {
    tensor<int> x = rubbish(), y = rubbish();
    operation op(*ctx, "first");
    int* mine = op.take<int>(count);
    op.launch(range_, 0, count_from{mine, 1});
    op.launch(range_, 0, copy_numbers{mine, x.data()});
    const sycl::event first = op.submit();
    through_workspace(*ctx, y.data(), 2, fast, 100'000).wait();  // a call of its own, although `op` is still there
    EXPECT_EQ(y.to_host(), expected(2));
    EXPECT_EQ(message_of<invalid_argument>([&] {
                op.launch(range_, 0, count_from{x.data(), 0});
              }),
              "first: the operation has been submitted");
    EXPECT_THROW(op.take<int>(1), invalid_argument);
    EXPECT_THROW(op.submit(), invalid_argument);
    sycl::event(first).wait();
    EXPECT_EQ(x.to_host(), (std::vector{1, 2, 3, 4}));
  }
}

TEST_P(open_operation_test, who_keeps_an_event_gets_that_of_the_outermost_operation) {
  tensor<int> x = rubbish();
  std::optional<sycl::event> kept, of_abandoned;
  const auto inner = [&](std::optional<sycl::event>& to, int rounds, bool fails) {
    operation op(out_of_order_, "inner");
    op.launch(range_, 0, slow_increment{x.data(), rounds});
    op.when_submitted([&](const sycl::event& event) { to = event; });
    if (fails) throw std::runtime_error("on the way");
    return op.submit();
  };
  inner(kept, fast, false).wait();
  ASSERT_TRUE(kept.has_value());
  kept.reset();
  required_workspace(out_of_order_, [&](context&) { inner(kept, fast, false); });
  EXPECT_FALSE(kept.has_value()) << "a dry run submits nothing";
  operation outer(out_of_order_, "outer");
  EXPECT_THROW(inner(of_abandoned, fast, true), std::runtime_error);
  inner(kept, slow, false);
  EXPECT_FALSE(kept.has_value());
  const sycl::event last = outer.submit();
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(*kept, last);
  EXPECT_FALSE(of_abandoned.has_value());
  kept->wait();
  EXPECT_EQ(x.to_host(), std::vector<int>(count, (-77 * 3 + 1) * 3 + 1));
}

}  // namespace
}  // namespace nullscope::test
