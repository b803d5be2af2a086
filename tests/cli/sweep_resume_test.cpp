/// Sweeps that are killed, find the disk full, or are started in a folder that is not empty.
#include <memory>

#include "tests/cli/sweep_support.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

constexpr const char* tiny_sweep = "sweep --width 8 --heads 2 --samples 1 --lengths 6 --heads-are concatenated";

struct interruption {
  int exit_code;
  std::string error;
};

/// Starts the long sweep and sends it a signal in the middle.
interruption interrupt(const std::string& folder, int signal) {
  started_command command(std::string(NULLSCOPE_PROGRAM) + " " + long_sweep + " --output " + folder,
                          folder + ".stderr");
  EXPECT_TRUE(wait_for_journal(folder, 6));
  command.signal(signal);
  const int code = command.wait();
  EXPECT_TRUE(std::filesystem::exists(folder + "/sweep.journal")) << "it finished before it could be interrupted";
  EXPECT_FALSE(std::filesystem::exists(folder + "/sweep.json"));
  return {code, content_of(folder + ".stderr")};
}

/// "whole" holds what the long sweep writes, "killed" what is left of it after kill -9.
class sweep_resume : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<temporary_folder>();
    run_to_end(long_sweep, path("whole"));
    EXPECT_EQ(interrupt(path("killed"), SIGKILL).exit_code, -SIGKILL);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return *folder_ / name; }

  /// A copy of the killed sweep, with another journal.
  static void copy_killed(const std::string& name, const std::string& journal) {
    std::filesystem::create_directory(path(name));
    std::ofstream(path(name + "/sweep.journal"), std::ios::binary) << journal;
  }

  static void expect_resume_gives_the_whole(const std::string& name) {
    run_to_end(long_sweep + " --resume", path(name));
    expect_same_files(path("whole"), path(name));
  }

  static std::unique_ptr<temporary_folder> folder_;
};

std::unique_ptr<temporary_folder> sweep_resume::folder_;

TEST_F(sweep_resume, a_killed_sweep_continues_after_an_incomplete_or_damaged_line) {
  const std::string journal = content_of(path("killed/sweep.journal"));
  copy_killed("torn", journal.substr(0, journal.size() - 7));  // after a kill in the middle of a write
  expect_resume_gives_the_whole("torn");
  std::string damaged = journal;
  damaged[damaged.size() / 2] ^= 1;  // by a bad disk; the lines after it cannot be trusted either
  copy_killed("damaged", damaged);
  expect_resume_gives_the_whole("damaged");
}

TEST_F(sweep_resume, a_journal_without_its_settings_is_only_replaced_when_asked) {
  std::string journal = content_of(path("killed/sweep.journal"));
  journal[30] ^= 1;  // in the first line; the others are whole
  copy_killed("headless", journal);
  for (const char* flag : {"", " --resume"}) {
    expect_complaint(long_sweep + flag + " --output " + path("headless"), 1,
                     "sweep.journal is damaged, or no journal of nullscope");
    EXPECT_EQ(content_of(path("headless/sweep.journal")), journal);
  }
  run_to_end(std::string(tiny_sweep) + " --overwrite", path("headless"));
}

TEST_F(sweep_resume, signals_report_what_is_kept) {
  const interruption terminated = interrupt(path("terminated"), SIGTERM), stopped = interrupt(path("ctrl-c"), SIGINT);
  EXPECT_EQ(terminated.exit_code, 143);
  EXPECT_EQ(stopped.exit_code, 130);
  for (const std::string& error : {terminated.error, stopped.error}) {
    EXPECT_NE(error.find("units are kept; continue with --resume"), std::string::npos) << error;
  }
  expect_resume_gives_the_whole("ctrl-c");
}

TEST_F(sweep_resume, a_signal_that_is_ignored_when_the_program_starts_stays_ignored) {
  started_command command("nohup " NULLSCOPE_PROGRAM " " + long_sweep + " --output " + path("nohup"),
                          path("nohup.stderr"));
  ASSERT_TRUE(wait_for_journal(path("nohup"), 6));
  command.signal(SIGHUP);
  EXPECT_EQ(command.wait(), 0) << content_of(path("nohup.stderr"));
  expect_same_files(path("whole"), path("nohup"));
}

TEST_F(sweep_resume, other_settings_are_refused_and_named) {
  for (const char* name : {"killed", "whole"}) {
    const std::string resume = long_sweep + " --resume --output " + path(name);
    expect_complaint(resume + " --seed 5", 1, "was started with seed 1, not 5");
    expect_complaint(resume + " --memory 1GiB", 1, "was started with memory");
  }
}

TEST_F(sweep_resume, results_of_other_settings_are_only_replaced_when_asked) {
  expect_complaint(long_sweep + " --output " + path("killed"), 1,
                   "sweep.journal is of an unfinished run; --resume continues it, --overwrite starts over");
  run_to_end(tiny_sweep, path("tiny"));
  const std::string before = content_of(path("tiny/sweep.json"));
  expect_complaint(std::string(tiny_sweep) + " --seed 9 --output " + path("tiny"), 1,
                   "sweep.json was started with seed 1, not 9; use the same settings, or --overwrite");
  EXPECT_NE(run_to_end(tiny_sweep, path("tiny")).find("is already finished"), std::string::npos);
  EXPECT_EQ(content_of(path("tiny/sweep.json")), before);
  EXPECT_NE(run_to_end(std::string(tiny_sweep) + " --resume", path("tiny")).find("is already finished"),
            std::string::npos);
  EXPECT_EQ(content_of(path("tiny/sweep.json")), before);
  run_to_end(std::string(tiny_sweep) + " --overwrite --seed 9", path("tiny"));
  EXPECT_NE(content_of(path("tiny/sweep.json")), before);
}

TEST_F(sweep_resume, overwriting_leaves_no_file_of_the_sweep_before) {
  run_to_end(std::string(tiny_sweep) + " --logit-rank", path("before"));
  ASSERT_TRUE(std::filesystem::exists(path("before/sweep_logit_rank.csv")));
  run_to_end(std::string(tiny_sweep) + " --overwrite --seed 2", path("before"));
  EXPECT_FALSE(std::filesystem::exists(path("before/sweep_logit_rank.csv")));
}

TEST_F(sweep_resume, a_file_that_is_no_result_is_only_replaced_when_asked) {
  std::filesystem::create_directory(path("foreign"));
  for (const char* text : {"no JSON at all", "[1, 2]", "{\"settings\": 3}"}) {
    std::ofstream(path("foreign/sweep.json")) << text;
    for (const char* flag : {"", " --resume"}) {
      expect_complaint(std::string(tiny_sweep) + flag + " --output " + path("foreign"), 1,
                       "sweep.json is not a finished result of this command; use --overwrite to replace it");
    }
  }
  run_to_end(std::string(tiny_sweep) + " --overwrite", path("foreign"));
}

TEST_F(sweep_resume, two_sweeps_do_not_share_a_folder) {
  started_command first(std::string(NULLSCOPE_PROGRAM) + " " + long_sweep + " --output " + path("shared"),
                        path("stderr"));
  ASSERT_TRUE(wait_for_journal(path("shared"), 2));
  expect_complaint(long_sweep + " --overwrite --output " + path("shared"), 1, "another process is writing");
}

/// Limits the size of files to less than the journal of the long sweep needs: writes fail as on a full disk.
command_result run_on_full_disk(const std::string& arguments) {
  return run_command("/bin/sh", "-c 'trap \"\" XFSZ; ulimit -f 16; exec " NULLSCOPE_PROGRAM " " + arguments + "'");
}

TEST_F(sweep_resume, a_full_disk_is_an_error_and_loses_nothing) {
#ifdef __ADAPTIVECPP__
  GTEST_SKIP() << "AdaptiveCpp maps files of its own into memory, and a limit on their size is a bus error";
#endif
  const command_result result = run_on_full_disk(long_sweep + " --output " + path("full"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("cannot write " + path("full/sweep.journal")), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("units are kept; continue with --resume"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(path("full/sweep.json")));
  const std::string journal = content_of(path("full/sweep.journal"));
  ASSERT_FALSE(journal.empty());
  EXPECT_EQ(journal.back(), '\n');  // the incomplete line has been removed
  expect_resume_gives_the_whole("full");
}

TEST_F(sweep_resume, a_journal_does_not_take_the_place_of_a_standard_output_that_is_closed) {
#ifdef __ADAPTIVECPP__
  GTEST_SKIP() << "as for a full disk, which leaves a journal here";
#endif
  const std::string sweep = std::string(long_sweep_with_table) + " --output " + path("closed") + " >&-";
  EXPECT_EQ(run_on_full_disk(sweep).exit_code, 1);
  const std::string journal = content_of(path("closed/sweep.journal"));
  ASSERT_FALSE(journal.empty());
  EXPECT_EQ(journal.find("rank(T)"), std::string::npos) << "the head of the table";
  expect_resume_gives_the_whole("closed");
}

TEST_F(sweep_resume, folders_that_cannot_be_written_are_one_line) {
  std::ofstream(path("file")) << "x";
  const std::string arguments = std::string(tiny_sweep) + " --output ";
  expect_complaint(arguments + path("file/a"), 1, "cannot create " + path("file/a"));
  expect_complaint(arguments + path("file"), 1, path("file"));
  expect_complaint(arguments + "/proc/nullscope", 1, "cannot create /proc/nullscope");
  std::filesystem::create_directories(path("odd/sweep.json"));
  expect_complaint(arguments + path("odd"), 1, "cannot read " + path("odd/sweep.json") + ": Is a directory");
}

TEST_F(sweep_resume, wrong_options_are_one_line) {
  expect_complaint("sweep --samples 0", 2, "--samples");
  expect_complaint("sweep --lengths 0,4", 2, "--lengths");
  expect_complaint("sweep --lengths 4 --max-length 8", 2, "--lengths");
  expect_complaint("sweep --heads-are stacked", 2, "--heads-are");
  expect_complaint("sweep --type f16", 2, "--type");
  for (const char* memory : {"much", "0", "-1", "9999999999GiB"}) {
    expect_complaint("sweep --memory=" + std::string(memory), 2, "--memory");
  }
  expect_complaint("sweep --seed=-1", 2, "--seed: \"-1\" is not a whole number from 0 to 2^64 - 1");
  expect_complaint("sweep --samples 1.5", 2, "--samples: \"1.5\" is not a whole number above 0");
  expect_complaint("sweep --width 8 --heads 8 --logit-rank", 2, "--logit-rank needs heads of more than one column");
  expect_complaint("sweep --resume --overwrite", 2, "--overwrite");
  expect_complaint("sweep --width 30 --heads 4", 2, "a width of 30 cannot be divided among 4 heads");
  expect_complaint("sweep --min-length 9 --max-length 8", 2, "--min-length 9 is above --max-length 8");
  expect_complaint("sweep --max-length 9223372036854775807", 2, "a length of 9223372036854775807 is too large");
  expect_complaint("sweep --device nosuch --output " + path("a"), 1, "no device fits \"nosuch\"");
  EXPECT_FALSE(std::filesystem::exists(path("a")));
}

}  // namespace
}  // namespace nullscope::test
