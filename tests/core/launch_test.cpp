#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <thread>

#include "lib/src/core/context_state.hpp"
#include "tests/cli/command.hpp"
#include "tests/core/broken_kernel.hpp"
#include "tests/core/support.hpp"
#include "tests/core/test_kernels.hpp"
#include "tests/core/unknown_kernel.hpp"

namespace nullscope {

#ifndef NULLSCOPE_SINGLE_SOURCE
std::vector<kernel_header> test_kernel_headers();  // written by the build
#endif

namespace test {
namespace {

class launch_test : public device_test {
 protected:
  static void SetUpTestSuite() {
#ifndef NULLSCOPE_SINGLE_SOURCE
    add_kernel_headers(test_kernel_headers());
#endif
  }

  template <int Offset, bool Negate>
  std::vector<int> run_iota() {
    tensor<int> out(ctx_, {8});
    launch(ctx_, sycl::nd_range<1>{8, 4}, 0, iota<Offset, Negate>{out.data()}).wait();
    return out.to_host();
  }

  template <int Words>
  void check_functor_size() {
    tensor<std::int64_t> out(queue_, {4});
    sum_of_members<Words> kernel{out.data(), 5, {}};
    std::int64_t expected = 5;
    for (int i = 0; i < Words; ++i) {
      kernel.word[i] = i * i - 7;
      expected += static_cast<std::int64_t>(kernel.word[i]) * (i + 1);
    }
    launch(ctx_, sycl::nd_range<1>{4, 2}, 0, kernel).wait();
    EXPECT_EQ(out.to_host(), std::vector<std::int64_t>(4, expected)) << sizeof(kernel) << " bytes";
  }
};

INSTANTIATE_TEST_SUITE_P(devices, launch_test, testing::ValuesIn(devices()), device_name);

TEST_P(launch_test, takes_negative_and_bool_template_arguments) {
  EXPECT_EQ((run_iota<-3, false>()), (std::vector{-3, -2, -1, 0, 1, 2, 3, 4}));
  EXPECT_EQ((run_iota<-3, true>()), (std::vector{3, 2, 1, 0, -1, -2, -3, -4}));
  EXPECT_EQ((run_iota<7, false>()), (std::vector{7, 8, 9, 10, 11, 12, 13, 14}));
}

TEST_P(launch_test, takes_names_with_nested_templates) {
  const std::vector<float> numbers{1, -2, 0.5, 3};
  tensor<float> x(queue_, {4}, numbers);
  launch(ctx_, sycl::nd_range<1>{4, 4}, 0, transform<compose<twice, float>, float>{x.data()}).wait();
  EXPECT_EQ(x.to_host(), (std::vector<float>{4, -8, 2, 12}));
}

TEST_P(launch_test, passes_functors_of_every_size) {
  check_functor_size<1>();
  check_functor_size<2>();
  check_functor_size<5>();
  check_functor_size<16>();
  check_functor_size<31>();
  check_functor_size<64>();
  check_functor_size<125>();
}

TEST_P(launch_test, gives_each_work_group_local_memory_aligned_to_64_bytes) {
  for (const std::size_t group : {1, 3, 16, 32}) {
    const std::size_t groups = 5, n = groups * group;
    std::vector<int> numbers(n);
    for (std::size_t i = 0; i < n; ++i) numbers[i] = static_cast<int>(i);
    tensor<int> x(ctx_, {static_cast<std::int64_t>(n)}, numbers), out(queue_, {static_cast<std::int64_t>(n)});
    tensor<std::uint64_t> misalignment(queue_, {static_cast<std::int64_t>(groups)});
    launch(ctx_, sycl::nd_range<1>{n, group}, group * sizeof(int),
           reverse_blocks{x.data(), out.data(), misalignment.data()})
        .wait();
    const std::vector<int> got = out.to_host();
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(got[i], static_cast<int>(i / group * group + group - 1 - i % group)) << "group of " << group;
    }
    EXPECT_EQ(misalignment.to_host(), std::vector<std::uint64_t>(groups, 0)) << "group of " << group;
  }
}

TEST_P(launch_test, honours_the_sub_group_size_that_a_kernel_asks_for) {
  const auto& sizes = properties(GetParam()).sub_group_sizes;
  tensor<int> out(ctx_, {32});
  const auto check = [&]<int Size>(std::integral_constant<int, Size>) {
    if (std::find(sizes.begin(), sizes.end(), Size) == sizes.end()) return 0;
    launch(ctx_, sycl::nd_range<1>{32, 32}, 0, note_sub_group_size<Size>{out.data()}).wait();
    EXPECT_EQ(out.to_host(), std::vector<int>(32, Size));
    return 1;
  };
  const int checked = check(std::integral_constant<int, 8>{}) + check(std::integral_constant<int, 16>{}) +
                      check(std::integral_constant<int, 32>{});
  if (checked == 0) GTEST_SKIP() << "the device offers none of 8, 16, 32";
}

TEST_P(launch_test, takes_the_smallest_sub_group_from_8_on_where_a_kernel_wants_registers) {
#ifdef NULLSCOPE_SINGLE_SOURCE
  GTEST_SKIP() << "the compiler chooses";
#endif
  std::vector<std::int64_t> sizes = properties(GetParam()).sub_group_sizes;
  std::erase_if(sizes, [](std::int64_t size) { return size < 8; });
  if (sizes.empty()) GTEST_SKIP() << "the device has smaller ones only";
  tensor<int> out(ctx_, {32});
  launch(ctx_, sycl::nd_range<1>{32, 32}, 0, note_sub_group_size<-1>{out.data()}).wait();
  EXPECT_EQ(out.to_host(), std::vector<int>(32, static_cast<int>(std::ranges::min(sizes))));
}

TEST_P(launch_test, runs_nothing_for_an_empty_range_but_waits_for_its_dependencies) {
  for (sycl::queue queue : {sycl::queue(GetParam()), sycl::queue(GetParam(), sycl::property::queue::in_order{})}) {
    tensor<int> x(ctx_, {4}, std::vector<int>{1, 2, 3, 4});
    context ctx(queue);
    sycl::event first = launch(ctx, sycl::nd_range<1>{4, 4}, 0, slow_increment{x.data(), 100'000'000});
    launch(ctx, sycl::nd_range<1>{0, 4}, 0, slow_increment{x.data(), 1}, {first}).wait();
    EXPECT_EQ(x.to_host(), (std::vector{4, 7, 10, 13})) << (queue.is_in_order() ? "in order" : "out of order");
    first.wait();
  }
}

TEST_P(launch_test, honours_dependencies_of_other_contexts) {
  const sycl::context other(GetParam());
  for (sycl::queue queue : {sycl::queue(GetParam()), sycl::queue(GetParam(), sycl::property::queue::in_order{})}) {
    sycl::queue elsewhere(other, GetParam());
    context here_ctx(queue), other_ctx(elsewhere);
    for (const std::size_t size : {0, 4}) {  // an empty range, and one that is none
      tensor<int> x(elsewhere, {4}, std::vector<int>{1, 2, 3, 4}), y(queue, {4}, std::vector<int>(4));
      sycl::event first = launch(other_ctx, sycl::nd_range<1>{4, 4}, 0, slow_increment{x.data(), 100'000'000});
      launch(here_ctx, sycl::nd_range<1>{size, 4}, 0, slow_increment{y.data(), 1}, {first}).wait();
      EXPECT_EQ(first.get_info<sycl::info::event::command_execution_status>(),
                sycl::info::event_command_status::complete)
          << size << (queue.is_in_order() ? ", in order" : ", out of order");
      first.wait();
    }
  }
}

TEST_P(launch_test, runs_ranges_of_more_than_2_to_the_31_work_items) {
#ifdef SIMSYCL_CHECK_MODE
  GTEST_SKIP() << "the simulator would take hours";
#endif
  tensor<std::int64_t> out(queue_, {1}, std::vector<std::int64_t>{0});
  const auto most = static_cast<std::size_t>(properties(GetParam()).max_work_group_size);
  const std::size_t group = std::min<std::size_t>(1024, most), size = ((std::size_t{1} << 31) / group + 1) * group;
  launch(ctx_, sycl::nd_range<1>{size, group}, 0, note_last_id{out.data()}).wait();
  EXPECT_EQ(out.to_host()[0], static_cast<std::int64_t>(size) - 1);
}

TEST_P(launch_test, says_how_much_local_memory_there_is_if_a_kernel_asks_for_more) {
  tensor<int> x(ctx_, {1});
  const device_properties& device = properties(GetParam());
  const auto usable = static_cast<std::size_t>(device.usable_local_bytes());
  for (const std::size_t bytes : {usable + 1, std::size_t{1} << 40, ~std::size_t{0}}) {
    EXPECT_EQ(message_of<unsupported_device>([&] {
                launch(ctx_, sycl::nd_range<1>{1, 1}, bytes, iota<0, false>{x.data()});
              }),
              fmt::format("launch: a kernel needs {} bytes of local memory, {} has {}", bytes, device.name, usable));
  }
  EXPECT_NO_THROW(launch(ctx_, sycl::nd_range<1>{1, 1}, usable, iota<0, false>{x.data()}).wait());
}

TEST_P(launch_test, honours_dependencies_on_an_out_of_order_queue) {
  context out_of_order{sycl::queue(GetParam())};
  tensor<int> x(ctx_, {4}, std::vector<int>{0, 0, 0, 0});
  sycl::event last;
  for (int i = 0; i < 6; ++i) {  // x -> 3 x + 1, slower first: only the right order gives (3^6 - 1) / 2
    last = launch(out_of_order, sycl::nd_range<1>{4, 4}, 0, slow_increment{x.data(), 6'000'000 >> (3 * i)}, {last});
  }
  last.wait();
  EXPECT_EQ(x.to_host(), std::vector<int>(4, 364));
}

TEST_P(launch_test, may_be_called_by_many_threads_with_a_context_each) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      context ctx(queue_);
      tensor<int> out(ctx_, {8});
      launch(ctx, sycl::nd_range<1>{8, 8}, 0, iota<1000, false>{out.data()}).wait();
      EXPECT_EQ(out.to_host()[0], 1000);
    });
  }
}

#ifndef NULLSCOPE_SINGLE_SOURCE
TEST_P(launch_test, many_threads_share_one_compilation) {
  std::vector<sycl::kernel> kernels;
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const sycl::kernel kernel = detail::compiled_kernels(queue_, {&detail::description<iota<2000, false>>}).front();
        const std::lock_guard lock(mutex);
        kernels.push_back(kernel);
      });
    }
  }
  EXPECT_EQ(kernels.size(), 8u);
  for (const sycl::kernel& kernel : kernels) EXPECT_EQ(kernel, kernels.front()) << "compiled more than once";
}
#endif

#ifndef NULLSCOPE_SINGLE_SOURCE
template <class Kernel>
bool is_compiled_already(context& ctx) {
  try {
    warm_up<Kernel>(ctx);
    return true;
  } catch (const compilation_error&) {
    return false;
  }
}

TEST_P(launch_test, warm_up_compiles_ahead_of_use) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto warm_up_then_compile_nothing = [&] {
    warm_up<iota<-1, false>, number_cells>(ctx_);
    tensor<int> out(ctx_, {8});
    warm_up(ctx_, [&](context& ctx) { launch(ctx, sycl::nd_range<1>{8, 4}, 0, iota<-2, false>{out.data()}); });
    add_kernel_headers(
        {{"tests/core/test_kernels.hpp", "#error nothing more is compiled"}});  // the longest name counts
    const bool is_right = is_compiled_already<iota<-1, false>>(ctx_) && is_compiled_already<number_cells>(ctx_) &&
                          run_iota<-2, false>()[0] == -2 && !is_compiled_already<iota<-3, false>>(ctx_);
    std::exit(is_right ? 0 : 1);
  };
  // In a process of its own, since the error would stay.
  EXPECT_EXIT(warm_up_then_compile_nothing(), testing::ExitedWithCode(0), "");
}
#endif

TEST_P(launch_test, warm_up_runs_nothing) {
  tensor<int> x(ctx_, {4}, std::vector<int>{1, 2, 3, 4});
  warm_up(ctx_, [&](context& ctx) { launch(ctx, sycl::nd_range<1>{4, 4}, 0, slow_increment{x.data(), 1}); });
  queue_.wait();
  EXPECT_EQ(x.to_host(), (std::vector{1, 2, 3, 4}));
}

#ifndef NULLSCOPE_SINGLE_SOURCE
TEST_P(launch_test, an_error_names_the_kernel_and_carries_the_compilers_log) {
  tensor<int> x(ctx_, {1});
  for (int attempt = 0; attempt < 2; ++attempt) {  // a failure is not remembered as a kernel
    const std::string message = message_of<compilation_error>([&] {
      launch(ctx_, sycl::nd_range<1>{1, 1}, 0, broken_kernel<int>{x.data()});
    });
    EXPECT_NE(message.find("broken_kernel<int>"), std::string::npos) << message;
    EXPECT_NE(message.find("this_member_does_not_exist"), std::string::npos) << message;
  }
  const std::string message = message_of<compilation_error>([&] { warm_up<number_cells, broken_kernel<int>>(ctx_); });
  EXPECT_NE(message.find("broken_kernel<int>"), std::string::npos) << message;
}

TEST_P(launch_test, files_of_the_current_folder_are_not_taken_for_headers) {
  const temporary_folder folder;
  for (const char* name : {"new", "version", "test_kernels.hpp"}) std::ofstream(folder / name) << "#error the user's\n";
  std::vector<kernel_header> headers = test_kernel_headers();
  for (kernel_header& header : headers) {
    static const std::string once = fmt::format("// {}\n", folder / "");  // no cache knows it
    header = {"core/" + header.name, header.text + once};
  }
  add_kernel_headers(headers);  // longer names, which go before
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder / "");
  EXPECT_NO_THROW(EXPECT_EQ((run_iota<3000, false>())[0], 3000));
  std::filesystem::current_path(before);
}

TEST_P(launch_test, a_source_that_nobody_added_is_named) {
  tensor<int> x(ctx_, {1});
  const std::string message = message_of<compilation_error>([&] {
    launch(ctx_, sycl::nd_range<1>{1, 1}, 0, unknown_source<int>{x.data()});
  });
  EXPECT_NE(message.find("unknown_kernel.hpp"), std::string::npos) << message;
}
#endif

TEST(type_name, tells_kernels_that_can_be_named_from_those_that_cannot) {
  EXPECT_EQ(detail::type_name<number_cells>(), "nullscope::test::number_cells");
  EXPECT_EQ((detail::type_name<iota<-3, true>>()), "nullscope::test::iota<-3, true>");
  EXPECT_TRUE(detail::can_be_named(detail::type_name<iota<-3, true>>()));
#ifndef __clang__  // writes the type of a function without the function
  struct local {};
  EXPECT_FALSE(detail::can_be_named(detail::type_name<local>()));
#endif
  EXPECT_FALSE(detail::can_be_named(detail::type_name<decltype([] {})>()));
}

}  // namespace
}  // namespace test
}  // namespace nullscope
