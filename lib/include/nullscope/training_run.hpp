/// Whole training runs: epochs over shuffled batches, validation, early stopping, checkpoints, exact resume.
///
///   const training_history history = train(training, examples, split_examples(std::ssize(examples), seed));
///   const training_sums test = training.evaluate(pick(examples, split.test));   // of the best epoch
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nullscope/training.hpp>
#include <nullscope/training_data.hpp>
#include <string>
#include <vector>

namespace nullscope {

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

}  // namespace nullscope
