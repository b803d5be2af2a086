/// The sweep over the ranks of an MPI job, all on this machine.
#include "tests/cli/sweep_support.hpp"

namespace nullscope::test {
namespace {

std::string mpirun(int ranks) {
  return std::string(NULLSCOPE_MPIRUN) + " --allow-run-as-root --oversubscribe -n " + std::to_string(ranks) + " " +
         NULLSCOPE_PROGRAM + " ";
}

/// The processes that a process has started.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child; file >> child;) children.push_back(child);
  }
  return children;
}

class sweep_mpi : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }

  temporary_folder folder_;
};

TEST_F(sweep_mpi, any_number_of_ranks_writes_the_same_bytes) {
  run_to_end(std::string(long_sweep) + " --logit-rank", path("alone"));
  for (const int ranks : {2, 3, 4}) {
    const std::string name = std::to_string(ranks);
    started_command command(mpirun(ranks) + long_sweep + " --logit-rank --output " + path(name), path("stderr"));
    EXPECT_EQ(command.wait(), 0) << content_of(path("stderr"));
    expect_same_files(path("alone"), path(name));
  }
}

TEST_F(sweep_mpi, ranks_with_several_devices_share_one_long_head) {
  const std::string head =
      "sweep --quiet --width 4 --heads 1 --samples 1 --lengths 28000 --heads-are concatenated --type f32";
  run_to_end(head, path("alone"));
  started_command command(mpirun(2) + head + " --query-block 1 --device cpu:0,cpu:0,cpu:0 --output " + path("ranks"),
                          path("stderr"));
  EXPECT_EQ(command.wait(), 0) << content_of(path("stderr"));
  expect_same_files(path("alone"), path("ranks"));
}

TEST_F(sweep_mpi, a_rank_that_dies_ends_the_run_and_resume_finishes_it) {
  run_to_end(long_sweep, path("whole"));
  started_command command(mpirun(3) + long_sweep + " --output " + path("a"), path("stderr"));
  ASSERT_TRUE(wait_for_journal(path("a"), 6));
  const std::vector<pid_t> ranks = children_of(command.process());
  ASSERT_GE(ranks.size(), 3u);
  kill(ranks.back(), SIGKILL);
  EXPECT_NE(command.wait(), 0);
  const std::string error = content_of(path("stderr"));
  EXPECT_NE(error.find("units are kept; continue with --resume"), std::string::npos) << error;
  started_command again(mpirun(2) + long_sweep + " --resume --output " + path("a"), path("stderr"));
  EXPECT_EQ(again.wait(), 0) << content_of(path("stderr"));
  expect_same_files(path("whole"), path("a"));
}

TEST_F(sweep_mpi, mistakes_are_reported_once) {
  run_to_end("sweep --quiet --width 8 --heads 2 --samples 1 --lengths 6", path("a"));
  const auto expect_once = [&](const std::string& arguments, int exit_code, const std::string& fragment) {
    started_command command(mpirun(3) + arguments + " --output " + path("a"), path("stderr"));
    EXPECT_EQ(command.wait(), exit_code);
    const std::string error = content_of(path("stderr"));
    const std::size_t place = error.find(fragment);
    ASSERT_NE(place, std::string::npos) << error;
    EXPECT_EQ(error.find(fragment, place + 1), std::string::npos) << error;
  };
  expect_once("sweep --width 8 --heads 2 --samples 1 --lengths 7", 1, "was started with lengths [6], not [7]");
  expect_once("sweep --width 8 --heads 3", 2, "cannot be divided among 3 heads");
  expect_once("sweep --no-such-flag", 2, "--no-such-flag");
}

}  // namespace
}  // namespace nullscope::test
