/// The methods of `explain`: each fills in the explanations of all texts.
#pragma once

#include <nullscope/explain/explanations.hpp>
#include <vector>

#include "lib/src/explain/query_sampling.hpp"

namespace nullscope::detail {

struct explain_task {
  context& ctx;
  const explained_model& model;
  std::span<const explained_text> texts;
  const explain_options& options;
  std::vector<text_parameters> parameters;  // of each text
  std::vector<explanation> found;           // class and score are there already
};

void explain_by_slalom(explain_task& task);
void explain_by_regression(explain_task& task);
void explain_by_additive(explain_task& task);
void explain_by_shap(explain_task& task);
void explain_by_gradients(explain_task& task);

/// Logits of the sequences of each text, all computed together. Throws computation_error with the texts whose logits
/// are not finite.
std::vector<std::vector<double>> scores_of_all(const explained_model& model,
                                               const std::vector<std::vector<token_sequence>>& sequences);

/// score_of_class of each row of logits.
std::vector<double> class_scores(const explained_model& model, const std::vector<double>& logits,
                                 std::int64_t of_class);

/// What was found for the parameters, for the places of the text.
void share_among_occurrences(const text_parameters& parameters, const std::vector<double>& of_parameter,
                             std::vector<double>& attribution);

}  // namespace nullscope::detail
