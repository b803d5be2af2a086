#include "lib/cli/common/interruption.hpp"

#include <array>
#include <csignal>

namespace nullscope::cli {
namespace {

volatile std::sig_atomic_t noted = 0;

struct ending_signal {
  int number;
  bool is_ignored;  // since the start: by nohup, or by a script that runs the program in the background
};

ending_signal as_inherited(int number) {
  struct sigaction action {};
  sigaction(number, nullptr, &action);
  return {number, action.sa_handler == SIG_IGN};
}

// Read before main: the compiler of the SYCL runtime installs its own handlers.
const std::array ending_signals{as_inherited(SIGINT), as_inherited(SIGTERM), as_inherited(SIGHUP)};

}  // namespace

void note_signals() {
  for (const ending_signal& signal : ending_signals) {
    struct sigaction action {};
    action.sa_handler = [](int number) { noted = number; };
    if (signal.is_ignored) action.sa_handler = SIG_IGN;
    action.sa_flags = SA_RESTART;
    sigaction(signal.number, &action, nullptr);
  }
}

int noted_signal() { return noted; }

}  // namespace nullscope::cli
