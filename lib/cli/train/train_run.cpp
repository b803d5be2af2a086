#include "lib/cli/train/train_run.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/model_folder.hpp>
#include <nullscope/training/training.hpp>
#include <optional>
#include <thread>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/checksum.hpp"
#include "lib/cli/common/device_choice.hpp"
#include "lib/cli/common/interruption.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/parallel/rank_group.hpp"
#include "lib/cli/train/train_chart.hpp"
#include "lib/cli/train/train_setup.hpp"
#include "lib/src/io/atomic_file.hpp"

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

class train_run {
 public:
  train_run(const train_command& command, rank_group& ranks)
      : command_(command), ranks_(ranks), device_(device_for(command.device, ranks.place_on_machine())) {}

  void run() {
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
    const json settings = settings_of(texts, config, optimizer, options);
    if (is_done(settings)) return;
    if (is_first()) make_folder(command_.output);
    options.identity = json_text(settings);
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
    write_results(history, result, texts, config, settings);
    fs::remove(path("checkpoint.safetensors"));
  }

 private:
  bool is_first() const { return ranks_.rank() == 0; }
  bool prints() const { return is_first() && !command_.quiet; }
  fs::path path(const char* name) const { return command_.output / name; }

  /// Whether the model is there already, as the first rank sees it, for all ranks.
  bool is_done(const json& settings) {
    output_place place{.result = path("training.json"), .checkpoint = path("checkpoint.safetensors")};
    place.others = {path("config.json"), path("model.safetensors")};
    std::array answer{is_first() && is_finished(place, settings, command_.rerun, command_.quiet) ? 1.0f : 0.0f};
    ranks_.sum(answer);
    return answer[0] > 0;
  }

  training_run_options run_options() {
    training_run_options options;
    options.epochs = command_.epochs.value_or(command_.from.empty() ? 20 : 3);
    options.batch = command_.batch.value_or(command_.from.empty() ? 256 : 32);
    options.patience = command_.patience;
    options.seed = command_.seed;
    options.checkpoint = path("checkpoint.safetensors");
    options.checkpoint_seconds = 60 * command_.checkpoint_minutes;
    options.resume = command_.rerun.resume;
    options.after_epoch = [this](const training_history& history) { after_epoch(history); };
    options.go_on = [this, epochs = options.epochs](const training_progress& now) {
      show(now, epochs);
      return noted_signal() == 0;
    };
    return options;
  }

  /// Everything that determines the bits of the model.
  json settings_of(const training_texts& texts, const transformer_config& config, const training_options& optimizer,
                   const training_run_options& options) const {
    json settings = common_settings("train", device_);
    settings.update({{"data", fmt::format("{:016x}", texts.fingerprint())},
                     {"texts", texts.data.size()},
                     {"test_texts", texts.test.size()},
                     {"from", command_.from},
                     {"from_checksum", command_.from.empty() ? "" : checksum_of_model(resolve_model(command_.from))},
                     {"max_length", command_.max_length.value_or(config.positions)},
                     {"min_count", command_.min_count},
                     {"layers", config.layers},
                     {"width", config.width},
                     {"heads", config.heads},
                     {"key_size", config.key_size},
                     {"feed_forward", config.feed_forward},
                     {"heads_are", config.merge == head_merge::added ? "added" : "concatenated"},
                     {"decoder", config.causal},
                     {"dropout", config.dropout},
                     {"epochs", options.epochs},
                     {"batch", options.batch},
                     {"patience", options.patience},
                     {"learning_rate", optimizer.learning_rate},
                     {"schedule", command_.schedule},
                     {"warm_up", optimizer.warm_up_steps},
                     {"weight_decay", optimizer.weight_decay},
                     {"clip", optimizer.largest_norm},
                     {"seed", command_.seed},
                     {"ranks", ranks_.count()}});
    return settings;
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
                     const transformer_config& config, const json& settings) const {
    write_lines(history);
    write_atomically(path("training.svg"), train_chart(title(config), history, test.accuracy()));
    const epoch_record& best = history.epochs[static_cast<std::size_t>(history.best_epoch - 1)];
    const json summary{{"settings", settings},
                       {"labels", texts.labels},
                       {"training_texts", texts.split.training.size()},
                       {"validation_texts", texts.split.validation.size()},
                       {"test_texts", test.count},
                       {"best_epoch", history.best_epoch},
                       {"validation_accuracy", best.validation_accuracy},
                       {"test_accuracy", test.accuracy()},
                       {"test_loss", test.mean_loss()}};
    write_atomically(path("training.json"), json_text(summary, 2) + "\n");
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
