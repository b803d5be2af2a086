/// Ctrl-C and kill, handled between two steps of the work.
#pragma once

namespace nullscope::cli {

/// From now on SIGINT, SIGTERM and SIGHUP are only noted. Those that were ignored when the program started stay
/// ignored.
void note_signals();

/// The signal that was noted, or 0.
int noted_signal();

}  // namespace nullscope::cli
