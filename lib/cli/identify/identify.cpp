/// nullscope identify: can hidden tokens still be recognised as their input tokens?
#include "lib/cli/commands.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/cli/identify/identify_run.hpp"

namespace nullscope::cli {

void add_identify(CLI::App& app) {
  auto command = std::make_shared<identify_command>();
  CLI::App* identify = app.add_subcommand("identify", "Token identifiability: which hidden tokens can be recognised");
  add_text_input(*identify, command->input);
  identify->add_option("--output", command->output, "Folder to write")->required()->check(some_path());
  identify
      ->add_option("--experiment", command->study.experiments,
                   "layers (a probe for each layer), transfer (tested on all layers), generalisation (training against "
                   "test, and less data), steps (from a layer to the one before), neighbours (tokens i +- 1, 2, 3)")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"layers", "transfer", "generalisation", "steps", "neighbours"}));
  identify
      ->add_option("--map", command->study.maps,
                   "identity, linear, mlp (trained by Adam) or least-squares (linear, exact, loss L2)")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"identity", "linear", "mlp", "least-squares"}));
  identify
      ->add_option("--distance", command->study.distances, "cosine or l2, for the loss and for the nearest neighbour")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"cosine", "l2"}));
  identify->add_option("--layers", command->study.layers, "Layers to train on (default: all)")
      ->delimiter(',')
      ->check(positive_integer());
  const auto number = [&](const char* name, std::int64_t& value, const char* text) {
    identify->add_option(name, value, text)->capture_default_str()->check(positive_integer());
  };
  number("--folds", command->study.folds, "Folds: each has its own 70/15/15 split of the texts");
  identify
      ->add_option("--learning-rate", command->study.rates,
                   "Learning rate of Adam; given several, each probe uses the one with the lowest validation loss")
      ->delimiter(',')
      ->capture_default_str()
      ->check(positive_number());
  number("--batch", command->study.training.batch, "Tokens per batch");
  number("--patience", command->study.training.patience, "Epochs without a lower validation loss before a probe stops");
  number("--epochs", command->study.training.most_epochs, "Maximum number of epochs");
  number("--hidden-units", command->study.training.hidden_units, "Hidden units of the MLP");
  identify->add_option("--limit", command->limit, "Read at most this many texts of the file")
      ->check(positive_integer());
  identify->add_option("--seed", command->study.seed, "Seed of folds, batches and first weights")
      ->capture_default_str()
      ->check(seed_number());
  identify
      ->add_option("--memory", command->study.memory,
                   "Device memory for probes that train side by side, besides the hidden tokens (default: 2GiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(positive_integer());
  add_resume_and_overwrite(*identify, command->rerun);
  identify->add_flag("--quiet", command->quiet, "Print nothing but errors");
  identify->add_option("--device", command->device, device_help);
  identify->footer(
      "Writes into the folder\n"
      "  identify.csv      experiment, map, distance, trained_on, tested_on (layers), offset, fold, tokens, correct;\n"
      "                    generalisation-training and -test use all training data, -test-50, -80 and -90\n"
      "                    that percentage of the texts, for the layer before the last\n"
      "  identify.json     settings, mean rates with their standard deviations over folds, epochs of each probe\n"
      "  <experiment>.svg  a chart with bars of one standard deviation\n"
      "Finished work is kept in identify.journal until the end, so that --resume can continue.\n"
      "Adam, batch size, early stopping and initial weights are those of Brunner et al. 2020, appendix B.1.\n\n"
      "Examples:\n"
      "  nullscope identify --file texts.txt --map identity,least-squares --distance cosine --output results\n"
      "  nullscope identify --file reviews.csv --text-column text --max-length 64 --limit 400 --folds 3 --output "
      "results\n"
      "  nullscope identify --file pairs.tsv --text-column a --pair-column b --experiment layers,transfer,steps "
      "--output results");
  identify->callback([command] { run_identify(*command); });
}

}  // namespace nullscope::cli
