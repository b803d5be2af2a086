/// nullscope svd of a matrix that has no rank.
#include <nullscope/io/safetensors.hpp>

#include "tests/cli/nullscope_program.hpp"

namespace nullscope::test {
namespace {

TEST(svd_command, names_a_matrix_whose_largest_value_overflows_and_fails) {
  const temporary_folder folder;
  std::vector<float> a(3 * 16, 1.0f);
  std::fill_n(a.begin() + 16, 16, 3e38f);  // the second of three: sigma is four times that
  write_safetensors(folder / "in.safetensors", {make_entry("a", {3, 4, 4}, a)});
  for (const std::string flag : {"", "--values-only --overwrite "}) {
    expect_complaint("svd " + flag + "--input " + folder / "in.safetensors" + " --output " + folder / "out.safetensors",
                     1, "1 of 3 matrices hold NaN or infinity, overflow, or did not converge: 1 (see rank and status)");
    const safetensors_file out(folder / "out.safetensors");
    EXPECT_EQ(out.read<std::int64_t>("rank"), (std::vector<std::int64_t>{1, -1, 1}));
    EXPECT_EQ(out.read<std::int32_t>("status"), (std::vector<std::int32_t>{0, 0, 0}));
  }
}

}  // namespace
}  // namespace nullscope::test
