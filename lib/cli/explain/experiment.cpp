/// nullscope experiment: the synthetic experiments on what transformers can represent.
#include <fmt/format.h>

#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/cli/common/waiting_note.hpp"
#include "lib/cli/explain/experiment_output.hpp"
#include "lib/src/io/atomic_file.hpp"

namespace nullscope::cli {
namespace {

struct experiment_command {
  std::string output, device;
  std::vector<std::int64_t> layers{1, 2}, hidden{8, 64, 256};
  std::vector<std::string> networks{"encoder", "decoder"};
  std::int64_t width = 64, epochs, samples, words = 200, seed = 1;
  rerun_options rerun;
};

std::vector<experiment_network> networks_of(const experiment_command& command) {
  std::vector<experiment_network> networks;
  for (const std::string& kind : command.networks) {
    if (kind == "fully-connected") {
      for (const std::int64_t width : command.hidden) {
        networks.push_back({.kind = network_kind::fully_connected, .layers = 2, .width = width});
      }
      continue;
    }
    for (const std::int64_t layers : command.layers) {
      networks.push_back({.kind = kind == "decoder" ? network_kind::decoder : network_kind::encoder,
                          .layers = layers,
                          .width = command.width});
    }
  }
  return networks;
}

/// Trains every network on the data, and calls use(network, model) for each.
template <class Use>
void train_all(context& ctx, const experiment_command& command, std::int64_t words,
               const std::vector<labelled_sequence>& data, experiment_training training, Use use) {
  const std::vector<experiment_network> networks = networks_of(command);
  const waiting_note note = note_of_first_use(ctx);
  progress_bar bar(static_cast<double>(networks.size()), 0);
  for (const experiment_network& network : networks) {
    double before = 0;
    training.progress = [&](double share) {
      bar.advance(share - before);
      before = share;
      bar.draw(network.name());
    };
    use(network, train_network(ctx, network, words, data, training));
    bar.advance(1 - before);
  }
}

experiment_training training_of(const experiment_command& command, std::int64_t batch) {
  experiment_training training;
  training.batch = batch;
  training.seed = static_cast<std::uint64_t>(command.seed);
  return training;
}

nlohmann::ordered_json settings_of(const experiment_command& command, const std::string& name,
                                   const sycl::device& device) {
  nlohmann::ordered_json settings = common_settings("experiment", device);
  settings.update({{"experiment", name},
                   {"networks", command.networks},
                   {"layers", command.layers},
                   {"hidden", command.hidden},
                   {"width", command.width},
                   {"epochs", command.epochs},
                   {"samples", command.samples},
                   {"words", command.words},
                   {"seed", command.seed}});
  return settings;
}

/// Where an experiment writes: a table, a chart and the settings of both.
output_place place_of(const experiment_command& command, const std::string& name) {
  const std::filesystem::path folder(command.output);
  return {.result = settings_file(folder / name), .others = {folder / (name + ".csv"), folder / (name + ".svg")}};
}

/// Whether the results exist already; never without --output.
bool is_made(const experiment_command& command, const std::string& name, const nlohmann::ordered_json& settings) {
  return !command.output.empty() && is_finished(place_of(command, name), settings, command.rerun);
}

void write(const experiment_command& command, const std::string& name, const nlohmann::ordered_json& settings,
           const std::string& table, const std::string& chart) {
  const output_place place = place_of(command, name);
  begin_writing(place);
  write_atomically(place.others[0], table);
  write_atomically(place.others[1], chart);
  write_settings(place.result, settings);
}

void run_on_linear_data(const experiment_command& command, bool with_surrogates) {
  const std::string name = with_surrogates ? "surrogates" : "linear";
  const sycl::device device = select_device(command.device);
  const nlohmann::ordered_json settings = settings_of(command, name, device);
  if (is_made(command, name, settings)) return;
  context ctx(device);
  const experiment_training training = training_of(command, 20);
  std::vector<linear_data_row> rows;
  train_all(ctx, command, std::ssize(linear_words().words),
            linear_data(command.epochs * command.samples, training.seed), training,
            [&](const experiment_network& network, const explained_model& model) {
              rows.push_back({network, compare_surrogates(ctx, model)});
            });
  if (with_surrogates) {
    print_surrogates(rows);
  } else {
    print_linear(rows);
  }
  if (command.output.empty()) return;
  write(command, name, settings, linear_data_csv(rows), with_surrogates ? surrogates_chart(rows) : linear_chart(rows));
}

void run_recovery(const experiment_command& command) {
  const sycl::device device = select_device(command.device);
  const nlohmann::ordered_json settings = settings_of(command, "recovery", device);
  if (is_made(command, "recovery", settings)) return;
  context ctx(device);
  const experiment_training training = training_of(command, 100);
  const slalom_model planted = random_slalom(command.words, training.seed);
  const std::vector<std::int64_t> lengths{2, 5, 10, 20, 30};
  std::vector<recovery_row> rows;
  train_all(ctx, command, command.words, slalom_data(planted, command.epochs * command.samples, 30, training.seed),
            training, [&](const experiment_network& network, const explained_model& model) {
              for (const recovery_fit fit : {recovery_fit::least_squares, recovery_fit::sgd, recovery_fit::analytic}) {
                const auto add = [&](std::int64_t words) {
                  const recovery_errors errors =
                      recover_slalom(ctx, model, planted, fit, {.words = words, .longest = lengths});
                  rows.push_back({network, fit, words, lengths, errors});
                };
                for (std::int64_t words = 5; words < command.words; words *= 3) add(words);
                add(command.words);
              }
            });
  print_recovery(rows, command.words);
  if (command.output.empty()) return;
  write(command, "recovery", settings, recovery_csv(rows), recovery_chart(rows, planted));
}

void add_options(CLI::App& app, experiment_command& command) {
  const auto number = [&](const char* name, std::int64_t& value, const char* text) {
    app.add_option(name, value, text)->capture_default_str()->check(positive_integer());
  };
  app.add_option("--layers", command.layers, "Numbers of layers of the transformers, separated by commas")
      ->delimiter(',')
      ->capture_default_str()
      ->check(positive_integer());
  number("--width", command.width, "Width of the transformers, a multiple of 4");
  number("--samples", command.samples, "Sequences per epoch");
  number("--epochs", command.epochs, "Epochs, each with new sequences");
  app.add_option("--seed", command.seed, "Seed of data and networks")->capture_default_str()->check(natural_number());
  add_overwrite(app, command.rerun);
  app.add_option("--device", command.device, device_help);
  app.add_option("--output", command.output, "Folder for a table (.csv) and a chart (.svg)")->check(some_path());
}

/// Declares --networks; `all` are the choices, and the default.
void add_networks(CLI::App& app, experiment_command& command, const std::vector<std::string>& all) {
  command.networks = all;
  app.add_option("--networks", command.networks, "Which networks to train, separated by commas")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember(all));
}

void add_on_linear_data(CLI::App& app, const std::shared_ptr<experiment_command>& command, bool with_surrogates) {
  command->samples = 5000, command->epochs = 5;
  add_networks(app, *command, {"encoder", "decoder", "fully-connected"});
  app.add_option("--hidden", command->hidden,
                 "Hidden-layer widths of the fully connected networks, separated by commas")
      ->delimiter(',')
      ->capture_default_str()
      ->check(positive_integer());
  add_options(app, *command);
  app.callback([command, with_surrogates] { run_on_linear_data(*command, with_surrogates); });
}

}  // namespace

void add_experiment(CLI::App& app) {
  CLI::App* experiment =
      app.add_subcommand("experiment", "Synthetic experiments: what transformers and surrogates can represent");
  experiment->require_subcommand(1);
  experiment->footer("nullscope experiment <name> --help shows the options of an experiment.");

  CLI::App* linear = experiment->add_subcommand("linear", "Transformers fail on linear data");
  add_on_linear_data(*linear, std::make_shared<experiment_command>(), false);
  linear->footer(
      "Trains on sequences of ten words whose log-odds are the sum of their weights, and asks the networks about\n"
      "\"perfect\" repeated 1 to 30 times: the log-odds should grow by 1.5 with every word. Fully connected networks\n"
      "of two layers, which read the counts of the words, learn this.\n\n"
      "Examples:\n"
      "  nullscope experiment linear --output results\n"
      "  nullscope experiment linear --networks encoder --layers 1,2,6");

  CLI::App* surrogates =
      experiment->add_subcommand("surrogates", "SLALOM describes transformers better than linear and additive models");
  add_on_linear_data(*surrogates, std::make_shared<experiment_command>(), true);
  surrogates->footer(
      "Trains as the experiment linear does. Then a linear model, an additive one (a weight for each word at each\n"
      "place, with lasso) and SLALOM are fitted to the networks' log-odds on 10000 sequences, and compared on 10000\n"
      "others.\n\n"
      "Example:\n"
      "  nullscope experiment surrogates --output results");

  CLI::App* recovery =
      experiment->add_subcommand("recovery", "Recover a planted SLALOM from a transformer that was trained on it");
  const auto command = std::make_shared<experiment_command>();
  command->samples = 20000, command->epochs = 15;
  add_networks(*recovery, *command, {"encoder", "decoder"});
  recovery->add_option("--words", command->words, "Number of words in the vocabulary")
      ->capture_default_str()
      ->check(positive_integer());
  add_options(*recovery, *command);
  recovery->callback([command] { run_recovery(*command); });
  recovery->footer(
      "Trains on sequences whose labels follow a random SLALOM, fits SLALOMs to the networks' log-odds by least\n"
      "squares, by SGD and analytically, and compares parameters and log-odds with the planted ones; also for the\n"
      "first words of the vocabulary alone, and for shorter sequences.\n\n"
      "Examples:\n"
      "  nullscope experiment recovery --output results\n"
      "  nullscope experiment recovery --words 50 --networks encoder --layers 1");
}

}  // namespace nullscope::cli
