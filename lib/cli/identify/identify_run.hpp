/// Runs nullscope identify: divides the experiments into units, keeps a journal, writes tables and charts.
#pragma once

#include <cstdint>
#include <nullscope/probes/token_identifiability.hpp>
#include <string>
#include <vector>

#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/text_input.hpp"

namespace nullscope::cli {

struct identify_command {
  text_input_options input;
  std::string output, device;
  std::vector<std::string> experiments{"layers"}, maps{"identity", "linear", "mlp"}, distances{"cosine", "l2"};
  std::vector<std::int64_t> layers;
  std::vector<double> rates{1e-4};
  probe_training training;
  std::int64_t folds = 10, limit = 0, memory = std::int64_t{2} << 30;
  std::uint64_t seed = 1;
  bool quiet = false;
  rerun_options rerun;
};

void run_identify(const identify_command& command);

}  // namespace nullscope::cli
