/// The table at the end of a run: one row per comparison, with ratios between its paths.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "bench/core/harness.hpp"
#include "bench/core/reporter.hpp"

namespace nullscope::bench {

/// Skips comparisons none of whose paths ran.
void print_summary(std::ostream& out, const suite& described, const std::map<std::string, result>& results);

}  // namespace nullscope::bench
