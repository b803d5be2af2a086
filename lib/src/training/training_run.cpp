#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/training/training.hpp>

#include "lib/src/io/json_reader.hpp"
#include "lib/src/training/training_loop.hpp"

namespace nullscope {

namespace {

using json = nlohmann::json;
using steady = std::chrono::steady_clock;

/// Visits the members of a record with their names in a checkpoint.
template <class Sums, class Visit>
void visit_sums(Sums& sums, Visit visit) {
  visit("loss", sums.loss);
  visit("correct", sums.correct);
  visit("count", sums.count);
}
template <class Record, class Visit>
void visit_epoch(Record& record, Visit visit) {
  visit("epoch", record.epoch);
  visit("steps", record.steps);
  visit("learning_rate", record.learning_rate);
  visit("training_loss", record.training_loss);
  visit("training_accuracy", record.training_accuracy);
  visit("validation_loss", record.validation_loss);
  visit("validation_accuracy", record.validation_accuracy);
  visit("seconds", record.seconds);
  visit("tokens_per_second", record.tokens_per_second);
}

struct write_number {
  json& object;

  template <class Number>
  void operator()(const char* name, Number value) const {
    object[name] = value;
  }
};

struct read_number {
  const detail::json_reader& object;

  void operator()(const char* name, double& value) const { value = object.at(name).number(); }
  void operator()(const char* name, std::int64_t& value) const {
    value = object.at(name).integer(0, std::numeric_limits<std::int64_t>::max());
  }
};

double seconds_since(steady::time_point start) { return std::chrono::duration<double>(steady::now() - start).count(); }

void check_options(const training_run_options& options) {
  const auto require = [](bool holds, const char* member, std::int64_t value, int least) {
    if (!holds) throw invalid_argument(fmt::format("train: {} is {}, expected at least {}", member, value, least));
  };
  require(options.epochs >= 1, "epochs", options.epochs, 1);
  require(options.batch >= 1, "batch", options.batch, 1);
  require(options.patience >= 0, "patience", options.patience, 0);
}

template <class T>
class epochs_run {
 public:
  epochs_run(trainer<T>& training, std::span<const training_example> examples, const data_split& split,
             const training_run_options& options)
      : training_(training), examples_(examples), split_(split), options_(options) {
    check_options(options);
    if (split.training.empty() || split.validation.empty()) {
      throw invalid_argument(fmt::format("train: {} examples for training and {} for validation, both need some",
                                         split.training.size(), split.validation.size()));
    }
    check_examples(training.model().config(), examples);
    validation_ = pick(examples, split.validation);
    for (const training_example& example : examples) lengths_.push_back(example.tokens());
  }

  training_history go() {
    if (options_.resume && std::filesystem::exists(options_.checkpoint)) read_checkpoint();
    const detail::training_loop loop{.begin_epoch = [&](std::int64_t epoch) { return begin_epoch(epoch); },
                                     .train = [&](const detail::loop_position& at) { return train_batch(at.batch); },
                                     .report = [&](const detail::loop_position& at) { return report(at); },
                                     .end_epoch = [&](std::int64_t epoch) { return end_epoch(epoch); }};
    if (!is_out_of_patience() && !detail::run_epochs(loop, options_.epochs, at_)) {
      write_checkpoint();
      history_.was_interrupted = true;
      return history_;
    }
    training_.restore_best();
    return history_;
  }

 private:
  bool is_out_of_patience() const {
    return options_.patience > 0 && best_.epoch > 0 && best_.is_stale(at_.epoch - 1, options_.patience);
  }

  bool is_shared() const { return training_.ranks().count > 1; }

  std::int64_t begin_epoch(std::int64_t epoch) {
    batches_ = epoch_batches(split_.training, lengths_, options_.batch, options_.seed, epoch);
    begun_ = steady::now();
    return std::ssize(batches_);
  }

  std::int64_t train_batch(std::int64_t number) {
    const std::vector<std::int64_t>& batch = batches_[static_cast<std::size_t>(number)];
    training_.step(pick(examples_, batch));
    for (const std::int64_t index : batch) tokens_ += lengths_[static_cast<std::size_t>(index)];
    return 1;
  }

  double seconds() const { return seconds_ + seconds_since(begun_); }

  /// A few times per second: progress, and a checkpoint if it is time. False if the run shall end.
  bool report(const detail::loop_position& at) {
    constexpr double tick = 0.4;  // seconds
    if (!is_shared() && seconds_since(ticked_) < tick && at.batch < at.batches) return true;
    if (!goes_on(at)) return false;
    ticked_ = steady::now();
    if (seconds_since(saved_) >= options_.checkpoint_seconds) write_checkpoint();
    return true;
  }

  bool goes_on(const detail::loop_position& at) {
    training_.add_sums(sums_);
    bool result = true;
    if (options_.go_on) {
      result = options_.go_on({at.epoch, at.batch, at.batches, sums_, static_cast<double>(tokens_) / seconds()});
    }
    if (!is_shared()) return result;
    std::vector<T> refusals{result ? T(0) : T(1)};
    training_.ranks().sum(refusals);
    return refusals[0] == 0;
  }

  /// False if no better epoch is to be expected.
  bool end_epoch(std::int64_t epoch) {
    training_.add_sums(sums_);
    epoch_record record;
    record.epoch = epoch;
    record.steps = training_.steps();
    record.learning_rate = learning_rate_at(training_.options(), training_.steps());
    record.training_loss = sums_.mean_loss();
    record.training_accuracy = sums_.accuracy();
    record.seconds = seconds();
    record.tokens_per_second = static_cast<double>(tokens_) / record.seconds;
    const training_sums validation = training_.evaluate(validation_, options_.batch);
    record.validation_loss = validation.mean_loss();
    record.validation_accuracy = validation.accuracy();
    history_.epochs.push_back(record);
    if (best_.update(epoch, record.validation_accuracy)) training_.keep_best();
    history_.best_epoch = best_.epoch;
    tokens_ = 0;
    seconds_ = 0;
    begun_ = steady::now();
    sums_ = {};
    if (seconds_since(saved_) >= options_.checkpoint_seconds) write_checkpoint();
    if (options_.after_epoch) options_.after_epoch(history_);
    return !is_out_of_patience();
  }

  void write_checkpoint() {
    if (options_.checkpoint.empty() || training_.ranks().rank != 0) return;
    training_.add_sums(sums_);
    json sums = json::object(), epochs = json::array();
    visit_sums(sums_, write_number{sums});
    for (const epoch_record& record : history_.epochs) visit_epoch(record, write_number{epochs.emplace_back()});
    const json progress{{"identity", options_.identity},
                        {"epoch", at_.epoch},
                        {"batch", at_.batch},
                        {"tokens", tokens_},
                        {"seconds", seconds()},
                        {"sums", sums},
                        {"epochs", epochs},
                        {"best_epoch", history_.best_epoch}};
    training_.save(options_.checkpoint, progress.dump());
    saved_ = steady::now();
  }

  void read_checkpoint() {
    const std::string file = options_.checkpoint.string(), text = training_.load(options_.checkpoint);
    const json document = detail::parse_json(file, text);
    const detail::json_reader progress(file, document);
    const std::string identity = progress.at("identity").string();
    const read_number read{progress};
    read("epoch", at_.epoch);
    read("batch", at_.batch);
    read("tokens", tokens_);
    read("seconds", seconds_);
    visit_sums(sums_, read_number{progress.at("sums")});
    for (const detail::json_reader& record : progress.at("epochs").elements()) {
      visit_epoch(history_.epochs.emplace_back(), read_number{record});
    }
    const std::int64_t finished = std::ssize(history_.epochs);
    history_.best_epoch = progress.at("best_epoch").integer(finished > 0 ? 1 : 0, finished);
    if (finished > 0) {
      const epoch_record& best = history_.epochs[static_cast<std::size_t>(history_.best_epoch - 1)];
      best_ = {history_.best_epoch, best.validation_accuracy};
    }
    if (identity != options_.identity) {
      throw file_error(fmt::format("{}: made with other settings or data:\n{}\nnow they are:\n{}",
                                   options_.checkpoint.string(), identity, options_.identity));
    }
  }

  trainer<T>& training_;
  std::span<const training_example> examples_;
  const data_split& split_;
  const training_run_options& options_;
  std::vector<training_example> validation_;
  std::vector<std::int64_t> lengths_;

  training_history history_;
  detail::loop_position at_;
  detail::best_epoch best_;
  std::vector<std::vector<std::int64_t>> batches_;  // of this epoch
  std::int64_t tokens_ = 0;                         // of the batches of this epoch that are done
  training_sums sums_;                              // of this epoch
  double seconds_ = 0;                              // of this epoch, before it was resumed
  steady::time_point begun_ = steady::now(), ticked_ = begun_, saved_ = begun_;
};

}  // namespace

template <class T>
training_history train(trainer<T>& training, std::span<const training_example> examples, const data_split& split,
                       const training_run_options& options) {
  return epochs_run<T>(training, examples, split, options).go();
}

template training_history train(trainer<float>&, std::span<const training_example>, const data_split&,
                                const training_run_options&);
template training_history train(trainer<double>&, std::span<const training_example>, const data_split&,
                                const training_run_options&);

std::int64_t steps_of_run(std::int64_t training_examples, const training_run_options& options) {
  check_options(options);
  return options.epochs * ((training_examples + options.batch - 1) / options.batch);
}

}  // namespace nullscope
