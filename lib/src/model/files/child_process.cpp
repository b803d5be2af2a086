#include "lib/src/model/files/child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

namespace nullscope::detail {

namespace {

void check(int code, const std::string& program) {
  if (code != 0) throw std::system_error(code, std::generic_category(), program);
}

/// Where the standard streams of the program lead.
class stream_actions {
 public:
  explicit stream_actions(const std::filesystem::path& log) {
    check(::posix_spawn_file_actions_init(&actions_), "posix_spawn");
    constexpr int log_flags = O_WRONLY | O_CREAT | O_TRUNC;
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, log.c_str(), log_flags, 0666);
    ::posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
  }
  ~stream_actions() { ::posix_spawn_file_actions_destroy(&actions_); }
  stream_actions(const stream_actions&) = delete;
  stream_actions& operator=(const stream_actions&) = delete;

  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& additions) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!additions.contains(std::string(text.substr(0, text.find('='))))) all.emplace_back(text);
  }
  for (const auto& [name, value] : additions) all.push_back(name + "=" + value);
  return all;
}

/// Pointers that end with a null, as the system wants them.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const std::filesystem::path& log,
                const std::map<std::string, std::string>& environment) {
  std::vector<std::string> words = arguments, variables = merged_environment(environment);
  const stream_actions streams(log);
  pid_t child = 0;
  check(::posix_spawnp(&child, words[0].c_str(), streams.get(), nullptr, pointers(words).data(),
                       pointers(variables).data()),
        words[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) check(errno, words[0]);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace nullscope::detail
