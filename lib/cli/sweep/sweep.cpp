/// nullscope sweep: rank and null space of T, and effective attention, over the sequence length.
#include <algorithm>
#include <nullscope/core/errors.hpp>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/cli/sweep/sweep_run.hpp"

namespace nullscope::cli {
namespace {

void add_model_options(CLI::App& sweep, text_input_options& input) {
  input.model.clear();
  input.warns = false;  // longer texts are cut to every length anyway
  CLI::Option* file =
      sweep.add_option("--file", input.file, "The texts: one per line, or a table (.csv, .tsv)")->check(some_path());
  sweep.add_option("--text-column", input.text_column, "The column of the table that holds the texts")->needs(file);
  CLI::Option* model = sweep
                           .add_option("--model", input.model,
                                       "Sweep the heads of this model (a name, see nullscope models, or a folder) "
                                       "that reads the texts of --file (default: random heads)")
                           ->check(some_path())
                           ->needs(file);
  file->needs(model);
  for (const char* name : {"--width", "--heads", "--key-size", "--heads-are"}) {
    model->excludes(sweep.get_option(name));
  }
}

/// Calls `complete`. What the library says of a setting becomes a mistake in the option of that name.
template <class Complete>
sweep_settings complete_options(Complete complete) {
  try {
    return complete();
  } catch (const invalid_argument& failure) {
    std::string message = failure.what();
    for (const std::string setting : {"min_length", "max_length", "per_doubling", "logit_rank"}) {
      const std::size_t at = message.find(setting);
      if (at == std::string::npos) continue;
      std::string option = "--" + setting;
      std::ranges::replace(option, '_', '-');
      message.replace(at, setting.size(), option);
    }
    throw usage_error(message);
  }
}

/// The model and its texts, and the settings that follow from them.
void read_model(sweep_command& command, const text_input_options& input, bool has_max_length) {
  const auto model = std::make_shared<const swept_model>(read_swept_model(input));
  sweep_settings& settings = command.settings;
  if (!has_max_length) {
    settings.max_length = std::max(settings.min_length, std::min(settings.max_length, model->texts.longest()));
  }
  settings = complete_options([&] { return complete_for_model(settings, *model); });
  command.model = model;
}

void add_options(CLI::App& sweep, sweep_command& command) {
  sweep_settings& settings = command.settings;
  const auto number = [&](const char* name, std::int64_t& value, const char* text) {
    return sweep.add_option(name, value, text)->check(positive_integer());
  };
  CLI::Option* first = number("--min-length", settings.min_length, "The shortest sequence (default: 16)");
  CLI::Option* last = number("--max-length", settings.max_length, "The longest sequence (default: 4096)");
  CLI::Option* step = number("--per-doubling", settings.per_doubling, "Number of lengths per doubling (default: 2)");
  sweep.add_option("--lengths", settings.lengths, "Use exactly these lengths, separated by commas")
      ->delimiter(',')
      ->check(positive_integer())
      ->excludes(first)
      ->excludes(last)
      ->excludes(step);
  number("--samples", settings.samples,
         "Samples per length (default: 10, for added heads 2; proportionally fewer above 4096 tokens)");
  number("--width", settings.width, "Model width d (default: 512)");
  number("--heads", settings.heads, "Heads h (default: 8)");
  number("--key-size", settings.key_size, "d_k, independent of the values (default: d / h)");
  sweep
      .add_option("--heads-are", settings.heads_are,
                  "How the heads form the output: concatenated (d_v = d / h), added (d_v = d) or both (default)")
      ->check(CLI::IsMember({"concatenated", "added", "both"}));
  sweep.add_option("--seed", settings.seed, "Random seed (default: 1)")->check(seed_number());
  sweep
      .add_option(
          "--type", command.type,
          "f32 or f64 (default: f64 if the device supports it). f32 is faster, but misses a few of 512 singular "
          "values")
      ->check(CLI::IsMember({"f32", "f64"}));
  sweep
      .add_option("--pearson-up-to", settings.pearson_up_to,
                  "Longest sequence for which to correlate raw and effective attention, which takes O(S^2) time; 0: "
                  "none (default: all, for added heads 4096). Skipped for heads with more than 512 columns")
      ->check(natural_number());
  sweep.add_flag("--logit-rank", settings.logit_rank,
                 "Also compute the rank of the logits of alternative weights, for S from d_v + 2 to 2 max(d_v, d_k)");
  number("--query-sample", settings.query_sample,
         "Estimate correlation and norms of longer sequences from this many random queries of each head, with standard "
         "errors, in O(S M) time (default: all queries, exact)");
  number("--query-block", settings.query_block,
         "Queries of one head that form a unit of work, rounded up to a multiple of 12288, so that several devices or "
         "processes share a long head (default: whole heads up to 131072 tokens, then about a minute of work)");
  sweep.add_option("--memory", settings.memory, "Memory to use on each device, at most (default: 3GiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(positive_integer());
  sweep.add_option("--device", command.device, devices_help);
  sweep.add_option("--output", command.folder, "Folder for the files (default: the current folder)")
      ->check(some_path());
  add_resume_and_overwrite(sweep, command.rerun);
  sweep.add_flag("--times", command.times,
                 "Also write the time per length: sweep_times.csv and a chart, sweep_times.svg");
  sweep.add_flag("--quiet", command.quiet, "Do not print the table");
}

}  // namespace

void add_sweep(CLI::App& app) {
  auto command = std::make_shared<sweep_command>();
  auto input = std::make_shared<text_input_options>();
  CLI::App* sweep = app.add_subcommand(
      "sweep", "Rank and null space of T = V H, and the correlation of raw and effective attention, over the length");
  add_options(*sweep, *command);
  add_model_options(*sweep, *input);
  sweep->footer(
      "By default the heads are random: normal tokens E, weights with deviation 1 / sqrt(rows), V = E W_V. With "
      "--model\n"
      "they are the heads of all layers of a model: at each length S, it reads --samples texts of at least S tokens,\n"
      "chosen by the seed and cut to S; V includes its bias.\n"
      "Prints one line per length. sweep.csv and sweep.json contain every head, sweep.svg is a chart. Finished work "
      "is\n"
      "kept in sweep.journal until the end, so that --resume can continue after an interruption. The same settings "
      "and\n"
      "seed give the same files, however the work is split among devices, processes and blocks of queries.\n"
      "With --query-sample, columns ending in _error hold standard errors (delta method, sampling without\n"
      "replacement).\n"
      "If interrupted by a signal, the exit code is 128 + the number of the signal (130: Ctrl-C).\n\n"
      "Examples:\n"
      "  nullscope sweep --output results\n"
      "  nullscope sweep --samples 100 --heads-are concatenated --min-length 64 --pearson-up-to 0\n"
      "  nullscope sweep --lengths 66,100,128 --logit-rank\n"
      "  nullscope sweep --max-length 131072 --type f32 --output long --resume\n"
      "  nullscope sweep --model minilm --file reviews.csv --text-column text --samples 20 --output minilm\n"
      "  nullscope sweep --width 64 --heads 1 --samples 1 --lengths 65536,1048576 --heads-are concatenated "
      "--query-sample 4096\n"
      "  nullscope sweep --device all --output results\n"
      "  mpirun -n 4 nullscope sweep --output results          (needs a build with NULLSCOPE_MPI)");
  sweep->callback([command, input, sweep] {
    if (input->model.empty()) {
      command->settings = complete_options([&] { return complete(command->settings); });
    } else {
      read_model(*command, *input, sweep->count("--max-length") > 0);
    }
    run_sweep(*command);
  });
}

}  // namespace nullscope::cli
