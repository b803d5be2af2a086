/// Training of a transformer: one optimizer step at a time, and evaluation.
///
///   trainer<float> training(ctx, std::move(model), {.learning_rate = 1e-3});
///   for (const auto& batch : batches) training.step(batch);
///   training_sums sums;
///   training.add_sums(sums);   // waits; sums.mean_loss(), sums.accuracy()
///
/// <nullscope/training_run.hpp> has whole runs: epochs, early stopping, checkpoints.
///
/// A step launches its kernels and returns; nothing waits for the device. Loss and correct answers stay there until
/// `add_sums` asks for them. The same model, examples, options and device give the same bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nullscope/context.hpp>
#include <nullscope/training_data.hpp>
#include <nullscope/transformer.hpp>
#include <span>
#include <string>

namespace nullscope {

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

}  // namespace nullscope
