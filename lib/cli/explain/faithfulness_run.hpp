/// What `nullscope faithfulness` measures.
#pragma once

#include <cstdint>
#include <nullscope/explain/explanations.hpp>
#include <string>
#include <vector>

#include "lib/cli/common/progress.hpp"
#include "lib/cli/explain/explained_classifier.hpp"

namespace nullscope::cli {

/// A text with what is known about it.
struct measured_text {
  explained_text text;
  std::int64_t of_class = 0;
  std::vector<std::uint8_t> marked = {};  ///< by people, for each token; empty if nobody has
};

/// One row of the table: a method, or one of SLALOM's scores.
struct measured_method {
  std::string name;
  std::vector<perturbation_curves> curves;                    // of each text
  std::vector<double> deletion, insertion, naive_bayes, roc;  // of each text
  std::vector<double> fidelity;                               // empty for SLALOM's single scores
  double seconds = 0;                                         // per text
};

struct faithfulness_settings {
  std::vector<std::string> methods;
  explain_options options = {};
  curve_options curves = {};
  fidelity_options fidelity = {};
};

/// Explains the texts by every method and measures. `others` are for the counts of Naive Bayes.
std::vector<measured_method> measure(context& ctx, const explained_model& model,
                                     const std::vector<measured_text>& texts, const std::vector<measured_text>& others,
                                     const faithfulness_settings& settings, progress_bar& bar);

}  // namespace nullscope::cli
