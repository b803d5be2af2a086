#include "lib/src/studies/identification_study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

namespace nullscope {
namespace {

identifiability_options options_of(const identification_study& study, const std::string& map,
                                   const std::string& distance) {
  identifiability_options options;
  options.map = map == "identity" ? probe_map::identity : map == "mlp" ? probe_map::mlp : probe_map::linear;
  options.distance = distance == "l2" ? probe_distance::l2 : probe_distance::cosine;
  if (map == "least-squares") {
    options.fit = probe_fit::least_squares;
    options.loss = probe_distance::l2;
  }
  options.training = study.training;
  options.training.learning_rate = study.rates[0];
  if (study.rates.size() > 1) options.training.rate_search = study.rates;
  options.layers = study.layers;
  options.folds = study.folds;
  options.seed = study.seed;
  options.memory = study.memory;
  return options;
}

/// How many folds of all layers train side by side within the memory; what is kept of an interrupted run is whole
/// units.
std::int64_t folds_together(const identification_study& study, const transformer_config& config,
                            const identifiability_options& options) {
  if (options.map == probe_map::identity || options.fit == probe_fit::least_squares) return study.folds;
  const std::int64_t d = config.width, hidden = options.map == probe_map::mlp ? options.training.hidden_units : 0;
  const std::int64_t parameters = hidden > 0 ? 2 * d * hidden : d * d;
  const std::int64_t bytes = 4 * (5 * parameters + 2 * options.training.batch * (d + hidden));
  const std::int64_t layers = study.layers.empty() ? config.layers : std::ssize(study.layers),
                     rates = std::max<std::int64_t>(1, std::ssize(options.training.rate_search));
  return std::clamp<std::int64_t>(study.memory / (bytes * layers * rates), 1, study.folds);
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

double identification_unit::cost() const {
  const double probes = static_cast<double>(options.chosen_folds.size());
  return probes * (map == "mlp" ? 50 : map == "linear" ? 10 : map == "least-squares" ? 5 : 1);
}

std::vector<identification_unit> identification_units(const identification_study& study,
                                                      const transformer_config& config) {
  std::vector<identification_unit> units;
  for (const std::string& experiment : study.experiments) {
    for (const std::string& map : study.maps) {
      for (const std::string& distance : study.distances) {
        const identifiability_options all = options_of(study, map, distance);
        const std::int64_t together = folds_together(study, config, all);
        for (identifiability_options options : variants_of(experiment, all, config.layers)) {
          for (std::int64_t first = 0; first < study.folds; first += together) {
            options.chosen_folds.clear();
            for (std::int64_t fold = first; fold < std::min(first + together, study.folds); ++fold) {
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

std::vector<identification_row> identify(context& ctx, const token_states<float>& states,
                                         const identification_unit& unit) {
  const identifiability_options& options = unit.options;
  std::vector<identification_row> rows;
  for (const identification& one :
       token_identifiability(ctx, states.inputs, states.hidden, states.sentences, options)) {
    std::string experiment = unit.experiment;
    if (experiment == "generalisation") experiment += one.on_training ? "-training" : "-test";
    if (options.training_share < 1) experiment += fmt::format("-{:.0f}", 100 * options.training_share);
    rows.push_back({experiment, unit.map, unit.distance, one.trained_on, one.tested_on, options.offset, one.fold,
                    one.tokens, one.correct, one.learning_rate, one.epochs});
  }
  return rows;
}

identification_key key_of(const identification_row& row) {
  return {row.experiment, row.map, row.distance, row.trained_on, row.tested_on, row.offset};
}

bool is_of(const std::string& experiment, const identification_row& row) {
  return row.experiment == experiment || row.experiment.starts_with(experiment + "-");
}

std::vector<identification_summary> summaries_of(const std::vector<identification_row>& rows) {
  std::vector<identification_summary> summaries;
  std::map<identification_key, std::size_t> places;
  std::vector<std::vector<double>> rates;
  for (const identification_row& row : rows) {
    const auto [found, is_new] = places.try_emplace(key_of(row), summaries.size());
    if (is_new) {
      summaries.push_back({row});
      rates.emplace_back();
    }
    identification_summary& one = summaries[found->second];
    ++one.folds;
    one.tokens += row.tokens;
    rates[found->second].push_back(static_cast<double>(row.correct) / static_cast<double>(row.tokens));
  }
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    const double count = static_cast<double>(rates[i].size());
    double squares = 0;
    for (const double rate : rates[i]) summaries[i].mean += rate / count;
    for (const double rate : rates[i]) squares += (rate - summaries[i].mean) * (rate - summaries[i].mean);
    if (rates[i].size() > 1) summaries[i].deviation = std::sqrt(squares / (count - 1));
  }
  return summaries;
}

nlohmann::json to_journal(const std::vector<identification_row>& rows) {
  nlohmann::json all = nlohmann::json::array();
  for (const identification_row& row : rows) {
    all.push_back({row.experiment, row.map, row.distance, row.trained_on, row.tested_on, row.offset, row.fold,
                   row.tokens, row.correct, row.learning_rate, row.epochs});
  }
  return all;
}

std::vector<identification_row> from_journal(const nlohmann::json& rows) {
  std::vector<identification_row> all;
  for (const nlohmann::json& row : rows) {
    identification_row& one = all.emplace_back();
    one.experiment = row.at(0);
    one.map = row.at(1);
    one.distance = row.at(2);
    std::int64_t* const numbers[] = {&one.trained_on, &one.tested_on, &one.offset,
                                     &one.fold,       &one.tokens,    &one.correct};
    for (std::size_t i = 0; i < std::size(numbers); ++i) *numbers[i] = row.at(3 + i);
    one.learning_rate = row.at(9);
    one.epochs = row.at(10);
  }
  return all;
}

}  // namespace nullscope
