/// nullscope train: trains a classifier of texts, or fine-tunes a model.
#include "lib/cli/commands.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/cli/train/train_run.hpp"

namespace nullscope::cli {
namespace {

void add_data_options(CLI::App& train, train_command& command) {
  train.add_option("--data", command.data, "CSV or TSV file with texts and labels")->required()->check(some_path());
  train
      .add_option("--test", command.test,
                  "File with the test texts; 70 % of the data is then for training, 30 % for validation (default: 70 % "
                  "training, 15 % validation, 15 % test)")
      ->check(some_path());
  train.add_option("--text-column", command.columns.text, "Column with the text")->capture_default_str();
  train.add_option("--pair-column", command.columns.pair, "Column with the second text, for pairs (default: none)");
  train.add_option("--label-column", command.columns.label, "Column with the label")->capture_default_str();
  train.add_option("--output", command.output, "Folder for the trained model")->required()->check(some_path());
}

void add_model_options(CLI::App& train, train_command& command) {
  CLI::Option* from =
      train.add_option("--from", command.from, "Fine-tune this model: a name (see nullscope models) or a folder");
  const auto number = [&](const char* name, auto& value, const char* text) {
    return train.add_option(name, value, text)->check(positive_integer());
  };
  number("--layers", command.layers, "Layers (default: 1)")->excludes(from);
  number("--width", command.width, "Model width d (default: 512)")->excludes(from);
  number("--heads", command.heads, "Heads h (default: 8)")->excludes(from);
  number("--key-size", command.key_size, "d_k, independent of the values (default: d / h)")->excludes(from);
  number("--feed-forward", command.feed_forward, "Width of the feed-forward layer (default: 4 d)")->excludes(from);
  train
      .add_option("--heads-are", command.heads_are,
                  "How the heads form the output: concatenated (d_v = d / h) or added (d_v = d)")
      ->check(CLI::IsMember({"concatenated", "added"}))
      ->capture_default_str()
      ->excludes(from);
  train.add_flag("--decoder", command.decoder, "Tokens see only those before them; the classifier reads the last one")
      ->excludes(from);
  number("--min-count", command.min_count, "Words that occur less often in the training texts are unknown (default: 1)")
      ->excludes(from);
  number("--max-length", command.max_length,
         "Maximum number of tokens per text (default: 512, or the limit of the model)");
  train.add_option("--too-long", command.too_long, "What to do with longer texts: cut (with a warning) or refuse")
      ->check(CLI::IsMember({"cut", "refuse"}))
      ->capture_default_str();
  train.add_option("--dropout", command.dropout, "Probability of dropout (default: 0, or that of the model)")
      ->check(not_negative_number());
}

void add_training_options(CLI::App& train, train_command& command) {
  const auto number = [&](const char* name, auto& value, const char* text) {
    return train.add_option(name, value, text)->check(positive_integer());
  };
  number("--epochs", command.epochs, "Number of passes over the training texts (default: 20; 3 with --from)");
  number("--batch", command.batch, "Texts per step (default: 256; 32 with --from)");
  train
      .add_option("--learning-rate", command.learning_rate,
                  "Learning rate of Adam (default: 0.001; 0.00005 with --from)")
      ->check(positive_number());
  train.add_option("--schedule", command.schedule, "Learning rate: constant, or linear, down to 0 at the end")
      ->check(CLI::IsMember({"constant", "linear"}))
      ->capture_default_str();
  train.add_option("--warm-up", command.warm_up, "Number of warm-up steps of the learning rate (default: 0)")
      ->check(natural_number());
  train.add_option("--weight-decay", command.weight_decay, "Weight decay of AdamW (default: 0)")
      ->check(not_negative_number());
  train.add_option("--clip", command.clip, "Clip the norm of the gradient to this value (default: 0, no limit)")
      ->check(not_negative_number());
  train
      .add_option("--patience", command.patience,
                  "Stop after this many epochs without a better validation accuracy (default: 0, never)")
      ->check(natural_number());
  train.add_option("--seed", command.seed, "Seed of all random numbers (default: 1)")->check(seed_number());
  train.add_option("--checkpoint-minutes", command.checkpoint_minutes, "Minutes between checkpoints (default: 2)")
      ->check(not_negative_number());
  train.add_option("--device", command.device, device_help);
  add_resume_and_overwrite(train, command.rerun);
  train.add_flag("--quiet", command.quiet, "Do not print the table");
}

}  // namespace

void add_train(CLI::App& app) {
  auto command = std::make_shared<train_command>();
  CLI::App* train = app.add_subcommand("train", "Train a classifier of texts, or fine-tune a model");
  add_data_options(*train, *command);
  add_model_options(*train, *command);
  add_training_options(*train, *command);
  train->footer(
      "The default is the classifier of Bhardwaj et al. 2021: one post-LN layer, d = 512, 8 heads, feed-forward 2048\n"
      "with ReLU, the words of the training texts as vocabulary, a leading [CLS] token that the classifier reads.\n"
      "Prints one line per epoch, then the test accuracy at the epoch with the best validation accuracy. The folder "
      "is\n"
      "a model folder, with training.jsonl (one line per epoch), training.json and a chart, training.svg. The same\n"
      "settings, seed and device give the same model, to the bit, also after an interruption and --resume.\n"
      "Interrupted by a signal, it writes a checkpoint and exits with 128 + the number of the signal (130: Ctrl-C).\n\n"
      "Examples:\n"
      "  nullscope train --data reviews.csv --output model\n"
      "  nullscope train --data questions.tsv --test test.tsv --key-size 1 --heads-are added --output model\n"
      "  nullscope train --data reviews.csv --max-length 256 --patience 3 --output model --resume\n"
      "  nullscope train --data reviews.csv --from minilm --max-length 128 --output tuned\n"
      "  nullscope train --data pairs.csv --text-column premise --pair-column hypothesis --output pairs\n"
      "  mpirun -n 2 nullscope train --data reviews.csv --output model    (needs a build with NULLSCOPE_MPI)");
  train->callback([command] { run_train(*command); });
}

}  // namespace nullscope::cli
