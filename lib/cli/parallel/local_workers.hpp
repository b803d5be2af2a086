/// The devices of one process, each of which computes one unit at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/cli/parallel/work_splitter.hpp"

namespace nullscope::cli {

class local_workers {
 public:
  explicit local_workers(const shared_work& work) : work_(work), running_(work.workers) {}

  bool is_busy() const {
    return std::ranges::any_of(running_, [](const running_unit& x) { return x.result.valid(); });
  }

  /// Starts the unit on a worker that is free; false if none is. In another thread, so that this one can handle signals
  /// and messages during a long unit.
  bool start(std::size_t unit) {
    const auto idle = std::ranges::find_if(running_, [](const running_unit& x) { return !x.result.valid(); });
    if (idle == running_.end()) return false;
    idle->unit = unit;
    idle->result = std::async(std::launch::async, [this, unit, worker = idle - running_.begin()] {
      const announcement at_the_end{*this, running_[static_cast<std::size_t>(worker)]};
      return work_.compute(unit, static_cast<std::size_t>(worker));
    });
    return true;
  }

  struct finished_unit {
    std::size_t unit;
    std::string result;
  };

  /// A unit that is complete, if there is one. Throws what computing it threw.
  std::optional<finished_unit> take() {
    std::unique_lock lock(mutex_);
    const auto done = std::ranges::find_if(running_, [](const running_unit& x) { return x.is_done; });
    if (done == running_.end()) return std::nullopt;
    done->is_done = false;
    lock.unlock();
    return finished_unit{done->unit, done->result.get()};
  }

  /// Returns when a unit is complete, or after a while.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(20),
                      [&] { return std::ranges::any_of(running_, [](const running_unit& x) { return x.is_done; }); });
  }

 private:
  struct running_unit {
    std::size_t unit = 0;
    bool is_done = false;  // or about to be
    std::future<std::string> result = {};
  };

  struct announcement {
    local_workers& to;
    running_unit& of;
    ~announcement() {
      const std::lock_guard lock(to.mutex_);
      of.is_done = true;
      to.changed_.notify_one();
    }
  };

  const shared_work& work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<running_unit> running_;  // of each worker; last, because its threads use the members above
};

}  // namespace nullscope::cli
