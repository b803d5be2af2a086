/// The subcommands of the `nullscope` program, one source file each. `add_x` describes the options of a command and
/// sets what runs when it is chosen; it throws nullscope errors, and main turns them into one line and an exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace nullscope::cli {

/// Options that are right one by one, but not together.
class usage_error : public CLI::ParseError {
 public:
  explicit usage_error(const std::string& message)
      : CLI::ParseError("usage_error", message, CLI::ExitCodes::InvalidError) {}
};

void add_devices(CLI::App& app);
void add_effective_attention(CLI::App& app);
void add_rank(CLI::App& app);
void add_svd(CLI::App& app);
void add_sweep(CLI::App& app);

}  // namespace nullscope::cli
