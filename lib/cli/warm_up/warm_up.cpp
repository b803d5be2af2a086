/// nullscope warm-up: compiles kernels ahead of their first use.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <nullscope/core/context.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/warm_up.hpp>
#include <optional>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/progress.hpp"

namespace nullscope::cli {
namespace {

struct warm_up_settings {
  std::vector<std::string> commands;
  std::string device, name;
  bool with_double = false;
};

/// The folders of kernels/ that a command uses.
const std::map<std::string, std::vector<std::string>>& subjects_of_commands() {
  static const std::vector<std::string> matrices{"core", "linalg"}, heads{"core", "linalg", "attention", "null_space"};
  static const std::vector<std::string> models{"core", "linalg", "attention", "null_space", "model"};
  const auto with = [](std::vector<std::string> subjects, const std::vector<std::string>& more) {
    subjects.insert(subjects.end(), more.begin(), more.end());
    return subjects;
  };
  static const std::map<std::string, std::vector<std::string>> table{
      {"attention", models},
      {"effective-attention", heads},
      {"encode", models},
      {"evaluate", with(models, {"training"})},
      {"experiment", with(models, {"training", "explain"})},
      {"experiment-reversal", with(models, {"training", "explain"})},
      {"explain", with(models, {"explain"})},
      {"faithfulness", with(models, {"explain"})},
      {"hta", with(models, {"attribution"})},
      {"identify", with(models, {"probes", "training"})},
      {"rank", heads},
      {"structure", with(models, {"structure"})},
      {"svd", matrices},
      {"sweep", models},
      {"train", with(models, {"training"})},
      {"view", with(models, {"attribution", "explain"})}};
  return table;
}

std::vector<std::string> subjects_of(const std::vector<std::string>& commands) {
  std::vector<std::string> subjects;
  for (const std::string& command : commands) {
    const auto found = subjects_of_commands().find(command);
    if (found == subjects_of_commands().end()) {
      std::vector<std::string> names;
      for (const auto& [name, ignored] : subjects_of_commands()) names.push_back(name);
      throw usage_error(
          fmt::format("there is no command \"{}\" with kernels; there are: {}", command, fmt::join(names, ", ")));
    }
    subjects.insert(subjects.end(), found->second.begin(), found->second.end());
  }
  return subjects;
}

void run(const warm_up_settings& settings) {
  warm_up_options options{subjects_of(settings.commands), settings.name, settings.with_double, {}};
  context ctx(select_device(settings.device));
  std::optional<progress_bar> bar;
  std::int64_t drawn = 0;
  options.progress = [&](std::int64_t done, std::int64_t total) {
    if (!bar) bar.emplace(static_cast<double>(total), 0);
    bar->advance(static_cast<double>(done - drawn));
    drawn = done;
    bar->draw(fmt::format("{} of {} kernels", done, total));
  };
  const auto start = std::chrono::steady_clock::now();
  const warm_up_results results = warm_up_library(ctx, options);
  bar.reset();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (results.kernels == 0 && results.refused.empty()) {
    throw invalid_argument("no kernel fits; a single-source build has compiled all of them already");
  }
  if (results.folder.empty())
    throw file_error("the kernels are compiled, but not kept: NULLSCOPE_KERNEL_CACHE is empty");
  if (access(results.folder.c_str(), W_OK) != 0) {
    throw file_error(fmt::format("the kernels are compiled, but cannot be kept in {}", results.folder.string()));
  }
  fmt::print("{} kernels for {} are ready in {} ({:.0f} s)\n", results.kernels, ctx.device().name,
             results.folder.string(), seconds);
  for (const std::string& name : results.refused) fmt::print("the device's compiler refuses {}\n", name);
}

}  // namespace

void add_warm_up(CLI::App& app) {
  auto settings = std::make_shared<warm_up_settings>();
  CLI::App* command = app.add_subcommand("warm-up", "Compile kernels ahead of their first use");
  command->add_option("commands", settings->commands, "Kernels of these commands; default: all of the library");
  command->add_option("--device", settings->device, device_help);
  command->add_option("--name", settings->name, "Only kernels with this text in their names");
  command->add_flag("--double", settings->with_double, "Also kernels in double precision");
  command->footer(
      "Kernels are compiled on first use and kept in the folder NULLSCOPE_KERNEL_CACHE (default: nullscope/kernels in "
      "your cache folder). On a cluster whose jobs cannot write there, compile them once, on a node with the same GPU, "
      "into a folder that all nodes can read.\n\n"
      "Examples:\n"
      "  nullscope warm-up --device gpu\n"
      "  nullscope warm-up sweep hta\n"
      "  NULLSCOPE_KERNEL_CACHE=/shared/kernels nullscope warm-up --device gpu --double");
  command->callback([settings] { run(*settings); });
}

}  // namespace nullscope::cli
