/// What becomes of a sweep that is killed, or meets a full disk or a folder that is not empty.
#include "support.hpp"
#include "sweep_support.hpp"

namespace nullscope::test {
namespace {

class sweep_resume : public sweep_files {
 protected:
  /// Starts the long sweep and sends it a signal in the middle. The exit code, and stderr in `error_`.
  int interrupt(const std::string& name, int signal) {
    const std::string error_path = path("stderr");
    started_command command(std::string(NULLSCOPE_PROGRAM) + " " + long_sweep + " --output " + path(name), error_path);
    EXPECT_TRUE(wait_for_journal(name, 6));
    command.signal(signal);
    const int code = command.wait();
    error_ = content_of(error_path);
    EXPECT_TRUE(std::filesystem::exists(path(name) + "/sweep.journal")) << "it was over before it could be interrupted";
    EXPECT_FALSE(std::filesystem::exists(path(name) + "/sweep.json"));
    return code;
  }

  void expect_complaint(const std::string& arguments, int exit_code, const std::string& fragment) const {
    const command_result result = nullscope(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(fragment), std::string::npos) << result.err;
  }

  std::string error_;
};

TEST_F(sweep_resume, a_killed_sweep_goes_on_and_writes_the_same_bytes) {
  run_to_end(long_sweep, "whole");
  EXPECT_EQ(interrupt("killed", SIGKILL), -SIGKILL);
  const std::string journal = content_of(path("killed/sweep.journal"));
  // As a kill in the middle of a write leaves it: the last line is torn.
  std::filesystem::copy(path("killed"), path("torn"));
  std::filesystem::resize_file(path("torn/sweep.journal"), journal.size() - 7);
  // A line that is whole but wrong, as a bad disk makes it.
  std::filesystem::copy(path("killed"), path("damaged"));
  std::string damaged = journal;
  damaged[damaged.size() - 4] ^= 1;
  std::ofstream(path("damaged/sweep.journal"), std::ios::binary) << damaged;
  for (const char* name : {"killed", "torn", "damaged"}) {
    run_to_end(std::string(long_sweep) + " --resume", name);
    expect_same_files("whole", name);
  }
}

TEST_F(sweep_resume, signals_say_what_is_kept) {
  EXPECT_EQ(interrupt("a", SIGTERM), 143);
  EXPECT_NE(error_.find("units are kept; go on with --resume"), std::string::npos) << error_;
  EXPECT_EQ(interrupt("b", SIGINT), 130);
  EXPECT_NE(error_.find("units are kept; go on with --resume"), std::string::npos) << error_;
  run_to_end(std::string(long_sweep) + " --resume", "a");
  run_to_end(std::string(long_sweep) + " --resume", "b");
  expect_same_files("a", "b");
}

TEST_F(sweep_resume, a_journal_without_its_settings_begins_anew) {
  std::filesystem::create_directory(path("a"));
  std::ofstream(path("a/sweep.journal")) << "0123456789abcdef {\"settings\"";
  run_to_end("sweep --quiet --width 8 --heads 2 --samples 1 --lengths 6 --resume", "a");
}

TEST_F(sweep_resume, other_settings_are_refused_and_named) {
  EXPECT_EQ(interrupt("a", SIGKILL), -SIGKILL);
  const std::string resume = std::string(long_sweep) + " --resume --output " + path("a");
  expect_complaint(resume + " --seed 5", 1, "was begun with seed 1, and now it is 5");
  expect_complaint(resume + " --heads-are added", 1, "heads_are \"both\", and now it is \"added\"");
  run_to_end(std::string(long_sweep) + " --resume", "a");
  expect_complaint(resume + " --seed 5", 1, "was begun with seed 1, and now it is 5");
}

TEST_F(sweep_resume, results_are_only_replaced_when_asked) {
  const std::string arguments = "sweep --width 8 --heads 2 --samples 1 --lengths 6";
  run_to_end(arguments, "a");
  const std::string before = content_of(path("a/sweep.json"));
  expect_complaint(arguments + " --output " + path("a"), 1, "is there already; --resume goes on with it, --overwrite");
  EXPECT_NE(run_to_end(arguments + " --resume", "a").find("is finished"), std::string::npos);
  EXPECT_EQ(content_of(path("a/sweep.json")), before);
  run_to_end(arguments + " --overwrite --seed 9", "a");
  EXPECT_NE(content_of(path("a/sweep.json")), before);
  EXPECT_EQ(interrupt("b", SIGKILL), -SIGKILL);
  expect_complaint(std::string(long_sweep) + " --output " + path("b"), 1, "sweep.journal is there already");
}

TEST_F(sweep_resume, two_sweeps_do_not_share_a_folder) {
  started_command first(std::string(NULLSCOPE_PROGRAM) + " " + long_sweep + " --output " + path("a"), path("stderr"));
  ASSERT_TRUE(wait_for_journal("a", 2));
  expect_complaint(std::string(long_sweep) + " --overwrite --output " + path("a"), 1, "another sweep is writing");
}

TEST_F(sweep_resume, a_full_disk_is_an_error_and_loses_nothing) {
  run_to_end(long_sweep, "whole");
  // A limit on the size of files stands for the full disk: writes fail in the same way.
  const std::string sweep = std::string(NULLSCOPE_PROGRAM) + " " + long_sweep + " --output " + path("full");
  const command_result result = run_command("/bin/sh", "-c 'trap \"\" XFSZ; ulimit -f 16; exec " + sweep + "'");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("cannot write " + path("full/sweep.journal")), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("units are kept; go on with --resume"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(path("full/sweep.json")));
  EXPECT_EQ(content_of(path("full/sweep.journal")).back(), '\n');  // what was half written is gone
  run_to_end(std::string(long_sweep) + " --resume", "full");
  expect_same_files("whole", "full");
}

TEST_F(sweep_resume, folders_that_cannot_be_written_are_one_line) {
  std::ofstream(path("file")) << "x";
  const std::string arguments = "sweep --width 8 --heads 2 --samples 1 --lengths 6 --output ";
  expect_complaint(arguments + path("file/a"), 1, "cannot make " + path("file/a"));
  expect_complaint(arguments + path("file"), 1, path("file"));
  expect_complaint(arguments + "/proc/nullscope", 1, "cannot make /proc/nullscope");
}

TEST_F(sweep_resume, wrong_options_are_one_line) {
  expect_complaint("sweep --samples 0", 2, "--samples");
  expect_complaint("sweep --lengths 0,4", 2, "--lengths");
  expect_complaint("sweep --lengths 4 --max-length 8", 2, "--lengths");
  expect_complaint("sweep --heads-are stacked", 2, "--heads-are");
  expect_complaint("sweep --type f16", 2, "--type");
  expect_complaint("sweep --memory much", 2, "--memory");
  expect_complaint("sweep --resume --overwrite", 2, "--overwrite");
  expect_complaint("sweep --width 30 --heads 4", 1, "a width of 30 cannot be divided among 4 heads");
  expect_complaint("sweep --min-length 9 --max-length 8", 1, "--min-length 9 is above --max-length 8");
  expect_complaint("sweep --device nosuch --output " + path("a"), 1, "no device fits \"nosuch\"");
  EXPECT_FALSE(std::filesystem::exists(path("a")));
}

}  // namespace
}  // namespace nullscope::test
