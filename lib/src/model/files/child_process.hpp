/// Programs that are run for the library, without a shell.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace nullscope::detail {

/// Runs a program, given by name or path in arguments[0], and waits for it. Its standard input is empty, its standard
/// output and error are written to `log`. `environment` is added to that of this process. Returns its exit code, or 128
/// and the number of the signal that ended it. Throws std::system_error if it cannot be started.
int run_program(const std::vector<std::string>& arguments, const std::filesystem::path& log,
                const std::map<std::string, std::string>& environment = {});

}  // namespace nullscope::detail
