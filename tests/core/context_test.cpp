#include <fmt/format.h>

#include <nullscope/linalg/random.hpp>
#include <thread>

#include "tests/core/context_fixture.hpp"
#include "tests/core/layouts.hpp"

namespace nullscope::test {
namespace {

class context_test : public context_fixture {};

INSTANTIATE_TEST_SUITE_P(devices, context_test, testing::ValuesIn(devices()), device_name);

TEST_P(context_test, of_a_device_has_an_in_order_queue_and_the_devices_layout) {
  const context ctx(GetParam());
  EXPECT_TRUE(ctx.queue().is_in_order());
  EXPECT_EQ(ctx.queue().get_device(), GetParam());
  EXPECT_EQ(&ctx.device(), &properties(GetParam()));
  EXPECT_EQ(ctx.layout(), lane_layout::of(properties(GetParam())));
  for (const lane_layout& other : row_layouts(GetParam())) EXPECT_EQ(context(queue_, other).layout(), other);
}

TEST_P(context_test, refuses_layouts_that_there_are_no_kernels_for) {
  lane_layout odd = lane_layout::vectors(properties(GetParam()), 16), mixed = lane_layout::work_items(ctx_.device());
  mixed.long_vector_bytes = 64;
  EXPECT_THROW(context(queue_, odd), unsupported_device);
  EXPECT_THROW(context(queue_, mixed), unsupported_device);
  odd.vector_bytes = odd.long_vector_bytes = 128;
  const std::string message = message_of<unsupported_device>([&] { context(queue_, odd); });
  EXPECT_NE(message.find("vectors of 128 bytes"), std::string::npos) << message;
}

// --- workspace ---

TEST_P(context_test, workspace_grows_on_demand_and_becomes_one_block_again) {
  constexpr std::int64_t small = 100'000, large = 1'000'000;  // bytes, not multiples of 64
  tensor<int> out = rubbish();
  EXPECT_EQ(ctx_.workspace_bytes(), 0);
  const auto grow = [&](std::byte*& first, std::byte*& second) {
    operation op(ctx_, "grow");
    first = op.take<std::byte>(small);
    op.launch(range_, 0, count_from{reinterpret_cast<int*>(first), 5});
    second = op.take<std::byte>(large);  // the first part stays where it is
    op.launch(range_, 0, slow_increment{reinterpret_cast<int*>(first), fast});
    op.launch(range_, 0, copy_numbers{reinterpret_cast<int*>(first), out.data()});
    op.submit().wait();
    EXPECT_EQ(out.to_host(), expected(5));
  };
  std::byte *first = nullptr, *second = nullptr;
  grow(first, second);
  EXPECT_GE(ctx_.workspace_bytes(), small + large);
  grow(first, second);
  EXPECT_EQ(second - first, (small + 63) / 64 * 64) << "one block now";
  const std::int64_t bytes = ctx_.workspace_bytes();
  EXPECT_GE(bytes, small + large);
  EXPECT_LT(bytes, 2 * (small + large));
  std::byte *first_again = nullptr, *second_again = nullptr;
  grow(first_again, second_again);
  EXPECT_EQ(first_again, first);
  EXPECT_EQ(second_again, second);
  EXPECT_EQ(ctx_.workspace_bytes(), bytes) << "it has grown enough";
  ctx_.release_workspace();
  EXPECT_EQ(ctx_.workspace_bytes(), 0);
  grow(first, second);
}

TEST_P(context_test, workspace_is_aligned_to_64_bytes_and_given_back_in_order) {
  operation outer(ctx_, "outer");
  const auto address = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  const std::uintptr_t a = address(outer.take<char>(1)), b = address(outer.take<char>(65));
  EXPECT_EQ(a % 64, 0u);
  EXPECT_EQ(b - a, 64u);
  std::uintptr_t c = 0;
  {
    operation inner(ctx_, "inner");
    c = address(inner.take<double>(1));
    EXPECT_EQ(c - b, 128u);
    inner.submit();
  }
  EXPECT_EQ(address(outer.take<char>(1)), c) << "free again when the inner operation ends";
  const auto array = outer.take_array<float>(2, 3, 5);
  EXPECT_EQ(array.size(), 30);
  EXPECT_EQ(array.stride[0], 15);
}

TEST_P(context_test, refuses_workspace_of_impossible_sizes) {
  operation op(ctx_, "op");
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(message_of<invalid_argument>([&] { op.take<double>(huge << 21); }),
            "op: 2305843009213693952 elements of 8 bytes of workspace are no possible size");
  EXPECT_THROW(op.take<double>(-1), invalid_argument);
  EXPECT_EQ(message_of<invalid_argument>([&] { op.take_array<float>(huge, huge); }),
            "op: the workspace is too large for 64-bit sizes");
  EXPECT_THROW(op.take<float>(huge << 10), device_bad_alloc);
  EXPECT_NO_THROW(op.take<float>(0));
  EXPECT_NO_THROW(op.take<float>(10)) << "still usable";
}

TEST_P(context_test, bytes_of_required_workspace_suffice_wherever_they_begin) {
  tensor<int> out = rubbish();
  const auto pipeline = [&](context& ctx) { through_workspace(ctx, out.data(), 3, fast, 1001); };
  const std::int64_t needed = required_workspace(ctx_, pipeline);
  EXPECT_GE(needed, 1001 * 4);
  constexpr std::byte guard{0x5a};
  tensor<std::byte> memory(queue_, {needed + 64 + 64}, std::vector(static_cast<std::size_t>(needed + 128), guard));
  for (const std::size_t offset : {0, 1, 4, 63}) {
    ctx_.use_workspace(memory.span().subspan(offset, static_cast<std::size_t>(needed)));
    pipeline(ctx_);
    EXPECT_EQ(out.to_host(), expected(3)) << offset;
    out.copy_from(rubbish_);
  }
  const std::vector<std::byte> after = memory.to_host();
  EXPECT_EQ(std::vector(after.end() - 65, after.end()), std::vector(65, guard)) << "bytes behind the workspace";
  EXPECT_EQ(ctx_.workspace_bytes(), 0) << "nothing was allocated";
  ctx_.use_workspace({});
  pipeline(ctx_);
  EXPECT_EQ(out.to_host(), expected(3));
  EXPECT_GT(ctx_.workspace_bytes(), 0);
}

TEST_P(context_test, says_how_many_bytes_are_needed_if_the_workspace_is_too_small) {
  tensor<int> out = rubbish();
  const auto pipeline = [&](context& ctx) { through_workspace(ctx, out.data(), 3, fast, 1000); };
  const std::int64_t needed = required_workspace(ctx_, pipeline);
  const std::vector<std::byte> before(static_cast<std::size_t>(needed), std::byte{0x5a});
  tensor<std::byte> memory(queue_, {needed}, before);
  for (const std::int64_t bytes : {std::int64_t{1}, needed / 2, needed - 65}) {  // 64 of them may be lost to alignment
    ctx_.use_workspace(memory.span().subspan(0, static_cast<std::size_t>(bytes)));
    EXPECT_EQ(message_of<invalid_argument>([&] { pipeline(ctx_); }),
              fmt::format("through_workspace: the workspace is too small, {} bytes are needed", needed));
  }
  queue_.wait();
  EXPECT_EQ(out.to_host(), rubbish_);
  EXPECT_EQ(memory.to_host(), before);
  ctx_.use_workspace(memory.span());
  pipeline(ctx_);
  EXPECT_EQ(out.to_host(), expected(3)) << "the next call has enough";
}

TEST_P(context_test, calls_that_share_the_workspace_run_one_after_the_other_on_an_out_of_order_queue) {
  tensor<int> first = rubbish(), second = rubbish();
  through_workspace(out_of_order_, first.data(), 1).wait();  // compiles
  through_workspace(out_of_order_, second.data(), 10).wait();
  first.copy_from(rubbish_);
  const sycl::event a = through_workspace(out_of_order_, first.data(), 1, slow);
  sycl::event b = through_workspace(out_of_order_, second.data(), 10);
  b.wait();
  EXPECT_TRUE(is_complete(a));
  EXPECT_EQ(first.to_host(), expected(1));
  EXPECT_EQ(second.to_host(), expected(10));
}

TEST_P(context_test, waits_for_its_workspace_before_it_is_freed) {
  tensor<int> out = rubbish();
  sycl::event last;
  {
    context ctx{sycl::queue(GetParam())};
    last = through_workspace(ctx, out.data(), 1, slow);
  }
  EXPECT_TRUE(is_complete(last)) << "at the end of the context";
  last = through_workspace(out_of_order_, out.data(), 1, slow);
  out_of_order_.release_workspace();
  EXPECT_TRUE(is_complete(last)) << "release_workspace";
  last = through_workspace(out_of_order_, out.data(), 1, slow, 100'000);  // a second block
  last = through_workspace(out_of_order_, out.data(), 2, slow, 200'000);
  through_workspace(out_of_order_, out.data(), 3).wait();  // becomes one
  EXPECT_TRUE(is_complete(last)) << "consolidation";
  EXPECT_EQ(out.to_host(), expected(3));
}

// --- dry runs ---

TEST_P(context_test, a_dry_run_launches_nothing_and_lists_kernels_once_in_their_order) {
  tensor<int> out = rubbish();
  bool has_run = false;
  const pipeline_needs needs = dry_run(ctx_, [&](context& ctx) {
    launch(ctx, range_, 0, slow_increment{out.data(), fast});
    through_workspace(ctx, out.data(), 20);
    through_workspace(ctx, out.data(), 20, fast, 1000);
    operation op(ctx, "memcpy");
    op.run([&](sycl::queue& queue, const events& dependencies) {
      has_run = true;
      return queue.memset(out.data(), 0, 4, dependencies);
    });
    op.submit();
  });
  queue_.wait();
  EXPECT_FALSE(has_run);
  EXPECT_EQ(out.to_host(), rubbish_);
  EXPECT_EQ(ctx_.workspace_bytes(), 0);
  const std::vector<const detail::kernel_description*> kernels{
      &detail::description<slow_increment>, &detail::description<count_from>, &detail::description<copy_numbers>};
  EXPECT_EQ(needs.kernels, kernels);
  EXPECT_EQ(needs.launches, 8) << "one, three of each call through workspace, and the last";
  EXPECT_GE(needs.workspace_bytes, 4000) << "the largest of the calls";
  EXPECT_LE(needs.workspace_bytes, 4000 + 128) << "not their sum";
  through_workspace(ctx_, out.data(), 20);
  EXPECT_EQ(out.to_host(), expected(20)) << "afterwards calls run again";
}

TEST_P(context_test, a_dry_run_that_fails_leaves_the_context_usable) {
  tensor<int> out = rubbish();
  EXPECT_THROW(required_workspace(ctx_,
                                  [&](context& ctx) {
                                    operation op(ctx, "op");
                                    op.take<int>(1000);
                                    fill_uniform(ctx, view<float, 1>{nullptr, {4}, {1}}, {});
                                  }),
               invalid_argument);
  through_workspace(ctx_, out.data(), 2);
  EXPECT_EQ(out.to_host(), expected(2));
}

TEST_P(context_test, what_a_dry_run_counts_is_never_allocated) {
  tensor<int> out = rubbish();
  constexpr std::int64_t huge = std::int64_t{1} << 44;
  EXPECT_GE(required_workspace(ctx_, [&](context& ctx) { through_workspace(ctx, out.data(), 2, fast, huge); }), huge);
  for (const std::int64_t elements : {10, 20'000, 40'000, 10}) {  // blocks that become one
    through_workspace(ctx_, out.data(), 2, fast, elements);
    EXPECT_EQ(out.to_host(), expected(2));
    EXPECT_LT(ctx_.workspace_bytes(), 1'000'000);
  }
}

TEST_P(context_test, functions_that_wait_cannot_be_part_of_a_dry_run_or_of_another_operation) {
  tensor<int> out = rubbish();
  const auto waits = [&](context& ctx) {
    operation op(ctx, "waits");
    op.launch(range_, 0, slow_increment{out.data(), fast});
    op.submit_and_wait();
  };
  EXPECT_EQ(message_of<invalid_argument>([&] { dry_run(ctx_, waits); }).find("waits: "), 0u);
  {
    operation outer(ctx_, "outer");
    EXPECT_THROW(waits(ctx_), invalid_argument);
  }
  queue_.wait();
  EXPECT_EQ(out.to_host(), rubbish_);
  waits(ctx_);
  EXPECT_EQ(out.to_host(), std::vector<int>(count, -77 * 3 + 1));
}

// --- more than one context ---

TEST_P(context_test, moves_with_its_workspace) {
  tensor<int> out = rubbish();
  through_workspace(ctx_, out.data(), 1);
  const std::int64_t bytes = ctx_.workspace_bytes();
  context moved = std::move(ctx_);
  EXPECT_EQ(moved.workspace_bytes(), bytes);
  through_workspace(moved, out.data(), 2);
  EXPECT_EQ(out.to_host(), expected(2));
  context other{sycl::queue(GetParam())};
  sycl::event last = through_workspace(other, out.data(), 3, slow);
  other = std::move(moved);
  EXPECT_TRUE(is_complete(last)) << "what used the workspace that is gone";
  EXPECT_EQ(out.to_host(), expected(3));
  through_workspace(other, out.data(), 4);
  EXPECT_EQ(out.to_host(), expected(4));
}

TEST_P(context_test, different_contexts_may_be_used_by_different_threads) {
  const auto work = [&](int first) {
    context ctx(queue_);  // on one queue
    tensor<int> out(ctx, {count});
    for (int i = 0; i < 50; ++i) {
      through_workspace(ctx, out.data(), first, 1000 * (i % 3), 10 + 1000 * i).wait();
      ASSERT_EQ(out.to_host(), expected(first)) << i;
    }
  };
  const std::jthread first([&] { work(50); });
  const std::jthread second([&] { work(60); });
}

}  // namespace
}  // namespace nullscope::test
