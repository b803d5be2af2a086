/// The work of nullscope identify in units that are computed, kept and resumed as a whole.
#pragma once

#include <nullscope/model/transformer.hpp>
#include <string>
#include <vector>

#include "lib/cli/identify/identify_run.hpp"

namespace nullscope::cli {

/// Probes that are fitted in one call: some folds of one experiment, map and distance.
struct identify_unit {
  std::string experiment, map, distance;
  identifiability_options options;

  /// About how long it takes, relative to others.
  double cost() const {
    const double probes = static_cast<double>(options.chosen_folds.size());
    return probes * (map == "mlp" ? 50 : map == "linear" ? 10 : map == "least-squares" ? 5 : 1);
  }
};

/// By experiment, map, distance and variant of the experiment; depends on the settings alone.
std::vector<identify_unit> identify_units(const identify_command& command, const transformer_config& config);

}  // namespace nullscope::cli
