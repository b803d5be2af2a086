#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/core/harness.hpp"

namespace nullscope::bench {
namespace {

using part_function = std::function<void(std::int64_t, std::int64_t)>;

/// Threads that sleep between calls: a pool that spins would disturb what is measured next.
class thread_pool {
 public:
  thread_pool() : parts_(std::max(1u, std::thread::hardware_concurrency())) {
    for (std::int64_t i = 1; i < parts_; ++i)
      threads_.emplace_back([this, i](std::stop_token stop) { serve(stop, i); });
  }

  void run(std::int64_t count, const part_function& part) {
    {
      const std::lock_guard lock(mutex_);
      part_ = &part;
      count_ = count;
      left_ = parts_ - 1;
      ++generation_;
    }
    begin_.notify_all();
    do_part(0);
    std::unique_lock lock(mutex_);
    end_.wait(lock, [&] { return left_ == 0; });
  }

 private:
  void do_part(std::int64_t index) {
    const std::int64_t begin = count_ * index / parts_, end = count_ * (index + 1) / parts_;
    if (begin < end) (*part_)(begin, end);
  }

  void serve(std::stop_token stop, std::int64_t index) {
    for (std::int64_t seen = 0;; ++seen) {
      {
        std::unique_lock lock(mutex_);
        if (!begin_.wait(lock, stop, [&] { return generation_ > seen; })) return;
      }
      do_part(index);
      const std::lock_guard lock(mutex_);
      if (--left_ == 0) end_.notify_one();
    }
  }

  const std::int64_t parts_;
  std::mutex mutex_;
  std::condition_variable_any begin_, end_;
  const part_function* part_ = nullptr;
  std::int64_t count_ = 0, left_ = 0, generation_ = 0;
  std::vector<std::jthread> threads_;  // last, so that they end first
};

}  // namespace

void parallel_for(std::int64_t count, const part_function& part) {
  static thread_pool pool;
  pool.run(count, part);
}

}  // namespace nullscope::bench
