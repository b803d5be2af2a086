/// The chart of a sweep.
#pragma once

#include <nullscope/studies/sweep.hpp>
#include <string>
#include <vector>

namespace nullscope::cli {

/// SVG: rank and null space over the length, with the bound min(S, d_v); the correlation and the rank of the logits,
/// if they were computed.
std::string sweep_chart(const std::string& title, const sweep_settings& settings,
                        const std::vector<sweep_summary>& summaries);

/// The seconds that the heads of a length took.
struct sweep_time {
  sweep_kind kind;
  std::int64_t length, heads;
  double seconds;
};

/// SVG: seconds per head over the length.
std::string time_chart(const std::string& title, const sweep_settings& settings, const std::string& device,
                       const std::vector<sweep_time>& times);

}  // namespace nullscope::cli
