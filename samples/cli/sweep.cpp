/// nullscope sweep: rank and null space of T, and effective attention, over the sequence length.
#include "commands.hpp"
#include "sweep_run.hpp"
#include "validators.hpp"

namespace nullscope::cli {
namespace {

void add_options(CLI::App& sweep, sweep_command& command) {
  sweep_settings& settings = command.settings;
  const auto number = [&](const char* name, std::int64_t& value, const char* text) {
    return sweep.add_option(name, value, text)->check(positive_integer());
  };
  CLI::Option* first = number("--min-length", settings.min_length, "The shortest sequence (default: 16)");
  CLI::Option* last = number("--max-length", settings.max_length, "The longest sequence (default: 4096)");
  CLI::Option* step =
      number("--per-doubling", settings.per_doubling, "Lengths for each doubling between them (default: 2)");
  sweep.add_option("--lengths", settings.lengths, "These lengths instead, separated by commas")
      ->delimiter(',')
      ->check(positive_integer())
      ->excludes(first)
      ->excludes(last)
      ->excludes(step);
  number("--samples", settings.samples,
         "Samples a length (default: 10, of added heads 2; fewer above 4096 tokens, in proportion)");
  number("--width", settings.width, "Model width d (default: 512)");
  number("--heads", settings.heads, "Heads h (default: 8)");
  number("--key-size", settings.key_size, "d_k, independent of the values (default: d / h)");
  sweep
      .add_option("--heads-are", settings.heads_are,
                  "How heads form the output: concatenated (d_v = d / h), added (d_v = d) or both (default)")
      ->check(CLI::IsMember({"concatenated", "added", "both"}));
  sweep.add_option("--seed", settings.seed, "Of all random numbers (default: 1)")->check(seed_number());
  sweep
      .add_option("--type", command.type,
                  "f32 or f64 (default, where the device has it): single precision is faster, and misses a few of 512 "
                  "singular values")
      ->check(CLI::IsMember({"f32", "f64"}));
  sweep
      .add_option("--pearson-up-to", settings.pearson_up_to,
                  "The longest sequence with a correlation of raw and effective attention, which takes time S^2; 0: "
                  "none (default: all, of added heads 4096). Heads of more than 512 columns have none")
      ->check(natural_number());
  sweep.add_flag(
      "--logit-rank", settings.logit_rank,
      "Also the rank of the logits of alternative weights, for S from d_v + 2 to 2 max(d_v, d_k), against d_k");
  sweep.add_option("--memory", settings.memory, "Device memory that a process may use (default: 3GiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(positive_integer());
  sweep.add_option("--device", command.device, "An index, cpu, gpu, gpu:1 or a part of the name");
  sweep.add_option("--output", command.folder, "The folder for the files (default: the current one)")
      ->check(some_path());
  CLI::Option* resume = sweep.add_flag("--resume", command.resume, "Go on with an interrupted sweep");
  sweep
      .add_flag("--overwrite", command.overwrite,
                "Begin anew where a sweep of other settings, or an unfinished one, is already")
      ->excludes(resume);
  sweep.add_flag("--quiet", command.quiet, "No table");
}

}  // namespace

void add_sweep(CLI::App& app) {
  auto command = std::make_shared<sweep_command>();
  CLI::App* sweep = app.add_subcommand(
      "sweep", "Rank and null space of T = V H, and the correlation of raw and effective attention, over the length");
  add_options(*sweep, *command);
  sweep->footer(
      "Random heads: tokens E normal, weights with deviation 1 / sqrt(rows), V = E W_V. One line a length as it "
      "becomes\n"
      "complete; sweep.csv and sweep.json hold every head, sweep.svg is a chart. Finished work is kept in "
      "sweep.journal\n"
      "until the end, so that --resume can go on after a kill. The same settings and seed give the same files, "
      "however\n"
      "the work was split.\n\n"
      "Examples:\n"
      "  nullscope sweep --output results\n"
      "  nullscope sweep --samples 100 --heads-are concatenated --min-length 64 --pearson-up-to 0\n"
      "  nullscope sweep --lengths 66,100,128 --logit-rank\n"
      "  nullscope sweep --max-length 131072 --type f32 --output long --resume\n"
      "  mpirun -n 4 nullscope sweep --output results          (built with NULLSCOPE_MPI)");
  sweep->callback([command] {
    command->settings = complete(command->settings);
    run_sweep(*command);
  });
}

}  // namespace nullscope::cli
