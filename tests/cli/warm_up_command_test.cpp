#include <filesystem>

#include "tests/cli/nullscope_program.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

TEST(warm_up_command, says_which_commands_have_kernels) {
  expect_complaint("warm-up devices", 2, "there is no command \"devices\" with kernels; there are: attention, ");
  EXPECT_NE(nullscope("warm-up --help").out.find("NULLSCOPE_KERNEL_CACHE=/shared/kernels nullscope warm-up"),
            std::string::npos);
}

#ifndef NULLSCOPE_SINGLE_SOURCE
class warm_up_folder : public testing::Test {
 protected:
  command_result warm_up(const std::string& cache) const {
    return run_command("/usr/bin/env", "NULLSCOPE_KERNEL_CACHE=" + cache +
                                           " " NULLSCOPE_PROGRAM " warm-up svd --name 'fill_random<float, true'");
  }
  const temporary_folder folder_;
};

TEST_F(warm_up_folder, has_the_kernels_afterwards) {
  const std::string cache = folder_ / "kernels";
  const command_result result = warm_up(cache);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find(" are ready in " + cache), std::string::npos) << result.out;
  EXPECT_FALSE(std::filesystem::is_empty(cache));
}

TEST_F(warm_up_folder, that_keeps_nothing_is_exit_code_1) {
  const command_result result = warm_up("");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("not kept"), std::string::npos) << result.err;
}

TEST_F(warm_up_folder, no_kernel_fits_a_name_that_is_nobodys) {
  expect_complaint("warm-up --name nobody", 1, "no kernel fits");
}
#endif

}  // namespace
}  // namespace nullscope::test
