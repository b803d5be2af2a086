#include "tests/core/broken_kernel.hpp"
#include "tests/core/context_fixture.hpp"
#include "tests/core/layouts.hpp"

#include <nullscope/linalg/random.hpp>

namespace nullscope::test {
namespace {

class operation_test : public context_fixture {};

INSTANTIATE_TEST_SUITE_P(devices, operation_test, testing::ValuesIn(devices()), device_name);

TEST_P(operation_test, an_operation_inside_another_joins_it) {
  for (context* ctx : {&ctx_, &out_of_order_}) {
    tensor<int> x = rubbish(), y = rubbish();
    const auto outer = [&](context& c) {
      operation op(c, "outer");
      int* mine = op.take<int>(count);
      op.launch(range_, 0, count_from{mine, 4});
      op.launch(range_, 0, slow_increment{mine, slow / 10});
      through_workspace(c, x.data(), 30, slow / 10);
      std::vector<int> now(count);
      queue_.memcpy(now.data(), x.data(), count * sizeof(int)).wait();
      EXPECT_EQ(now, rubbish_) << "nothing runs before the outer one is submitted";
      through_workspace(c, y.data(), 40);
      op.launch(range_, 0, slow_increment{y.data(), fast});
      op.launch(range_, 0, copy_numbers{mine, x.data()});
      return op.submit();
    };
    EXPECT_EQ(required_workspace(*ctx, outer), 64 + 64 + 64) << "both inner ones use the same memory";
    outer(*ctx).wait();
    EXPECT_EQ(x.to_host(), expected(4));
    std::vector<int> expected_y = expected(40);
    for (int& value : expected_y) value = 3 * value + 1;
    EXPECT_EQ(y.to_host(), expected_y);
  }
}

TEST_P(operation_test, steps_beside_each_other_are_both_waited_for) {
  for (context* ctx : {&ctx_, &out_of_order_}) {
    tensor<int> x = rubbish(), y = rubbish(), z = rubbish();
    launch(*ctx, range_, 0, count_from{z.data(), 0}).wait();  // compiles
    operation op(*ctx, "op");
    op.launch(range_, 0, count_from{x.data(), 0});
    op.launch(range_, 0, count_from{y.data(), 0}, step_order::beside);
    op.launch(range_, 0, slow_increment{x.data(), slow});
    op.launch(range_, 0, slow_increment{y.data(), slow / 2}, step_order::beside);
    op.launch(range_, 0, slow_increment{y.data(), slow});
    op.launch(range_, 0, copy_numbers{x.data(), z.data()}, step_order::beside);  // ends first
    op.submit().wait();
    EXPECT_EQ(z.to_host(), expected(0));
    EXPECT_EQ(y.to_host(), (std::vector{4, 13, 22, 31}));
  }
}

// The order of an in-order queue is not enough: kernels use all cores if what follows on the host waits for them.
TEST_P(operation_test, work_on_the_host_is_told_what_it_waits_for) {
  const auto events_named = [](operation& op) {
    std::size_t count = 0;
    op.run([&](sycl::queue&, const events& dependencies) {
      count = dependencies.size();
      return dependencies.empty() ? sycl::event() : dependencies.back();
    });
    op.submit().wait();
    return count;
  };
  for (context* ctx : {&ctx_, &out_of_order_}) {
    tensor<int> x = rubbish();
    operation op(*ctx, "after a kernel of the same operation");
    op.launch(range_, 0, count_from{x.data(), 0});
    EXPECT_EQ(events_named(op), 1U);
  }
  tensor<int> x = rubbish();
  const sycl::event before = launch(ctx_, range_, 0, slow_increment{x.data(), slow});
  operation op(ctx_, "after another operation on an in-order queue");
  EXPECT_EQ(events_named(op), 1U);
  EXPECT_TRUE(is_complete(before));
}

TEST_P(operation_test, an_operation_without_steps_is_complete_when_its_dependencies_are) {
  for (context* ctx : {&ctx_, &out_of_order_}) {
    tensor<int> x = rubbish();
    const sycl::event first = launch(*ctx, range_, 0, slow_increment{x.data(), slow});
    operation(*ctx, "nothing", {first}).submit().wait();
    EXPECT_TRUE(is_complete(first));
  }
}

TEST_P(operation_test, an_operation_abandoned_by_an_exception_runs_nothing_and_leaves_the_context_usable) {
  tensor<int> x = rubbish(), out = rubbish();
  const auto abandoned = [&](context& ctx) {
    operation op(ctx, "abandoned");
    op.take<int>(100);
    op.launch(range_, 0, slow_increment{x.data(), fast});
    throw std::runtime_error("on the way");
  };
  EXPECT_THROW(abandoned(ctx_), std::runtime_error);
  queue_.wait();
  EXPECT_EQ(x.to_host(), rubbish_);
  through_workspace(ctx_, out.data(), 6);
  EXPECT_EQ(out.to_host(), expected(6));

  operation outer(ctx_, "outer");  // which takes another way
  EXPECT_THROW(abandoned(ctx_), std::runtime_error);
  through_workspace(ctx_, out.data(), 7);
  outer.submit().wait();
  EXPECT_EQ(out.to_host(), expected(7));
  EXPECT_EQ(x.to_host(), rubbish_);
}

TEST_P(operation_test, an_error_between_two_launches_waits_for_what_runs) {
  for (context* ctx : {&ctx_, &out_of_order_}) {
    tensor<int> x = rubbish();
    launch(*ctx, range_, 0, slow_increment{x.data(), fast}).wait();  // compiles
    sycl::event running;
    const auto fails = [&] {
      operation op(*ctx, "fails");
      op.launch(range_, 0, slow_increment{x.data(), slow});
      op.run([&](sycl::queue&, const events& dependencies) -> sycl::event {
        if (!dependencies.empty()) running = dependencies.front();
        throw std::runtime_error("the runtime fails");
      });
      op.submit();
    };
    EXPECT_THROW(fails(), std::runtime_error);
    EXPECT_TRUE(is_complete(running));
    EXPECT_EQ(x.to_host(), std::vector<int>(count, (-77 * 3 + 1) * 3 + 1)) << "it has run to its end";
    through_workspace(*ctx, x.data(), 8).wait();
    EXPECT_EQ(x.to_host(), expected(8));
  }
}

// --- kernels that do not compile ---

#ifndef NULLSCOPE_SINGLE_SOURCE
TEST_P(operation_test, a_kernel_that_does_not_compile_leaves_nothing_running_and_nothing_written) {
  tensor<int> x = rubbish(), out = rubbish();
  const auto broken = [&] {
    operation op(ctx_, "broken");
    op.launch(range_, 0, slow_increment{x.data(), slow});
    through_workspace(ctx_, out.data(), 1, slow);
    op.launch(range_, 0, broken_kernel<int>{x.data()});
    op.launch(range_, 0, count_from{x.data(), 1});
    op.submit();
  };
  const std::string message = message_of<compilation_error>(broken);
  EXPECT_NE(message.find("broken_kernel<int>"), std::string::npos) << message;
  queue_.wait();
  EXPECT_EQ(x.to_host(), rubbish_);
  EXPECT_EQ(out.to_host(), rubbish_);
  through_workspace(ctx_, out.data(), 9);
  EXPECT_EQ(out.to_host(), expected(9));
}

TEST_P(operation_test, a_functor_that_the_two_compilers_lay_out_differently_does_not_compile) {
  tensor<int> x = rubbish();
  for (const std::string& message : {
           message_of<compilation_error>([&] { launch(ctx_, range_, 0, two_layouts{x.data()}); }),
           message_of<compilation_error>([&] {
             launch(ctx_, range_, 0, two_alignments{x.data(), x.data()});
           }),
       }) {
    EXPECT_NE(message.find("lays out this kernel differently"), std::string::npos) << message;
  }
  queue_.wait();
  EXPECT_EQ(x.to_host(), rubbish_);
}

TEST_P(operation_test, a_users_header_with_the_name_of_one_of_the_librarys_replaces_nothing) {
  std::vector<kernel_header> headers;
  for (const char* name :
       {"fill_random.hpp", "linalg/fill_random.hpp", "kernels/linalg/fill_random.hpp", "philox.hpp",
        "kernels/simd/philox.hpp", "row.hpp", "kernels/linalg/row.hpp", "nullscope/core/view.hpp", "cstddef", "new"}) {
    headers.push_back({name, "#error the user's\n"});
  }
  add_kernel_headers(headers);
  for (const lane_layout& layout : row_layouts(GetParam())) {  // some that were not compiled yet
    context ctx(queue_, layout);
    tensor<float> x(ctx, {3});
    fill_uniform(ctx, x.as<1>(), {.seed = 1}).wait();
    EXPECT_EQ(x.to_host()[2], uniform_at<float>({.seed = 1}, 2)) << name_of(layout);
  }
}

TEST_P(operation_test, a_kernel_header_cannot_be_changed) {
  add_kernel_headers({{"changed/once.hpp", "// first"}});
  add_kernel_headers({{"changed/once.hpp", "// first"}});
  EXPECT_EQ(message_of<invalid_argument>([&] {
              add_kernel_headers({{"changed/twice.hpp", "// first"}, {"changed/once.hpp", "// second"}});
            }),
            "add_kernel_headers: changed/once.hpp is known already, with another text");
  EXPECT_NO_THROW(add_kernel_headers({{"changed/twice.hpp", "// second"}})) << "of that call nothing was added";
  EXPECT_THROW(add_kernel_headers({{"changed/here.hpp", "// first"}, {"changed/here.hpp", "// second"}}),
               invalid_argument)
      << "two texts in one call";
}
#endif

}  // namespace
}  // namespace nullscope::test
