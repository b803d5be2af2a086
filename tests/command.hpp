/// Runs a program the way a user's shell does, and keeps what it prints.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace nullscope::test {

struct command_result {
  int exit_code;
  std::string out, err;
};

/// `arguments` are for the shell: quote what needs quoting.
inline command_result run_command(const std::string& program, const std::string& arguments) {
  std::string folder = (std::filesystem::temp_directory_path() / "nullscope-test-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return {-1, "", "no temporary folder"};
  const auto read = [&](const char* name) {
    std::ifstream file(folder + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string line = "'" + program + "' " + arguments + " > " + folder + "/out 2> " + folder + "/err";
  const int status = std::system(line.c_str());
  const command_result result{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("/out"), read("/err")};
  std::filesystem::remove_all(folder);
  return result;
}

}  // namespace nullscope::test
