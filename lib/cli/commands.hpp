/// The subcommands of the `nullscope` program, one source file each. `add_x` declares the options of a command and sets
/// what runs when it is chosen. Commands throw nullscope errors; main prints them as one line and sets the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace nullscope::cli {

inline constexpr const char* device_help = "Device: an index, cpu, gpu, gpu:1 or part of its name";
inline constexpr const char* devices_help =
    "Device: an index, cpu, gpu, gpu:1 or part of its name; a comma list, or all, splits the work over identical "
    "devices";

/// Options that are valid one by one, but not together.
class usage_error : public CLI::ParseError {
 public:
  explicit usage_error(const std::string& message)
      : CLI::ParseError("usage_error", message, CLI::ExitCodes::InvalidError) {}
};

void add_attention(CLI::App& app);
void add_devices(CLI::App& app);
void add_effective_attention(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_encode(CLI::App& app);
void add_hta(CLI::App& app);
void add_experiment(CLI::App& app);
void add_explain(CLI::App& app);
void add_faithfulness(CLI::App& app);
void add_experiment_reversal(CLI::App& app);  ///< after add_experiment
void add_identify(CLI::App& app);
void add_models(CLI::App& app);
void add_rank(CLI::App& app);
void add_structure(CLI::App& app);
void add_svd(CLI::App& app);
void add_sweep(CLI::App& app);
void add_train(CLI::App& app);
void add_view(CLI::App& app);
void add_warm_up(CLI::App& app);

}  // namespace nullscope::cli
