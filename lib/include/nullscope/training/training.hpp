/// Examples to learn from: sequences with labels, deterministic splits, and batches of similar length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/model/transformer.hpp>
#include <span>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

/// One thing to learn. `labels` is one class; or, for a language-model head, the id wanted at each token of `sequence`,
/// where a negative number does not count.
struct training_example {
  token_batch::sequence sequence;
  token_batch::sequence pair = {};  ///< the second sequence of models with config.pairs
  std::vector<std::int32_t> labels;

  std::int64_t tokens() const { return static_cast<std::int64_t>(sequence.ids.size() + pair.ids.size()); }
};

/// Throws invalid_argument, naming the example, if one cannot be learnt by such a model: no tokens, too long, an id or
/// a label out of range, a pair too many or missing.
void check_examples(const transformer_config& config, std::span<const training_example> examples);

/// Which examples serve what. No example is in two parts.
struct data_split {
  std::vector<std::int64_t> training, validation, test;
};

struct split_shares {
  double training = 0.7, validation = 0.15;  ///< the rest is for the test
};

/// Divides the numbers from 0 to count - 1 at random; the result depends on the seed alone. Every part whose share is
/// above 0 gets at least one. Throws invalid_argument if there are too few, or on shares that are negative or above 1.
data_split split_examples(std::int64_t count, std::uint64_t seed, const split_shares& shares = {});

/// One epoch: all of `indices`, each once, in batches of `batch` (the last one may be smaller), which hold examples of
/// similar length and come in random order. Depends on seed, epoch and lengths alone. lengths[i] is that of example i.
std::vector<std::vector<std::int64_t>> epoch_batches(std::span<const std::int64_t> indices,
                                                     std::span<const std::int64_t> lengths, std::int64_t batch,
                                                     std::uint64_t seed, std::int64_t epoch);

/// The examples of these numbers.
std::vector<training_example> pick(std::span<const training_example> examples, std::span<const std::int64_t> indices);

// Training of a transformer: one optimizer step at a time, and evaluation.
//
//   trainer<float> training(ctx, std::move(model), {.learning_rate = 1e-3});
//   for (const auto& batch : batches) training.step(batch);
//   training_sums sums;
//   training.add_sums(sums);   // waits; sums.mean_loss(), sums.accuracy()
//
// <nullscope/training/training.hpp> has whole runs: epochs, early stopping, checkpoints.
//
// A step launches its kernels and returns; nothing waits for the device. Loss and correct answers stay there until
// `add_sums` asks for them. The same model, examples, options and device give the same bits.

enum class learning_schedule {
  constant,
  linear  ///< down to 0 at total_steps
};

struct training_options {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  ///< AdamW's
  double largest_norm = 0;  ///< gradients are scaled down to this norm; 0: they are not
  learning_schedule schedule = learning_schedule::constant;
  std::int64_t warm_up_steps = 0;  ///< the rate grows linearly during these
  std::int64_t total_steps = 0;    ///< for learning_schedule::linear
  std::uint64_t seed = 1;          ///< of dropout
  bool recompute = false;          ///< keep only what enters each layer; slower, in less memory
  bool operator==(const training_options&) const = default;
};

/// The learning rate of a step, counted from 1.
double learning_rate_at(const training_options& options, std::int64_t step);

/// Several processes that train one model together, each on its share of every batch.
template <class T>
struct training_ranks {
  std::int64_t rank = 0, count = 1;

  /// Replaces the numbers, in host memory, by their sums over all ranks, added in the order of the ranks, so that the
  /// result does not depend on timing. All ranks call it in the same order with equally many numbers.
  std::function<void(std::span<T>)> sum = {};
};

/// What a model did with some examples.
struct training_sums {
  double loss = 0;  ///< sum of -log p(label)
  std::int64_t correct = 0, count = 0;

  double mean_loss() const { return loss / static_cast<double>(count); }
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(count); }
};

/// Loss and accuracy of a model on examples, with up to `batch` at a time. Sequences of similar length are computed
/// together. Throws invalid_argument as check_examples does.
training_sums evaluate(context& ctx, const transformer<float>& model, std::span<const training_example> examples,
                       std::int64_t batch = 256);
training_sums evaluate(context& ctx, const transformer<double>& model, std::span<const training_example> examples,
                       std::int64_t batch = 256);

/// Owns a model and all that its training needs.
template <class T>
class trainer {
 public:
  /// Throws invalid_argument if the model has neither a classifier nor a language-model head, or on bad options. With
  /// several ranks, all must begin with the same model.
  trainer(context& ctx, transformer<T> model, const training_options& options = {}, training_ranks<T> ranks = {});
  ~trainer();
  trainer(trainer&&) noexcept;

  /// For reading; `wait` first if a step may still run.
  const transformer<T>& model() const;
  const training_options& options() const;
  const training_ranks<T>& ranks() const;
  std::int64_t steps() const;  ///< that have been taken

  /// One step with the gradient of the mean loss of these examples. All ranks get the same examples; each computes a
  /// contiguous share. Throws as check_examples does.
  void step(std::span<const training_example> examples);

  void wait();

  /// Adds loss and correct answers of all steps since the last call, step by step: when it is called does not change
  /// the bits. Waits. Throws computation_error, naming the first step, if a loss is not finite.
  void add_sums(training_sums& sums);

  /// As the function above, divided among the ranks.
  training_sums evaluate(std::span<const training_example> examples, std::int64_t batch = 256);

  /// Remembers the parameters as the best ones so far, and makes them the model's again.
  void keep_best();
  void restore_best();

  /// Writes parameters, the best ones, both moments of Adam and the number of steps into one safetensors file, with
  /// `progress` as the caller's note. The file is whole or what it was before. Throws file_error, and computation_error
  /// as add_sums does.
  void save(const std::filesystem::path& path, const std::string& progress);

  /// Continues where `save` was called, to the bit, and returns the note. Throws file_error if the file is not that of
  /// such a model with such options.
  std::string load(const std::filesystem::path& path);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

// Whole training runs: epochs over shuffled batches, validation, early stopping, checkpoints, exact resume.
//
//   const training_history history = train(training, examples, split_examples(std::ssize(examples), seed));
//   const training_sums test = training.evaluate(pick(examples, split.test));   // of the best epoch

/// One epoch, counted from 1. Training loss and accuracy are those of the batches as they came.
struct epoch_record {
  std::int64_t epoch = 0, steps = 0;
  double learning_rate = 0;
  double training_loss = 0, training_accuracy = 0, validation_loss = 0, validation_accuracy = 0;
  double seconds = 0, tokens_per_second = 0;  ///< of training, without validation; padding does not count
};

struct training_history {
  std::vector<epoch_record> epochs;
  std::int64_t best_epoch = 0;   ///< the first of those with the highest validation accuracy; 0: none yet
  bool was_interrupted = false;  ///< `go_on` said so
};

/// How far a run is.
struct training_progress {
  std::int64_t epoch = 1, batch = 0, batches = 0;  ///< batches of this epoch that are done, of all
  training_sums sums;                              ///< of this epoch
  double tokens_per_second = 0;                    ///< of this epoch
};

struct training_run_options {
  std::int64_t epochs = 20, batch = 256;
  std::int64_t patience = 0;  ///< stop after this many epochs without a better validation accuracy; 0: never
  std::uint64_t seed = 1;     ///< of the order of the examples

  /// Where to keep checkpoints; default: nowhere. Written when so many seconds have passed since the last one, and when
  /// the run is interrupted. With `resume`, a run continues from the file, if it is there, to the bit. Only the first
  /// rank writes.
  std::filesystem::path checkpoint = {};
  double checkpoint_seconds = 120;
  bool resume = false;
  std::string identity = {};  ///< of the data and settings: a checkpoint with another one is refused

  std::function<void(const training_history&)> after_epoch = {};
  /// Called a few times per second; false interrupts the run, with several ranks for all of them.
  std::function<bool(const training_progress&)> go_on = {};
};

/// Trains on split.training and validates on split.validation. At the end the model has the parameters of the best
/// epoch, unless the run was interrupted. Throws invalid_argument as check_examples does, computation_error if a loss
/// is not finite (the last checkpoint stays), file_error.
template <class T>
training_history train(trainer<T>& training, std::span<const training_example> examples, const data_split& split,
                       const training_run_options& options = {});

/// The number of steps of such a run without early stopping: total_steps of a linear schedule.
std::int64_t steps_of_run(std::int64_t training_examples, const training_run_options& options);

// Adam, AdamW and gradient clipping on flat arrays of parameters.

template <class T>
struct adam_operands {
  view<const T, 1> gradient;  ///< (n)
  view<const T, 1> gradient_scale =
      {};  ///< (1), on the device, times the gradient: what `clip_scale` gives; default: 1
};

/// Read and overwritten.
template <class T>
struct adam_state {
  view<T, 1> parameters;     ///< (n)
  view<T, 1> first, second;  ///< (n): running means of the gradient and of its square, zero at the start
};

struct adam_options {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = true;  ///< AdamW: the decay acts on the parameters; otherwise it is added to the gradient
  std::int64_t step = 1;  ///< counted from 1; for the bias correction
};

/// m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
/// p -= learning_rate (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon). One launch, whatever n is.
sycl::event adam(context& ctx, const adam_operands<float>& operands, const adam_state<float>& state,
                 const adam_options& options = {}, const events& dependencies = {});
sycl::event adam(context& ctx, const adam_operands<double>& operands, const adam_state<double>& state,
                 const adam_options& options = {}, const events& dependencies = {});

/// norm (1) = |gradient|, scale (1) = min(1, largest_norm / norm), 1 if largest_norm is 0. A gradient that holds NaN or
/// infinity gives NaN for both.
template <class T>
struct clip_results {
  view<T, 1> norm, scale;
};
sycl::event clip_scale(context& ctx, view<const float, 1> gradient, const clip_results<float>& results,
                       double largest_norm, const events& dependencies = {});
sycl::event clip_scale(context& ctx, view<const double, 1> gradient, const clip_results<double>& results,
                       double largest_norm, const events& dependencies = {});

}  // namespace nullscope
