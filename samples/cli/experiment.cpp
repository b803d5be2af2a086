/// nullscope experiment: the synthetic experiments on what transformers can represent.
#include <fmt/format.h>

#include <nullscope/atomic_file.hpp>
#include <nullscope/device.hpp>
#include <nullscope/errors.hpp>

#include "commands.hpp"
#include "experiment_output.hpp"
#include "progress.hpp"
#include "validators.hpp"
#include "waiting_note.hpp"

namespace nullscope::cli {
namespace {

struct experiment_command {
  std::string output, device;
  std::vector<std::int64_t> layers{1, 2};
  std::vector<std::string> networks{"encoder", "decoder"};
  std::int64_t width = 64, epochs = 0, samples = 0, words = 200, seed = 1;
};

std::vector<experiment_network> networks_of(const experiment_command& command) {
  std::vector<experiment_network> networks;
  for (const std::string& kind : command.networks) {
    for (const std::int64_t layers : command.layers) {
      networks.push_back({.decoder = kind == "decoder", .layers = layers, .width = command.width});
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
    const transformer<float> model = train_network(ctx, network, words, data, training);
    use(network, model);
    bar.advance(1 - before);
  }
}

void run_on_linear_data(const experiment_command& command, bool with_surrogates) {
  context ctx(select_device(command.device));
  const std::int64_t samples = command.samples == 0 ? 5000 : command.samples;
  experiment_training training{.epochs = command.epochs == 0 ? 5 : command.epochs};
  training.seed = static_cast<std::uint64_t>(command.seed);
  std::vector<linear_data_row> rows;
  train_all(ctx, command, std::ssize(linear_words().words), linear_data(samples, training.seed), training,
            [&](const experiment_network& network, const transformer<float>& model) {
              rows.push_back({network, compare_surrogates(ctx, model)});
            });
  if (with_surrogates) {
    print_surrogates(rows);
  } else {
    print_linear(rows);
  }
  if (command.output.empty()) return;
  std::filesystem::create_directories(command.output);
  const std::filesystem::path folder(command.output);
  const std::string name = with_surrogates ? "surrogates" : "linear";
  write_atomically(folder / (name + ".csv"), linear_data_csv(rows));
  write_atomically(folder / (name + ".svg"), with_surrogates ? surrogates_chart(rows) : linear_chart(rows));
}

void run_recovery(const experiment_command& command) {
  context ctx(select_device(command.device));
  const std::int64_t samples = command.samples == 0 ? 20000 : command.samples;
  experiment_training training{.epochs = command.epochs == 0 ? 20 : command.epochs, .batch = 100};
  training.seed = static_cast<std::uint64_t>(command.seed);
  const slalom_model planted = random_slalom(command.words, training.seed);
  std::vector<recovery_row> rows;
  train_all(ctx, command, command.words, slalom_data(planted, samples, 30, training.seed), training,
            [&](const experiment_network& network, const transformer<float>& model) {
              for (const recovery_fit fit : {recovery_fit::least_squares, recovery_fit::sgd, recovery_fit::analytic}) {
                const auto add = [&](std::int64_t words, std::int64_t longest) {
                  rows.push_back({network, fit, words, longest,
                                  recover_slalom(ctx, model, planted, fit, {.words = words, .longest = longest})});
                };
                for (std::int64_t words = 5; words < command.words; words *= 3) add(words, 30);
                for (const std::int64_t longest : {2, 5, 10, 20}) add(command.words, longest);
                add(command.words, 30);
              }
            });
  print_recovery(rows, command.words);
  if (command.output.empty()) return;
  std::filesystem::create_directories(command.output);
  const std::filesystem::path folder(command.output);
  write_atomically(folder / "recovery.csv", recovery_csv(rows));
  write_atomically(folder / "recovery.svg", recovery_chart(rows, planted));
}

void add_options(CLI::App& app, experiment_command& command, const char* samples_help, const char* epochs_help) {
  const auto number = [&](const char* name, std::int64_t& value, const char* text) {
    return app.add_option(name, value, text)->check(positive_integer());
  };
  app.add_option("--networks", command.networks, "encoder, decoder, or both, separated by commas")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"encoder", "decoder"}));
  app.add_option("--layers", command.layers, "Numbers of layers, separated by commas")
      ->delimiter(',')
      ->capture_default_str()
      ->check(positive_integer());
  number("--width", command.width, "Width of the networks, a multiple of 4")->capture_default_str();
  number("--samples", command.samples, samples_help);
  number("--epochs", command.epochs, epochs_help);
  app.add_option("--seed", command.seed, "Seed of data and networks")->capture_default_str()->check(natural_number());
  app.add_option("--device", command.device, device_help);
  app.add_option("--output", command.output, "Folder for a table (.csv) and a chart (.svg)")->check(some_path());
}

}  // namespace

void add_experiment(CLI::App& app) {
  CLI::App* experiment =
      app.add_subcommand("experiment", "Synthetic experiments: what transformers and surrogates can represent");
  experiment->require_subcommand(1);
  experiment->footer("nullscope experiment <name> --help shows the options of an experiment.");
  const auto add = [&](const char* name, const char* text, const char* footer, const char* samples, const char* epochs,
                       const std::function<void(const experiment_command&)>& run) {
    auto command = std::make_shared<experiment_command>();
    CLI::App* one = experiment->add_subcommand(name, text);
    add_options(*one, *command, samples, epochs);
    one->footer(footer);
    one->callback([command, run] { run(*command); });
    return std::pair(one, command);
  };
  add("linear", "Transformers fail on linear data",
      "Trains on sequences of ten words whose log-odds are the sum of their weights, and asks the networks about\n"
      "\"perfect\" repeated 1 to 30 times: the log-odds should grow by 1.5 with every word.\n\n"
      "Examples:\n"
      "  nullscope experiment linear --output results\n"
      "  nullscope experiment linear --networks encoder --layers 1,2,6",
      "Sequences to learn from (default: 5000)", "Epochs (default: 5)",
      [](const experiment_command& command) { run_on_linear_data(command, false); });
  add("surrogates", "SLALOM describes transformers better than linear and additive models",
      "Trains as the experiment linear does. Then a linear model, an additive one (a weight for each word at each\n"
      "place, with lasso) and SLALOM are fitted to the networks' log-odds on 10000 sequences, and compared on 10000\n"
      "others.\n\n"
      "Example:\n"
      "  nullscope experiment surrogates --output results",
      "Sequences to learn from (default: 5000)", "Epochs (default: 5)",
      [](const experiment_command& command) { run_on_linear_data(command, true); });
  const auto [recovery, command] =
      add("recovery", "A planted SLALOM comes back from what a transformer has learnt",
          "Trains on sequences whose labels follow a random SLALOM, fits SLALOMs to the networks' log-odds by least\n"
          "squares, by SGD and analytically, and compares parameters and log-odds with the planted ones; also for\n"
          "fewer words and shorter sequences.\n\n"
          "Examples:\n"
          "  nullscope experiment recovery --output results\n"
          "  nullscope experiment recovery --words 50 --networks encoder --layers 1",
          "Sequences to learn from (default: 20000)", "Epochs (default: 20)", run_recovery);
  recovery->add_option("--words", command->words, "Words of the vocabulary")
      ->capture_default_str()
      ->check(positive_integer());
}

}  // namespace nullscope::cli
