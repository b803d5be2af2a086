/// The table at the end of a run: one row a comparison, with ratios between its paths.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "harness.hpp"
#include "reporter.hpp"

namespace nullscope::bench {

/// Comparisons none of whose paths ran are left out.
void print_summary(std::ostream& out, const suite& described, const std::map<std::string, result>& results);

}  // namespace nullscope::bench
