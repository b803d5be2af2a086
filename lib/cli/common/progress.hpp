/// A progress bar on stderr with the remaining time. Prints nothing if stderr is not a terminal.
#pragma once

#include <chrono>
#include <string>

namespace nullscope::cli {

class progress_bar {
 public:
  /// `done` of the `total` was complete before the clock started.
  progress_bar(double total, double done);
  ~progress_bar() { clear(); }
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  void advance(double work) { done_ += work; }

  /// Draws the bar with `text` next to it, at most five times per second. `under_way` is work of what has begun and is
  /// not complete.
  void draw(const std::string& text, double under_way = 0);

  /// Removes the bar, so that something else can be printed.
  void clear();

 private:
  using clock = std::chrono::steady_clock;

  bool is_enabled_, is_drawn_ = false;
  double total_, done_, done_before_;
  clock::time_point start_ = clock::now(), last_ = {};
};

}  // namespace nullscope::cli
