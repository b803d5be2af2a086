/// Runs nullscope identify: keeps a journal of its units, writes tables and charts.
#pragma once

#include <cstdint>
#include <string>

#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/text_input.hpp"
#include "lib/src/studies/identification_study.hpp"

namespace nullscope::cli {

struct identify_command {
  text_input_options input;
  std::string output, device;
  identification_study study;
  std::int64_t limit = 0;  ///< texts of the file that are read; 0: all
  bool quiet = false;
  rerun_options rerun;
};

void run_identify(const identify_command& command);

}  // namespace nullscope::cli
