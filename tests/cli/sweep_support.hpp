/// What the tests of the sweep share: programs that can be killed, and comparisons of the files they write.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/nullscope_program.hpp"

namespace nullscope::test {

/// A program that was started and may be killed.
class started_command {
 public:
  /// Its stderr goes to the file `error_path`, its stdout is dropped. `line` is split at blanks.
  started_command(const std::string& line, const std::string& error_path) {
    std::istringstream stream(line);
    std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    process_ = fork();
    if (process_ != 0) return;
    // As if a shell started it in the foreground, even if the tests run in the background or under nohup.
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    dup2(open(error_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }

  ~started_command() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    wait();
  }

  pid_t process() const { return process_; }
  void signal(int number) const { kill(process_, number); }

  /// The exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t process_ = 0;
};

// Hundreds of small units, about a second of work: long enough to be killed in the middle.
inline constexpr const char* long_sweep_with_table =
    "sweep --width 32 --heads 4 --samples 2 --min-length 3 --max-length 300 --per-doubling 90 "
    "--heads-are concatenated";
inline const std::string long_sweep = std::string(long_sweep_with_table) + " --quiet";

/// Runs a sweep to its end, into that folder. Returns what it printed.
inline std::string run_to_end(const std::string& arguments, const std::string& folder) {
  const command_result result = nullscope(arguments + " --output " + folder);
  EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.err;
  EXPECT_EQ(result.err, "") << arguments;
  EXPECT_FALSE(std::filesystem::exists(folder + "/sweep.journal"));
  return result.out;
}

/// Waits until the journal in the folder has this many complete lines. False after a minute.
inline bool wait_for_journal(const std::string& folder, std::int64_t lines) {
  for (int i = 0; i < 30000; ++i) {
    const std::string text = content_of(folder + "/sweep.journal");
    if (std::ranges::count(text, '\n') >= lines) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

inline void expect_same_files(const std::string& one, const std::string& other) {
  for (const char* file : {"/sweep.csv", "/sweep.json", "/sweep.svg"}) {
    const std::string content = content_of(one + file);
    EXPECT_FALSE(content.empty()) << one << file;
    EXPECT_TRUE(content == content_of(other + file)) << one << " and " << other << " differ in " << file;
  }
}

}  // namespace nullscope::test
