/// Ctrl-C and kill, noticed between two steps of the work.
#pragma once

namespace nullscope::cli {

/// From now on SIGINT, SIGTERM and SIGHUP only leave a note; those that were ignored when the program began stay so.
void note_signals();

/// The signal that came, or 0.
int noted_signal();

}  // namespace nullscope::cli
