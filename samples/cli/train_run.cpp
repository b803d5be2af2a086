#include "train_run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <nullscope/atomic_file.hpp>
#include <nullscope/errors.hpp>
#include <nullscope/model_folder.hpp>
#include <nullscope/model_store.hpp>
#include <nullscope/training_run.hpp>
#include <nullscope/version.hpp>
#include <optional>
#include <thread>

#include "commands.hpp"
#include "device_choice.hpp"
#include "interruption.hpp"
#include "progress.hpp"
#include "rank_group.hpp"
#include "train_chart.hpp"

namespace nullscope::cli {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

json to_json(const epoch_record& e) {
  return {{"epoch", e.epoch},
          {"steps", e.steps},
          {"learning_rate", e.learning_rate},
          {"training_loss", e.training_loss},
          {"training_accuracy", e.training_accuracy},
          {"validation_loss", e.validation_loss},
          {"validation_accuracy", e.validation_accuracy},
          {"seconds", e.seconds},
          {"tokens_per_second", e.tokens_per_second}};
}

/// FNV-1a over all texts and labels: tells whether the data is the same.
std::uint64_t fingerprint(const std::vector<labelled_text>& texts, std::uint64_t hash) {
  const auto add = [&](const std::string& text) {
    for (const char c : text + '\0') hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  };
  for (const labelled_text& text : texts) {
    add(text.input.text);
    add(text.input.pair.value_or(""));
    add(text.label);
  }
  return hash;
}

/// The texts with their labels, divided.
struct training_texts {
  std::vector<labelled_text> data, test;  // test: of a file of its own
  std::vector<std::string> labels;
  data_split split;

  explicit training_texts(const train_command& command) : data(read_labelled_texts(command.data, command.columns)) {
    labels = labels_of(data);
    if (labels.size() < 2) {
      throw file_error(
          fmt::format("{}: all labels are \"{}\"; there is nothing to learn", command.data.string(), labels.front()));
    }
    split_shares shares;
    if (!command.test.empty()) {
      test = read_labelled_texts(command.test, command.columns);
      shares = {.training = 0.7, .validation = 0.3};
    }
    try {
      split = split_examples(std::ssize(data), command.seed, shares);
    } catch (const invalid_argument& failure) {
      throw file_error(fmt::format("{}: {}", command.data.string(), failure.what()));
    }
  }
};

word_vocabulary words_of(const training_texts& texts, std::int64_t minimum_count) {
  word_counter counter;
  for (const std::int64_t i : texts.split.training) {
    const text_input& input = texts.data[static_cast<std::size_t>(i)].input;
    counter.add(input.text);
    if (input.pair) counter.add(*input.pair);
  }
  return counter.vocabulary({.minimum_count = minimum_count});
}

transformer_config new_config(const train_command& command, std::int64_t vocabulary, std::int64_t classes) {
  transformer_config config;
  config.layers = command.layers.value_or(1);
  config.width = command.width.value_or(512);
  config.heads = command.heads.value_or(8);
  const bool adds = command.heads_are == "added";
  const bool divides = config.width % config.heads == 0;
  if (!divides && !(adds && command.key_size)) {
    throw usage_error(fmt::format("--heads {} does not divide --width {}", config.heads, config.width));
  }
  config.key_size = command.key_size.value_or(config.width / config.heads);
  config.merge = adds ? head_merge::added : head_merge::concatenated;
  config.value_size = adds ? config.width : config.width / config.heads;
  config.feed_forward = command.feed_forward.value_or(4 * config.width);
  config.positions = command.max_length.value_or(512);
  config.causal = command.decoder;
  config.pool = command.decoder ? pooling::last : pooling::first;
  config.dropout = command.dropout.value_or(0);
  config.pairs = !command.columns.pair.empty();
  config.vocabulary = vocabulary;
  config.classes = classes;
  return config;
}

/// What is trained, and how its texts are read.
struct starting_point {
  text_encoder encoder;
  transformer<float> model;
  std::string family;
};

starting_point start_of(const train_command& command, context& ctx, const training_texts& texts) {
  const std::int64_t classes = std::ssize(texts.labels);
  if (command.from.empty()) {
    text_encoder encoder(words_of(texts, command.min_count));
    transformer<float> model(ctx, new_config(command, encoder.vocabulary_size(), classes));
    model.initialise(ctx, command.seed);
    return {std::move(encoder), std::move(model), "nullscope"};
  }
  const fs::path folder = resolve_model(command.from, [](std::string_view text) { fmt::print(stderr, "{}\n", text); });
  text_encoder encoder(folder);
  if (!command.columns.pair.empty() && !encoder.joins_pairs() && !describe_model(folder).config.pairs) {
    throw usage_error(fmt::format("--pair-column: {} reads one text", command.from));
  }
  return {std::move(encoder), with_new_classifier<float>(ctx, folder, classes, command.seed, command.dropout),
          describe_model(folder).family};
}

class train_run {
 public:
  train_run(const train_command& command, rank_group& ranks)
      : command_(command), ranks_(ranks), device_(device_for(command.device, ranks.place_on_machine())) {}

  void run() {
    if (is_first()) prepare_folder();
    const training_texts texts(command_);
    context ctx(device_);
    starting_point start = start_of(command_, ctx, texts);
    const transformer_config config = start.model.config();
    const std::int64_t max_length = std::min(command_.max_length.value_or(config.positions), config.positions);
    const auto encode = [&](const fs::path& path, const std::vector<labelled_text>& from) {
      encoded_texts encoded = encode_texts(path, from, config, start.encoder, max_length, texts.labels);
      if (is_first() || command_.too_long == "refuse") {
        report_cut(path, encoded, max_length, command_.too_long == "refuse");
      }
      return std::move(encoded.examples);
    };
    const std::vector<training_example> examples = encode(command_.data, texts.data);
    const std::vector<training_example> test =
        command_.test.empty() ? pick(examples, texts.split.test) : encode(command_.test, texts.test);

    training_run_options options = run_options();
    options.identity = identity(texts, config).dump();
    training_options optimizer;
    optimizer.learning_rate = command_.learning_rate.value_or(command_.from.empty() ? 1e-3 : 5e-5);
    optimizer.weight_decay = command_.weight_decay;
    optimizer.largest_norm = command_.clip;
    optimizer.warm_up_steps = command_.warm_up;
    optimizer.seed = command_.seed;
    if (command_.schedule == "linear") {
      optimizer.schedule = learning_schedule::linear;
      optimizer.total_steps = steps_of_run(std::ssize(texts.split.training), options);
    }
    const std::int64_t parameters = start.model.values().size();
    introduce(texts, config, std::ssize(test), parameters);
    trainer<float> training(ctx, std::move(start.model), optimizer,
                            {ranks_.rank(), ranks_.count(), [this](std::span<float> x) { ranks_.sum(x); }});
    const training_history history = train(training, examples, texts.split, options);
    if (progress_) progress_->clear();
    if (history.was_interrupted) leave(history);
    const training_sums result = training.evaluate(test, options.batch);
    if (!is_first()) return;
    training.wait();
    save_classifier(ctx, training.model(), start.encoder, texts.labels, command_.output, start.family);
    write_results(history, result, texts, config);
    fs::remove(path("checkpoint.safetensors"));
  }

 private:
  bool is_first() const { return ranks_.rank() == 0; }
  bool prints() const { return is_first() && !command_.quiet; }
  fs::path path(const char* name) const { return command_.output / name; }

  /// Makes the folder. What is there is kept unless it may be replaced.
  void prepare_folder() const {
    std::error_code failure;
    fs::create_directories(command_.output, failure);
    if (failure) throw file_error(fmt::format("cannot create {}: {}", command_.output.string(), failure.message()));
    if (command_.resume && fs::exists(path("checkpoint.safetensors"))) return;
    for (const char* name : {"checkpoint.safetensors", "config.json", "model.safetensors", "training.json"}) {
      if (!fs::exists(path(name))) continue;
      if (command_.overwrite) {
        fs::remove(path(name));
        continue;
      }
      throw file_error(fmt::format("{} already exists; {}--overwrite starts over", path(name).string(),
                                   fs::exists(path("checkpoint.safetensors")) ? "--resume continues, " : ""));
    }
  }

  training_run_options run_options() {
    training_run_options options;
    options.epochs = command_.epochs.value_or(command_.from.empty() ? 20 : 3);
    options.batch = command_.batch.value_or(command_.from.empty() ? 256 : 32);
    options.patience = command_.patience;
    options.seed = command_.seed;
    options.checkpoint = path("checkpoint.safetensors");
    options.checkpoint_seconds = 60 * command_.checkpoint_minutes;
    options.resume = command_.resume;
    options.after_epoch = [this](const training_history& history) { after_epoch(history); };
    options.go_on = [this, epochs = options.epochs](const training_progress& now) {
      show(now, epochs);
      return noted_signal() == 0;
    };
    return options;
  }

  /// Everything that determines the bits of the model and is not the trainer's.
  json identity(const training_texts& texts, const transformer_config& config) const {
    const device_properties& about = properties(device_);
    const std::uint64_t data = fingerprint(texts.test, fingerprint(texts.data, 0xcbf29ce484222325));
    return {{"data", fmt::format("{:016x}", data)},
            {"texts", texts.data.size()},
            {"test_texts", texts.test.size()},
            {"from", command_.from},
            {"max_length", command_.max_length.value_or(config.positions)},
            {"min_count", command_.min_count},
            {"epochs", command_.epochs.value_or(0)},
            {"batch", command_.batch.value_or(0)},
            {"seed", command_.seed},
            {"ranks", ranks_.count()},
            {"device", about.name},
            {"driver", about.driver},
            {"version", version()}};
  }

  std::string title(const transformer_config& c) const {
    return fmt::format("{}{} layer{}, d = {}, {} {} heads, d_k = {}, seed {}",
                       command_.from.empty() ? "" : command_.from + ": ", c.layers, c.layers == 1 ? "" : "s", c.width,
                       c.heads, c.merge == head_merge::added ? "added" : "concatenated", c.key_size, command_.seed);
  }

  void introduce(const training_texts& texts, const transformer_config& config, std::int64_t test_size,
                 std::int64_t parameters) const {
    if (!prints()) return;
    fmt::print("{}\n", title(config));
    fmt::print(
        "{} classes, {} words, {:.1f} million parameters; {} texts for training, {} for validation, {} for the "
        "test; {}\n\n",
        texts.labels.size(), config.vocabulary, static_cast<double>(parameters) / 1e6, texts.split.training.size(),
        texts.split.validation.size(), test_size, properties(device_).name);
    fmt::print("{:>5}  {:>8}  {:>8}  {:>10}  {:>10}  {:>8}  {:>8}\n", "epoch", "loss", "accuracy", "valid loss",
               "valid acc", "seconds", "tokens/s");
    std::fflush(stdout);
  }

  void after_epoch(const training_history& history) {
    if (!is_first()) return;
    write_lines(history);
    if (progress_) progress_->clear();
    if (!prints()) return;
    const epoch_record& e = history.epochs.back();
    fmt::print("{:>5}  {:>8.4f}  {:>8.4f}  {:>10.4f}  {:>10.4f}  {:>8.1f}  {:>8.0f}\n", e.epoch, e.training_loss,
               e.training_accuracy, e.validation_loss, e.validation_accuracy, e.seconds, e.tokens_per_second);
    std::fflush(stdout);
  }

  void show(const training_progress& now, std::int64_t epochs) {
    if (!is_first()) return;
    const auto done = static_cast<double>((now.epoch - 1) * now.batches + now.batch);
    if (!progress_) {
      progress_.emplace(static_cast<double>(epochs * now.batches), done);
      shown_ = done;
    }
    progress_->advance(done - shown_);
    shown_ = done;
    progress_->draw(fmt::format("epoch {}  loss {:.4f}  accuracy {:.4f}  {:.0f} tokens/s", now.epoch,
                                now.sums.mean_loss(), now.sums.accuracy(), now.tokens_per_second));
  }

  void write_lines(const training_history& history) const {
    std::string lines;
    for (const epoch_record& epoch : history.epochs) lines += to_json(epoch).dump() + "\n";
    write_atomically(path("training.jsonl"), lines);
  }

  void write_results(const training_history& history, const training_sums& test, const training_texts& texts,
                     const transformer_config& config) const {
    write_lines(history);
    write_atomically(path("training.svg"), train_chart(title(config), history, test.accuracy()));
    const epoch_record& best = history.epochs[static_cast<std::size_t>(history.best_epoch - 1)];
    const json summary{{"settings", identity(texts, config)},
                       {"commit", git_commit()},
                       {"labels", texts.labels},
                       {"training_texts", texts.split.training.size()},
                       {"validation_texts", texts.split.validation.size()},
                       {"test_texts", test.count},
                       {"best_epoch", history.best_epoch},
                       {"validation_accuracy", best.validation_accuracy},
                       {"test_accuracy", test.accuracy()},
                       {"test_loss", test.mean_loss()}};
    write_atomically(path("training.json"), summary.dump(2) + "\n");
    if (!prints()) return;
    fmt::print("\nBest epoch {}: validation accuracy {:.4f}, test accuracy {:.4f} ({} of {}), test loss {:.4f}\n",
               history.best_epoch, best.validation_accuracy, test.accuracy(), test.correct, test.count,
               test.mean_loss());
    fmt::print("Wrote the model, training.jsonl, training.json and training.svg into {}\n", command_.output.string());
  }

  [[noreturn]] void leave(const training_history& history) const {
    if (is_first()) {
      fmt::print(stderr, "nullscope: interrupted after {} epochs; continue with --resume\n", history.epochs.size());
    }
    std::fflush(nullptr);
    std::_Exit(128 + (noted_signal() == 0 ? 15 : noted_signal()));
  }

  const train_command& command_;
  rank_group& ranks_;
  sycl::device device_;
  std::optional<progress_bar> progress_;
  double shown_ = 0;  // batches that the bar shows
};

}  // namespace

void run_train(const train_command& command) {
  const std::unique_ptr<rank_group> ranks = make_rank_group();
  note_signals();
  if (ranks->count() == 1) return train_run(command, *ranks).run();
  try {
    train_run(command, *ranks).run();
  } catch (const std::exception& failure) {
    // The others may wait for this rank. Most mistakes are seen by all; then the first rank speaks for them.
    if (ranks->rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    fmt::print(stderr, "nullscope: rank {}: {}\n", ranks->rank(), failure.what());
    std::fflush(nullptr);
    ranks->abort(dynamic_cast<const CLI::ParseError*>(&failure) != nullptr ? 2 : 1);
  }
}

}  // namespace nullscope::cli
