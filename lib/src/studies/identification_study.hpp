/// The experiments of Brunner et al. 2020, section 4, on token identifiability: in units that are computed, kept and
/// resumed as a whole, and the rates that come out.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <nullscope/probes/token_identifiability.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace nullscope {

/// What is studied. Experiments: layers (a probe for each layer), transfer (tested on all layers), generalisation
/// (training against test, and less data), steps (from a layer to the one before), neighbours (tokens i +- 1, 2, 3).
/// Maps: identity, linear, mlp, least-squares. Distances: cosine, l2.
struct identification_study {
  std::vector<std::string> experiments{"layers"}, maps{"identity", "linear", "mlp"}, distances{"cosine", "l2"};
  std::vector<std::int64_t> layers = {};  ///< to train on; default: all
  std::vector<double> rates{1e-4};        ///< of Adam; of several, each probe takes the best on the validation data
  probe_training training = {};
  std::int64_t folds = 10, memory = std::int64_t{2} << 30;
  std::uint64_t seed = 1;
};

/// Probes that are fitted in one call: some folds of one experiment, map and distance.
struct identification_unit {
  std::string experiment, map, distance;
  identifiability_options options;

  /// About how long it takes, relative to others.
  double cost() const;
};

/// By experiment, map, distance and variant of the experiment; depends on the study and the model alone.
std::vector<identification_unit> identification_units(const identification_study& study,
                                                      const transformer_config& config);

/// One probe, tested on the tokens of one fold.
struct identification_row {
  std::string experiment, map, distance;  ///< the experiment with its variant: "generalisation-test-50"
  std::int64_t trained_on = 0, tested_on = 0, offset = 0, fold = 0, tokens = 0, correct = 0;
  double learning_rate = 0;  ///< of probes that were trained
  std::int64_t epochs = 0;
};

/// Fits and tests the probes of a unit; `unit.options.progress` is called meanwhile.
std::vector<identification_row> identify(context& ctx, const token_states<float>& states,
                                         const identification_unit& unit);

/// Whether a row belongs to an experiment, in any variant.
bool is_of(const std::string& experiment, const identification_row& row);

/// Experiment, map, distance, layers trained and tested on, offset: what all folds have in common.
using identification_key = std::tuple<std::string, std::string, std::string, std::int64_t, std::int64_t, std::int64_t>;
identification_key key_of(const identification_row& row);

/// All folds of one key.
struct identification_summary {
  identification_row of;  ///< the first fold
  std::int64_t folds = 0, tokens = 0;
  double mean = 0, deviation = 0;  ///< of the rate, over folds; 0 with one fold
};

/// In the order of the first rows.
std::vector<identification_summary> summaries_of(const std::vector<identification_row>& rows);

/// Rows as a journal keeps them: JSON without names.
nlohmann::json to_journal(const std::vector<identification_row>& rows);
std::vector<identification_row> from_journal(const nlohmann::json& rows);

}  // namespace nullscope
