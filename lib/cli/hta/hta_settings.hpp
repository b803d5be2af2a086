/// What the command line of nullscope hta asks for, checked against the model.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/text_input.hpp"

namespace nullscope::cli {

struct hta_command {
  text_input_options input;
  std::string output, report, device, type = "f32", norm = "frobenius", from = "embeddings";
  std::vector<std::int64_t> layers;
  std::int64_t samples = 0, limit = 0, memory = std::int64_t{2} << 30;
  std::uint64_t seed = 1;
  bool words = false, quiet = false;
  rerun_options rerun;
};

/// The options of the library; throws usage_error on what the model does not have.
attribution_options options_of(const hta_command& command, const transformer_config& config);

/// The texts, with their tags checked. Throws file_error.
std::vector<input_text> read_texts(text_source& source, std::int64_t limit);

/// Everything that determines the numbers.
nlohmann::ordered_json identity_of(const hta_command& command, const text_source& source,
                                   const std::vector<input_text>& texts, const attribution_options& options,
                                   const sycl::device& device);

}  // namespace nullscope::cli
