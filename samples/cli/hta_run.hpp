/// Runs nullscope hta: divides the texts into units, keeps a journal, writes the file and the report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text_input.hpp"

namespace nullscope::cli {

struct hta_command {
  text_input_options input;
  std::string output, report, device, type = "f32", norm = "frobenius", memory = "2GiB", from = "embeddings";
  std::vector<std::int64_t> layers;
  std::int64_t samples = 0, limit = 0;
  std::uint64_t seed = 1;
  bool words = false, resume = false, quiet = false;
};

void run_hta(const hta_command& command);

}  // namespace nullscope::cli
