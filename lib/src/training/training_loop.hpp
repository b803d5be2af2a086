/// The loop of every training: models, probes and the small networks of experiments.
#pragma once

#include <cstdint>
#include <functional>

namespace nullscope::detail {

/// How far a loop is: the epoch, counted from 1, and how many of its batches are done.
struct loop_position {
  std::int64_t epoch = 1, batch = 0, batches = 0;
};

/// What differs between them.
struct training_loop {
  std::function<std::int64_t(std::int64_t epoch)> begin_epoch;  ///< shuffles; returns the number of batches
  std::function<std::int64_t(const loop_position&)> train;      ///< on the next batches; returns on how many
  std::function<bool(const loop_position&)> report = {};        ///< after each call of `train`; false interrupts
  std::function<bool(std::int64_t epoch)> end_epoch = {};       ///< validates; false: no further epoch
};

/// Trains from `at` to the end of epoch `epochs`, or until `end_epoch` ends it. False if `report` interrupted it; `at`
/// is then where to continue.
bool run_epochs(const training_loop& loop, std::int64_t epochs, loop_position& at);

/// The best epoch so far, by a score that should be high.
struct best_epoch {
  std::int64_t epoch = 0;  ///< 0: none yet
  double score = 0;

  /// True if this epoch is better than all before it.
  bool update(std::int64_t now, double new_score) {
    if (epoch > 0 && !(new_score > score)) return false;
    epoch = now;
    score = new_score;
    return true;
  }

  /// Early stopping: the last `patience` epochs were not better.
  bool is_stale(std::int64_t now, std::int64_t patience) const { return now - epoch >= patience; }
};

}  // namespace nullscope::detail
