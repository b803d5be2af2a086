#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nullscope/core/tensor.hpp>
#include <nullscope/core/warm_up.hpp>
#include <nullscope/linalg/random.hpp>
#include <set>

#include "tests/cli/command.hpp"
#include "tests/core/support.hpp"

#ifndef NULLSCOPE_SINGLE_SOURCE

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;
using kernels = std::vector<const detail::kernel_description*>;

kernels found(const lane_layout& layout, const warm_up_options& options = {}) {
  return detail::library_kernels(layout, options);
}

bool has(const kernels& all, std::string_view name) {
  return std::ranges::any_of(all, [&](const auto* one) { return one->type_name.find(name) != std::string_view::npos; });
}

TEST(library_kernels, are_those_of_the_layout_each_once) {
  const device_properties& device = properties(devices().front());
  const lane_layout work_items = lane_layout::work_items(device), vectors = lane_layout::vectors(device, 32);
  const kernels of_gpu = found(work_items), of_cpu = found(vectors);
  EXPECT_TRUE(has(of_gpu, "fill_random<"));
  EXPECT_TRUE(std::ranges::none_of(of_gpu, [](const auto* one) { return one->one_work_item; }));
  EXPECT_TRUE(std::ranges::any_of(of_cpu, [](const auto* one) { return one->one_work_item; }));
  std::set<std::string_view> names;
  for (const auto* one : of_cpu) {
    EXPECT_TRUE(names.insert(one->type_name).second) << one->type_name;
    EXPECT_TRUE(one->source.starts_with("kernels/")) << one->source;
  }
}

TEST(library_kernels, are_chosen_by_subject_name_and_type) {
  const lane_layout layout = lane_layout::of(properties(devices().front()));
  const kernels all = found(layout, {.with_double = true}), floats = found(layout);
  EXPECT_LT(floats.size(), all.size());
  EXPECT_FALSE(has(floats, "double"));
  const kernels random = found(layout, {.name = "fill_random<float"});
  ASSERT_FALSE(random.empty());
  const std::string subject = fs::path(random[0]->source).parent_path().filename();
  EXPECT_EQ(found(layout, {.subjects = {subject}, .name = "fill_random<float"}), random);
  EXPECT_TRUE(found(layout, {.subjects = {"no such subject"}}).empty());
}

/// Run by the test below, in a process of its own with a folder of its own.
TEST(DISABLED_process, warms_up) {
  context ctx(select_device());
  std::int64_t last = 0, total = 0;
  const warm_up_options options{.name = "fill_random<float",
                                .progress = [&](std::int64_t done, std::int64_t all) { last = done, total = all; }};
  const warm_up_results results = warm_up_library(ctx, options);
  EXPECT_GT(results.kernels, 0);
  EXPECT_EQ(results.kernels, total);
  EXPECT_EQ(last, total);
  EXPECT_TRUE(results.refused.empty());
  EXPECT_EQ(results.folder, std::getenv("NULLSCOPE_KERNEL_CACHE"));
}

TEST(DISABLED_process, uses_what_is_warm) {
  context ctx(select_device());
  tensor<float> x(ctx, {64});
  fill_uniform(ctx, contiguous(x.data(), x.size()), {.seed = 1, .stream = 0}).wait_and_throw();
}

TEST(warm_up_library, leaves_nothing_to_compile_and_nothing_to_write) {
  const temporary_folder folder;
  const std::string cache = folder / "kernels", self = fs::read_symlink("/proc/self/exe");
  ASSERT_EQ(setenv("NULLSCOPE_KERNEL_CACHE", cache.c_str(), 1), 0);
  const auto run = [&](const std::string& test) {
    const command_result result = run_command(self, "--gtest_also_run_disabled_tests --gtest_filter=*" + test);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  };
  const auto files = [&] {
    std::set<fs::path> all;
    for (const auto& entry : fs::recursive_directory_iterator(cache)) all.insert(entry.path());
    return all;
  };
  run("warms_up");
  const std::set<fs::path> before = files();
  EXPECT_FALSE(before.empty());
  run("uses_what_is_warm");
  EXPECT_EQ(files(), before);
  unsetenv("NULLSCOPE_KERNEL_CACHE");
}

}  // namespace
}  // namespace nullscope::test

#endif
