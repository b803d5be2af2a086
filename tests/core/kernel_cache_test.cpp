#include "lib/src/jit/kernel_cache.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/linalg/rows.hpp>
#include <set>

#include "lib/src/jit/kernel_source.hpp"
#include "tests/cli/command.hpp"

#ifndef NULLSCOPE_SINGLE_SOURCE

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* variable = "NULLSCOPE_KERNEL_CACHE";

class kernel_cache_test : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    setenv(variable, folder_.c_str(), 1);
  }
  void TearDown() override {
    fs::remove_all(folder_);
    unsetenv(variable);
  }

  /// A process that needs a few kernels, with the cache in folder_.
  int use_kernels_in_another_process() const {
    const std::string self = fs::read_symlink("/proc/self/exe");
    return run_command(self, "--gtest_also_run_disabled_tests --gtest_filter=*uses_kernels").exit_code;
  }

  std::set<fs::path> files() const {
    std::set<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".syclbin") found.insert(entry.path());
    }
    return found;
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("kernel_cache_" + std::to_string(getpid()));
};

/// Only run by the tests below, in a process of its own.
TEST(DISABLED_process, uses_kernels) {
  context ctx(select_device());
  tensor<float> x(ctx, {3, 5}), sums(ctx, {3});
  fill_uniform(ctx, contiguous(x.data(), x.size()), {.seed = 1, .stream = 0});
  row_reduce(ctx, x, sums, row_reduction::sum).wait_and_throw();
  const std::vector<float> values = x.to_host(), found = sums.to_host();
  for (std::size_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < 5; ++j) sum += values[i * 5 + j];
    EXPECT_NEAR(found[i], sum, 1e-6);
  }
}

std::vector<char> bytes(const std::string& text) { return {text.begin(), text.end()}; }

TEST_F(kernel_cache_test, finds_what_was_stored_under_every_key) {
  const detail::kernel_cache cache;
  cache.store(std::vector<std::string>{"a", "b"}, bytes("first"));
  cache.store(std::vector<std::string>{"c"}, bytes("second"));
  const auto groups = cache.find(std::vector<std::string>{"b", "missing", "c", "a"});
  ASSERT_EQ(groups.size(), 2u) << "a content with two names is read once";
  for (const auto& group : groups) {
    const bool is_first = group.content == bytes("first");
    EXPECT_TRUE(is_first || group.content == bytes("second"));
    EXPECT_EQ(group.members, is_first ? (std::vector<std::size_t>{0, 3}) : (std::vector<std::size_t>{2}));
  }
  EXPECT_EQ(files().size(), 3u) << "no temporary file is left";
  cache.remove("a");
  EXPECT_TRUE(cache.find(std::vector<std::string>{"a"}).empty());
  EXPECT_EQ(cache.find(std::vector<std::string>{"b"}).size(), 1u);
}

TEST_F(kernel_cache_test, is_off_without_a_folder) {
  setenv(variable, "", 1);
  EXPECT_FALSE(detail::kernel_cache().is_on());
  std::ofstream(folder_) << "a file, not a folder";
  setenv(variable, (folder_ / "below").c_str(), 1);
  const detail::kernel_cache cache;
  EXPECT_FALSE(cache.is_on());
  cache.store(std::vector<std::string>{"a"}, bytes("content"));
  EXPECT_TRUE(cache.find(std::vector<std::string>{"a"}).empty());
}

/// As on a cluster whose folder was filled beforehand.
TEST_F(kernel_cache_test, reads_a_folder_that_it_may_not_write_to) {
  detail::kernel_cache().store(std::vector<std::string>{"a"}, bytes("content"));
  constexpr auto read_only = static_cast<fs::perms>(0555);
  fs::permissions(folder_, read_only);
  constexpr uid_t nobody = 65534;
  const bool is_root = geteuid() == 0;  // which may write anywhere
  if (is_root && seteuid(nobody) != 0) GTEST_SKIP() << "cannot become another user";
  const detail::kernel_cache cache;
  EXPECT_TRUE(cache.is_on());
  EXPECT_EQ(cache.find(std::vector<std::string>{"a"}).size(), 1u);
  cache.store(std::vector<std::string>{"b"}, bytes("more"));
  EXPECT_TRUE(cache.find(std::vector<std::string>{"b"}).empty());
  cache.remove("a");
  EXPECT_EQ(cache.find(std::vector<std::string>{"a"}).size(), 1u);
  ASSERT_EQ(seteuid(is_root ? 0 : geteuid()), 0);
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(kernel_cache_test, serves_other_processes_and_survives_damage) {
  ASSERT_EQ(use_kernels_in_another_process(), 0);
  const std::set<fs::path> compiled = files();
  ASSERT_GE(compiled.size(), 2u);
  const auto long_ago = fs::file_time_type::clock::now() - 1000h;
  for (const fs::path& file : compiled) fs::last_write_time(file, long_ago);
  ASSERT_EQ(use_kernels_in_another_process(), 0);
  EXPECT_EQ(files(), compiled) << "nothing was compiled again";
  for (const fs::path& file : compiled) EXPECT_GT(fs::last_write_time(file), long_ago) << "it was read";

  for (const fs::path& file : compiled) std::ofstream(file, std::ios::binary) << "damaged";
  ASSERT_EQ(use_kernels_in_another_process(), 0);
  EXPECT_EQ(files(), compiled);
  for (const fs::path& file : compiled) EXPECT_GT(fs::file_size(file), 100u) << "it was replaced";
}

/// All that the machine code depends on is in the key: a kernel is not taken for another one that was on disk.
TEST(kernel_key, differs_where_the_machine_code_may) {
  const detail::known_headers headers{{}, {{"mine.hpp", "struct mine {};"}}};
  const detail::known_headers changed{{}, {{"mine.hpp", "struct mine { };"}}};
  constexpr detail::kernel_description kernel{"mine", "mine.hpp", 0, false, 8, 8};
  detail::kernel_target target(select_device());
  target.sub_group_sizes = {16, 32};
  target.passes_address = false;
  std::set<std::string> keys;
  std::size_t count = 0;
  const auto add = [&](const detail::kernel_description& one, const detail::known_headers& known) {
    const detail::kernel_source source = detail::source_of(one, known, target);
    EXPECT_NE(source.code.find(source.entry), std::string::npos);
    EXPECT_EQ(source.key, detail::source_of(one, known, target).key) << "the same each time";
    keys.insert(source.key);
    EXPECT_EQ(keys.size(), ++count);
  };
  add(kernel, headers);
  add(kernel, changed);
  add({"mine", "mine.hpp", 32, false, 8, 8}, headers);
  add({"mine", "mine.hpp", 0, true, 8, 8}, headers);
  add({"mine", "mine.hpp", 0, false, 16, 8}, headers);
  add({"other", "mine.hpp", 0, false, 8, 8}, headers);
  target.passes_address = true;
  add(kernel, headers);
  target.identity += "sm_90";
  add(kernel, headers);
}

/// PoCL's compiler aborts the process on inline assembly, on Intel's CPUs too.
TEST(x86_options, are_for_the_compiler_of_intel_only) {
  EXPECT_TRUE(detail::x86_options("The pocl project").empty());
  EXPECT_TRUE(detail::x86_options("").empty());
#ifdef __x86_64__
  EXPECT_FALSE(detail::x86_options("Intel(R) Corporation").empty());
#endif
}

}  // namespace
}  // namespace nullscope::test

#endif
