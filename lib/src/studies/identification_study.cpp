#include "lib/cli/identify/identify_units.hpp"

#include <algorithm>

namespace nullscope::cli {
namespace {

identifiability_options options_of(const identify_command& command, const std::string& map,
                                   const std::string& distance) {
  identifiability_options options;
  options.map = map == "identity" ? probe_map::identity : map == "mlp" ? probe_map::mlp : probe_map::linear;
  options.distance = distance == "l2" ? probe_distance::l2 : probe_distance::cosine;
  if (map == "least-squares") {
    options.fit = probe_fit::least_squares;
    options.loss = probe_distance::l2;
  }
  options.training = command.training;
  options.training.learning_rate = command.rates[0];
  if (command.rates.size() > 1) options.training.rate_search = command.rates;
  options.layers = command.layers;
  options.folds = command.folds;
  options.seed = command.seed;
  options.memory = command.memory;
  return options;
}

/// How many folds of all layers train side by side within the memory; what is kept of an interrupted run is whole
/// units.
std::int64_t folds_together(const identify_command& command, const transformer_config& config,
                            const identifiability_options& options) {
  if (options.map == probe_map::identity || options.fit == probe_fit::least_squares) return command.folds;
  const std::int64_t d = config.width, hidden = options.map == probe_map::mlp ? options.training.hidden_units : 0;
  const std::int64_t parameters = hidden > 0 ? 2 * d * hidden : d * d;
  const std::int64_t bytes = 4 * (5 * parameters + 2 * options.training.batch * (d + hidden));
  const std::int64_t layers = command.layers.empty() ? config.layers : std::ssize(command.layers),
                     rates = std::max<std::int64_t>(1, std::ssize(options.training.rate_search));
  return std::clamp<std::int64_t>(command.memory / (bytes * layers * rates), 1, command.folds);
}

/// The variants of an experiment, one for each call of the library.
std::vector<identifiability_options> variants_of(const std::string& experiment, identifiability_options options,
                                                 std::int64_t layers) {
  std::vector<identifiability_options> variants;
  if (experiment == "neighbours") {
    for (const std::int64_t offset : {-3, -2, -1, 1, 2, 3}) {
      options.offset = offset;
      variants.push_back(options);
    }
    return variants;
  }
  options.across_layers = experiment == "transfer";
  options.steps = experiment == "steps";
  options.on_training = experiment == "generalisation";
  variants.push_back(options);
  if (experiment != "generalisation" || options.map == probe_map::identity) return variants;
  options.on_training = false;
  options.layers = {std::max<std::int64_t>(1, layers - 1)};  // the paper's layer 11 of 12
  for (const double share : {0.5, 0.8, 0.9}) {
    options.training_share = share;
    variants.push_back(options);
  }
  return variants;
}

}  // namespace

std::vector<identify_unit> identify_units(const identify_command& command, const transformer_config& config) {
  std::vector<identify_unit> units;
  for (const std::string& experiment : command.experiments) {
    for (const std::string& map : command.maps) {
      for (const std::string& distance : command.distances) {
        const identifiability_options all = options_of(command, map, distance);
        const std::int64_t together = folds_together(command, config, all);
        for (identifiability_options options : variants_of(experiment, all, config.layers)) {
          for (std::int64_t first = 0; first < command.folds; first += together) {
            options.chosen_folds.clear();
            for (std::int64_t fold = first; fold < std::min(first + together, command.folds); ++fold) {
              options.chosen_folds.push_back(fold);
            }
            units.push_back({experiment, map, distance, options});
          }
        }
      }
    }
  }
  return units;
}

}  // namespace nullscope::cli
