/// Training over the ranks of an MPI job, all on this machine.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <nullscope/io/safetensors.hpp>

#include "tests/cli/nullscope_program.hpp"

namespace nullscope::test {
namespace {

std::vector<float> parameters_in(const std::string& folder) {
  const safetensors_file file(folder + "/model.safetensors");
  std::vector<float> all;
  for (const safetensors_entry& entry : file.entries()) {
    const std::vector<float> numbers = file.read<float>(entry);
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

TEST(train_mpi, two_ranks_do_what_one_does) {
  const temporary_folder folder;
  std::ofstream data(folder / "data.csv");
  data << "text,label\n";
  for (int i = 0; i < 40; ++i) data << (i % 2 == 0 ? "good word " : "bad word ") << i % 7 << "," << i % 2 << "\n";
  data.close();
  const std::string train = "train --data " + (folder / "data.csv") +
                            " --width 16 --heads 2 --batch 10 --epochs 2 --learning-rate 0.0001 --output ";
  const command_result alone = nullscope(train + (folder / "one"));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const command_result both = run_command(
      NULLSCOPE_MPIRUN, "--allow-run-as-root --oversubscribe -n 2 " NULLSCOPE_PROGRAM " " + train + (folder / "two"));
  ASSERT_EQ(both.exit_code, 0) << both.err;
  const std::vector<float> one = parameters_in(folder / "one"), two = parameters_in(folder / "two");
  ASSERT_EQ(one.size(), two.size());
  // Adam moves a parameter by up to the rate, also where rounding decides the sign of a gradient that is 0.
  const double steps = 2 * 3, rate = 0.0001;
  std::size_t different = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_LE(std::abs(one[i] - two[i]), 2 * steps * rate);
    different += std::abs(one[i] - two[i]) > 0.01 * rate ? 1 : 0;
  }
  EXPECT_LT(different, one.size() / 10);
}

}  // namespace
}  // namespace nullscope::test
