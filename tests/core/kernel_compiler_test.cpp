/// Kernels are compiled also where a process may start no more threads.
#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <thread>

#include "tests/cli/command.hpp"
#include "tests/core/support.hpp"
#include "tests/core/test_kernels.hpp"

#if !defined(NULLSCOPE_SINGLE_SOURCE) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
thread_local int refusals = 0;  // so many threads that this one starts are refused
}

/// Stands before that of the C library, for the standard library too.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) {
  if (refusals > 0) {
    --refusals;
    return EAGAIN;
  }
  static const auto original = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return original(thread, attributes, start, argument);
}

namespace nullscope {

std::vector<kernel_header> test_kernel_headers();  // written by the build

namespace test {
namespace {

/// Run by the test below, in a process that finds no compiled kernels.
TEST(DISABLED_process, compiles_without_threads) {
  add_kernel_headers(test_kernel_headers());
  context ctx(select_device());
  tensor<int> x(ctx, {4}), y(ctx, {4});
  launch(ctx, {{4}, {4}}, 0, slow_increment{x.data(), 1}).wait();  // what the runtime starts for itself is there now
  const auto two_kernels = [&] {
    operation op(ctx, "two kernels");
    op.launch({{4}, {4}}, 0, count_from{x.data(), 1});
    op.launch({{4}, {4}}, 0, copy_numbers{x.data(), y.data()});
    op.submit_and_wait();
  };
  refusals = 1;
  EXPECT_NO_THROW(two_kernels());
  EXPECT_EQ(refusals, 0) << "nothing was refused: too few processors to try this";
  refusals = 0;
  EXPECT_NO_THROW(two_kernels()) << "a later call";
  EXPECT_EQ(y.to_host(), (std::vector{1, 2, 3, 4}));
}

TEST(kernel_compiler, works_without_threads_of_its_own) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor: no threads are started";
  const temporary_folder folder;
  ASSERT_EQ(setenv("NULLSCOPE_KERNEL_CACHE", (folder / "kernels").c_str(), 1), 0);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const command_result run = run_command(self, "--gtest_also_run_disabled_tests --gtest_filter=*without_threads");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  unsetenv("NULLSCOPE_KERNEL_CACHE");
}

}  // namespace
}  // namespace test
}  // namespace nullscope

#endif
