/// Keeps standard input, output and error open, and reports failed writes.
#pragma once

namespace nullscope::cli {

/// Opens /dev/null in place of streams that the caller has closed. Otherwise the first file that the program opens
/// would get their number, and what is printed would be written into it.
void open_standard_streams();

/// Flushes standard output. Throws file_error if anything was lost, for example because a disk is full.
void finish_standard_output();

}  // namespace nullscope::cli
