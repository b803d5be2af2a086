/// LIME, linear and additive regression, and Kernel SHAP: linear least squares over coalitions of tokens.
#include <algorithm>
#include <cmath>

#include "lib/src/explain/coalitions.hpp"
#include "lib/src/explain/explain_methods.hpp"

namespace nullscope::detail {
namespace {

/// Texts with few deletions, as coalitions of parameters.
coalitions few_deletions(const explain_task& task, std::size_t i) {
  const text_parameters& parameters = task.parameters[i];
  explained_text players;  // one token per parameter
  for (std::int32_t p = 0; p < parameters.count(); ++p) players.ids.push_back(p);
  const sampled_queries drawn = sample_queries(players, parameters_of_text(players, token_identity::by_place), 1,
                                               {.kind = query_kind::deletions,
                                                .identity = token_identity::by_place,
                                                .samples = task.options.samples,
                                                .most_deleted = task.options.most_deleted,
                                                .seed = task.options.seed});
  coalitions result;
  result.players = parameters.count();
  result.weight = drawn.queries.weight;
  for (const token_sequence& left : drawn.sequences) {
    std::vector<std::uint8_t> present(players.ids.size());
    for (const std::int32_t p : left) present[static_cast<std::size_t>(p)] = 1;
    result.present.push_back(std::move(present));
  }
  return result;
}

std::vector<std::vector<token_sequence>> texts_of(const explain_task& task, const std::vector<coalitions>& chosen) {
  std::vector<std::vector<token_sequence>> sequences;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    sequences.emplace_back();
    for (const auto& present : chosen[i].present) {
      sequences.back().push_back(text_with(task.texts[i], task.parameters[i], present));
    }
  }
  return sequences;
}

/// The smallest lasso penalty at which all coefficients of a fit with intercept are 0: the largest
/// |sum_i w_i x_ij (y_i - mean)| / sum_i w_i. 1 if every penalty does that.
double largest_penalty(const linear_samples& samples) {
  double total = 0, mean = 0, largest = 0;
  for (std::size_t i = 0; i < samples.targets.size(); ++i) {
    total += samples.weights[i];
    mean += samples.weights[i] * samples.targets[i];
  }
  mean /= total;
  const auto width = static_cast<std::size_t>(samples.features);
  std::vector<double> pull(width);
  for (std::size_t i = 0; i < samples.targets.size(); ++i) {
    const double rest = samples.weights[i] / total * (samples.targets[i] - mean);
    for (std::size_t j = 0; j < width; ++j) pull[j] += rest * samples.rows[i * width + j];
  }
  for (const double p : pull) largest = std::max(largest, std::abs(p));
  return largest > 0 ? largest : 1;
}

}  // namespace

void explain_by_regression(explain_task& task) {
  const explain_options& options = task.options;
  const bool is_lime = options.method == explanation_method::lime;
  std::vector<coalitions> chosen;
  for (std::size_t i = 0; i < task.texts.size(); ++i) {
    chosen.push_back(
        is_lime ? lime_coalitions(task.parameters[i].count(), options.samples, options.kernel_width, options.seed)
                : few_deletions(task, i));
  }
  const auto logits = scores_of_all(task.model, texts_of(task, chosen));
  std::vector<linear_samples> problems;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    linear_samples samples;
    samples.features = chosen[i].players;
    samples.weights = chosen[i].weight;
    for (const auto& present : chosen[i].present)
      samples.rows.insert(samples.rows.end(), present.begin(), present.end());
    samples.targets = class_scores(task.model, logits[i], task.found[i].of_class);
    problems.push_back(std::move(samples));
  }
  const std::vector<linear_surrogate> models = fit_linear(task.ctx, problems, {.ridge = is_lime ? options.ridge : 0});
  for (std::size_t i = 0; i < models.size(); ++i) {
    explanation& found = task.found[i];
    share_among_occurrences(task.parameters[i], models[i].coefficients, found.attribution);
    found.base = models[i].intercept;
    found.fit_error = models[i].mean_squared_error;
    found.queries = static_cast<std::int64_t>(chosen[i].present.size());
  }
}

/// A token has a coefficient for every position to which deletions in front of it can move it, from its place p in the
/// text (without special tokens) down to p - most: feature p (1 + most) + number of deletions.
void explain_by_additive(explain_task& task) {
  std::vector<coalitions> chosen;
  for (std::size_t i = 0; i < task.texts.size(); ++i) chosen.push_back(few_deletions(task, i));
  const auto logits = scores_of_all(task.model, texts_of(task, chosen));
  const std::int64_t positions = 1 + task.options.most_deleted;
  std::vector<linear_samples> problems;
  std::vector<double> scales;  // that targets are divided by, so that one penalty means the same for all texts
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    linear_samples samples;
    samples.features = chosen[i].players * positions;
    samples.weights = chosen[i].weight;
    samples.rows.resize(chosen[i].present.size() * static_cast<std::size_t>(samples.features));
    double* row = samples.rows.data();
    for (const auto& present : chosen[i].present) {
      std::int64_t deleted = 0;
      for (std::int64_t p = 0; p < chosen[i].players; ++p) {
        if (present[static_cast<std::size_t>(p)] != 0) {
          row[p * positions + deleted] = 1;
        } else {
          ++deleted;
        }
      }
      row += samples.features;
    }
    samples.targets = class_scores(task.model, logits[i], task.found[i].of_class);
    scales.push_back(largest_penalty(samples));
    for (double& target : samples.targets) target /= scales.back();
    problems.push_back(std::move(samples));
  }
  const std::vector<linear_surrogate> models = fit_linear(task.ctx, problems, {.lasso = task.options.lasso});
  for (std::size_t i = 0; i < models.size(); ++i) {
    explanation& found = task.found[i];
    std::vector<double> in_place;  // coefficients of tokens where the text has them
    for (std::int64_t p = 0; p < chosen[i].players; ++p) {
      in_place.push_back(scales[i] * models[i].coefficients[static_cast<std::size_t>(p * positions)]);
    }
    share_among_occurrences(task.parameters[i], in_place, found.attribution);
    found.base = scales[i] * models[i].intercept;
    found.fit_error = scales[i] * scales[i] * models[i].mean_squared_error;
    found.queries = static_cast<std::int64_t>(chosen[i].present.size());
  }
}

void explain_by_shap(explain_task& task) {
  std::vector<coalitions> chosen;
  for (const text_parameters& parameters : task.parameters) {
    chosen.push_back(shap_coalitions(parameters.count(), task.options.samples, task.options.seed));
    chosen.back().present.emplace_back(static_cast<std::size_t>(parameters.count()), std::uint8_t{0});  // nobody
  }
  const auto logits = scores_of_all(task.model, texts_of(task, chosen));
  std::vector<linear_samples> problems;
  std::vector<std::size_t> with_problem;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    std::vector<double> scores = class_scores(task.model, logits[i], task.found[i].of_class);
    task.found[i].base = scores.back();
    task.found[i].queries = static_cast<std::int64_t>(scores.size()) + 1;
    chosen[i].present.pop_back();
    scores.pop_back();
    if (chosen[i].players == 1) continue;
    problems.push_back(shap_equations(chosen[i], scores, task.found[i].base, task.found[i].score));
    with_problem.push_back(i);
  }
  const std::vector<linear_surrogate> models = fit_linear(task.ctx, problems, {.intercept = false});
  for (explanation& found : task.found) found.fit_error = 0;
  std::vector<std::vector<double>> values(chosen.size());
  for (std::size_t k = 0; k < models.size(); ++k) {
    values[with_problem[k]] = models[k].coefficients;
    task.found[with_problem[k]].fit_error = models[k].mean_squared_error;
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    double rest = task.found[i].score - task.found[i].base;
    for (const double value : values[i]) rest -= value;
    values[i].push_back(rest);
    share_among_occurrences(task.parameters[i], values[i], task.found[i].attribution);
  }
}

}  // namespace nullscope::detail
