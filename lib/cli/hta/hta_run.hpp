/// Runs nullscope hta: divides the texts into units, keeps a journal, writes the file and the report.
#pragma once

#include "lib/cli/hta/hta_settings.hpp"

namespace nullscope::cli {

void run_hta(const hta_command& command);

}  // namespace nullscope::cli
