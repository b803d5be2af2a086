#include "interruption.hpp"

#include <csignal>
#include <initializer_list>

namespace nullscope::cli {
namespace {

volatile std::sig_atomic_t noted = 0;

}  // namespace

void note_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    action.sa_handler = [](int number) { noted = number; };
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

int noted_signal() { return noted; }

}  // namespace nullscope::cli
