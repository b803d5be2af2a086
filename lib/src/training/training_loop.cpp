#include "lib/src/training/training_loop.hpp"

namespace nullscope::detail {

bool run_epochs(const training_loop& loop, std::int64_t epochs, loop_position& at) {
  while (at.epoch <= epochs) {
    at.batches = loop.begin_epoch(at.epoch);
    while (at.batch < at.batches) {
      at.batch += loop.train(at);
      if (loop.report && !loop.report(at)) return false;
    }
    const std::int64_t ended = at.epoch;
    at = {ended + 1};
    if (loop.end_epoch && !loop.end_epoch(ended)) break;
  }
  return true;
}

}  // namespace nullscope::detail
