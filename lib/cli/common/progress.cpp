#include "lib/cli/common/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace nullscope::cli {
namespace {

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(std::ceil(seconds));
  if (whole >= 3600) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} s", whole);
}

}  // namespace

progress_bar::progress_bar(double total, double done)
    : is_enabled_(isatty(STDERR_FILENO) == 1), total_(total), done_(done), done_before_(done) {}

void progress_bar::draw(const std::string& text, double under_way) {
  const clock::time_point now = clock::now();
  if (!is_enabled_ || now - last_ < std::chrono::milliseconds(200)) return;
  last_ = now;
  constexpr int width = 30;
  const double done = done_ + under_way, share = total_ > 0 ? done / total_ : 1;
  const auto full = static_cast<int>(share * width);
  const double elapsed = std::chrono::duration<double>(now - start_).count(), fresh = done - done_before_;
  // Not from the first units, during which kernels are compiled.
  const std::string left =
      fresh > 0.05 * (total_ - done_before_) ? duration_text(elapsed / fresh * (total_ - done)) + " left" : "";
  fmt::print(stderr, "\r\033[K[{:#<{}}{:<{}}] {:3.0f} %  {}  {}", "", full, "", width - full, 100 * share, text, left);
  std::fflush(stderr);
  is_drawn_ = true;
}

void progress_bar::clear() {
  if (!is_drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  is_drawn_ = false;
}

}  // namespace nullscope::cli
