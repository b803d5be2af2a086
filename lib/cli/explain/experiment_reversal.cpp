/// nullscope experiment reversal: attention with a known structure, compared in several norms.
#include <fmt/format.h>

#include <filesystem>
#include <iterator>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>

#include "lib/cli/charts/heat_map.hpp"
#include "lib/cli/commands.hpp"
#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/cli/common/waiting_note.hpp"
#include "lib/src/io/atomic_file.hpp"
#include "lib/src/studies/reversal_experiment.hpp"

namespace nullscope::cli {
namespace {

struct reversal_command {
  std::string output, device;
  reversal_options options;
  rerun_options rerun;
};

std::string maps_of(const reversal_result& result, std::int64_t tokens) {
  std::vector<std::string> names;
  for (std::int64_t i = 1; i <= tokens; ++i) names.push_back(std::to_string(i));
  std::vector<std::vector<double>> values{{result.attention.begin(), result.attention.end()}};
  std::vector<std::string> titles{"Attention of one input"};
  for (const reversal_structure& one : result.structures) {
    titles.push_back(fmt::format("W, l = {:.1f}", one.threshold));
    values.emplace_back(one.w.begin(), one.w.end());
  }
  std::vector<heat_map> maps;
  for (std::size_t i = 0; i < values.size(); ++i) maps.push_back({titles[i], values[i]});
  return draw_heat_maps(fmt::format("Reversal of {} tokens: attention, and W over the threshold", tokens), names, maps,
                        4);
}

nlohmann::ordered_json settings_of(const reversal_command& command, const sycl::device& device) {
  nlohmann::ordered_json settings = common_settings("experiment", device);
  settings.update({{"experiment", "reversal"},
                   {"tokens", command.options.tokens},
                   {"vocabulary", command.options.vocabulary},
                   {"value_size", command.options.value_size},
                   {"steps", command.options.most_steps},
                   {"inputs", command.options.inputs},
                   {"cut", command.options.cut},
                   {"seed", command.options.seed}});
  return settings;
}

output_place place_of_reversal(const std::filesystem::path& folder) {
  return {.result = settings_file(folder / "reversal"),
          .others = {folder / "reversal_structure.csv", folder / "reversal_distances.csv", folder / "reversal.svg"}};
}

void write(const std::filesystem::path& folder, const reversal_result& result, std::int64_t tokens,
           const nlohmann::ordered_json& settings) {
  const output_place place = place_of_reversal(folder);
  begin_writing(place);
  std::string structures = "threshold,emptied_rows,share_on_antidiagonal\n";
  for (const reversal_structure& one : result.structures) {
    fmt::format_to(std::back_inserter(structures), "{:.1f},{},{}\n", one.threshold, one.emptied, one.on_antidiagonal);
  }
  std::string distances = "matrix,plain,structure,output_change\n";
  for (const reversal_distance& one : result.distances) {
    fmt::format_to(std::back_inserter(distances), "\"{}\",{},{},{}\n", one.name, one.plain, one.structure,
                   one.output_change);
  }
  write_atomically(folder / "reversal_structure.csv", structures);
  write_atomically(folder / "reversal_distances.csv", distances);
  write_atomically(folder / "reversal.svg", maps_of(result, tokens));
  write_settings(place.result, settings);
}

void print(const reversal_result& result, std::int64_t tokens) {
  fmt::print("{:.2f} % of the tokens are right after {} steps\n\n", 100 * result.accuracy, result.steps);
  fmt::print("  l    rows that are empty   share of W on the antidiagonal\n");
  for (const reversal_structure& one : result.structures) {
    fmt::print("{:.1f}{:>12} of {:<4}{:>24.2f} %\n", one.threshold, one.emptied, tokens, 100 * one.on_antidiagonal);
  }
  fmt::print("\n{:<36}{:>12}{:>18}{:>18}\n", "distance from the attention", "plain", "structure-aware",
             "change of output");
  for (const reversal_distance& one : result.distances) {
    fmt::print("{:<36}{:>12.5f}{:>18.5f}{:>18.2g}\n", one.name, one.plain, one.structure, one.output_change);
  }
}

void run(const reversal_command& command) {
  if (command.options.value_size + 1 >= command.options.tokens) {
    throw usage_error("--value-size must be below --tokens - 1: otherwise attention has no null space");
  }
  const sycl::device device = select_device(command.device);
  const nlohmann::ordered_json settings = settings_of(command, device);
  const bool writes = !command.output.empty();
  if (writes && is_finished(place_of_reversal(command.output), settings, command.rerun)) return;
  context ctx(device);
  const waiting_note note = note_of_first_use(ctx);
  progress_bar bar(static_cast<double>(command.options.most_steps), 0);
  reversal_options options = command.options;
  std::int64_t before = 0;
  options.progress = [&](std::int64_t step, double accuracy) {
    bar.advance(static_cast<double>(step - before));
    before = step;
    bar.draw(fmt::format("accuracy {:.1f} %", 100 * accuracy));
  };
  const reversal_result result = run_reversal(ctx, options);
  bar.clear();
  print(result, options.tokens);
  if (writes) write(command.output, result, options.tokens, settings);
}

}  // namespace

void add_experiment_reversal(CLI::App& app) {
  CLI::App* experiment = app.get_subcommand("experiment");
  auto command = std::make_shared<reversal_command>();
  CLI::App* reversal = experiment->add_subcommand("reversal", "Attention with a known structure: reversed sequences");
  const auto number = [&](const char* name, std::int64_t& value, const char* text) {
    reversal->add_option(name, value, text)->capture_default_str()->check(positive_integer());
  };
  number("--tokens", command->options.tokens, "Tokens of a sequence");
  number("--vocabulary", command->options.vocabulary, "Number of different tokens");
  number("--value-size", command->options.value_size, "d_v of the head, below --tokens - 1");
  number("--steps", command->options.most_steps,
         "Maximum number of training steps; training stops early above 99.9 % test accuracy");
  number("--inputs", command->options.inputs, "Inputs from which W is extracted");
  reversal->add_option("--cut", command->options.cut, "Threshold of W for the distances")
      ->capture_default_str()
      ->check(not_negative_number());
  reversal->add_option("--seed", command->options.seed, "Seed of data and model")
      ->capture_default_str()
      ->check(seed_number());
  add_overwrite(*reversal, command->rerun);
  reversal->add_option("--device", command->device, device_help);
  reversal->add_option("--output", command->output, "Folder for tables (.csv) and heat maps (.svg)")
      ->check(some_path());
  reversal->footer(
      "Trains a transformer of one layer and one head to reverse random sequences. Extracts the weights W of the\n"
      "structure-aware norm for thresholds l from 0 to 1, and compares matrices with the attention of one input in "
      "the\n"
      "plain norm (mean absolute difference), in the structure-aware norm, and by what they change in the output.\n\n"
      "Examples:\n"
      "  nullscope experiment reversal\n"
      "  nullscope experiment reversal --output results --seed 2");
  reversal->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
