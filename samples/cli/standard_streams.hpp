/// Standard input, output and error as a program needs them: open, and with failures that are noticed.
#pragma once

namespace nullscope::cli {

/// Opens those that the caller has closed, as empty ones: otherwise the first file that the program opens would take
/// their place, and get what is printed.
void open_standard_streams();

/// Writes out what is still buffered for standard output. Throws file_error if any of it was lost, as on a full disk.
void finish_standard_output();

}  // namespace nullscope::cli
