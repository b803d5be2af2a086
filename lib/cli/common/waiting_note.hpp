/// Prints on stderr what a command is waiting for, if that takes longer than a second.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <nullscope/core/context.hpp>
#include <string>
#include <thread>
#include <utility>

namespace nullscope::cli {

class waiting_note {
 public:
  explicit waiting_note(std::string text)
      : thread_([text = std::move(text)](const std::stop_token& is_done) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any condition;
          condition.wait_for(lock, is_done, std::chrono::seconds(1), [] { return false; });
          if (!is_done.stop_requested()) fmt::print(stderr, "{}\n", text);
        }) {}

 private:
  std::jthread thread_;  // its destructor asks it to stop
};

/// For the first computation of a process, which compiles kernels that were never used on this device.
inline waiting_note note_of_first_use(const context& ctx) {
  return waiting_note(
      fmt::format("Computing on {}; on first use, kernels are compiled and kept ...", ctx.device().name));
}

}  // namespace nullscope::cli
