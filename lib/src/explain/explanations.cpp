#include <nullscope/explain/explanations.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nullscope/core/errors.hpp>

#include "lib/src/explain/explain_methods.hpp"

namespace nullscope {
namespace {

constexpr std::array<std::pair<std::string_view, explanation_method>, 8> names{{
    {"slalom", explanation_method::slalom},
    {"lime", explanation_method::lime},
    {"shap", explanation_method::shap},
    {"linear", explanation_method::linear},
    {"additive", explanation_method::additive},
    {"gradient", explanation_method::gradient},
    {"gradient-times-input", explanation_method::gradient_times_input},
    {"integrated-gradients", explanation_method::integrated_gradients},
}};

void check_options(const explained_model& model, const explain_options& options) {
  if (!model.logits || model.classes < 1) throw invalid_argument("explain: the model has no logits or no classes");
  if (options.of_class && (*options.of_class < 0 || *options.of_class >= model.classes)) {
    throw invalid_argument(
        fmt::format("explain: class {} of a model with classes 0 to {}", *options.of_class, model.classes - 1));
  }
  if (options.samples < 1 || options.steps < 1 || !(options.kernel_width > 0) || !(options.ridge >= 0) ||
      !(options.lasso >= 0)) {
    throw invalid_argument(fmt::format("explain: {} samples, {} steps, kernel width {}, ridge {}, lasso {}",
                                       options.samples, options.steps, options.kernel_width, options.ridge,
                                       options.lasso));
  }
}

}  // namespace

std::string_view to_string(explanation_method method) {
  for (const auto& [name, known] : names) {
    if (known == method) return name;
  }
  return "unknown";
}

explanation_method explanation_method_named(std::string_view name) {
  std::vector<std::string_view> all;
  for (const auto& [known, method] : names) {
    if (known == name) return method;
    all.push_back(known);
  }
  throw invalid_argument(fmt::format("there is no method \"{}\"; the methods are: {}", name, fmt::join(all, ", ")));
}

namespace detail {

std::vector<std::vector<double>> scores_of_all(const explained_model& model,
                                               const std::vector<std::vector<token_sequence>>& sequences) {
  std::vector<token_sequence> all;
  for (const auto& part : sequences) all.insert(all.end(), part.begin(), part.end());
  const std::vector<double> logits = logits_of(model, all);
  std::vector<std::vector<double>> result;
  auto from = logits.begin();
  std::vector<std::int64_t> failed;
  for (const auto& part : sequences) {
    const auto count = static_cast<std::ptrdiff_t>(part.size()) * model.classes;
    result.emplace_back(from, from + count);
    from += count;
    if (!std::ranges::all_of(result.back(), [](double x) { return std::isfinite(x); })) {
      failed.push_back(static_cast<std::int64_t>(result.size()) - 1);
    }
  }
  if (!failed.empty()) {
    throw computation_error(
        fmt::format("explain: the model's scores for queries of texts {} are not finite", fmt::join(failed, ", ")),
        failed);
  }
  return result;
}

std::vector<double> class_scores(const explained_model& model, const std::vector<double>& logits,
                                 std::int64_t of_class) {
  std::vector<double> scores;
  const auto classes = static_cast<std::size_t>(model.classes);
  for (std::size_t i = 0; i < logits.size(); i += classes) {
    scores.push_back(score_of_class(std::span(logits).subspan(i, classes), of_class));
  }
  return scores;
}

void share_among_occurrences(const text_parameters& parameters, const std::vector<double>& of_parameter,
                             std::vector<double>& attribution) {
  attribution.assign(parameters.of_place.size(), 0);
  for (std::size_t p = 0; p < parameters.occurrences.size(); ++p) {
    for (const std::int32_t place : parameters.occurrences[p]) {
      attribution[static_cast<std::size_t>(place)] =
          of_parameter[p] / static_cast<double>(parameters.occurrences[p].size());
    }
  }
}

}  // namespace detail

std::vector<explanation> explain(context& ctx, const explained_model& model, std::span<const explained_text> texts,
                                 const explain_options& options) {
  check_options(model, options);
  const bool is_slalom = options.method == explanation_method::slalom;
  const token_identity identity =
      options.method == explanation_method::additive
          ? token_identity::by_place
          : options.identity.value_or(is_slalom ? token_identity::by_id : token_identity::by_place);
  detail::explain_task task{ctx, model, texts, options, {}, {}};
  std::vector<std::vector<token_sequence>> whole;
  for (const explained_text& text : texts) {
    task.parameters.push_back(parameters_of_text(text, identity));
    whole.push_back({text.ids});
  }
  const auto logits = detail::scores_of_all(model, whole);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    explanation found;
    found.of_class = options.of_class.value_or(predicted_class(logits[i]));
    found.score = score_of_class(logits[i], found.of_class);
    found.base = found.fit_error = std::numeric_limits<double>::quiet_NaN();
    found.attribution.assign(texts[i].ids.size(), 0);
    found.queries = 1;
    task.found.push_back(std::move(found));
  }
  switch (options.method) {
    case explanation_method::slalom: detail::explain_by_slalom(task); break;
    case explanation_method::lime:
    case explanation_method::linear: detail::explain_by_regression(task); break;
    case explanation_method::additive: detail::explain_by_additive(task); break;
    case explanation_method::shap: detail::explain_by_shap(task); break;
    case explanation_method::gradient:
    case explanation_method::gradient_times_input:
    case explanation_method::integrated_gradients: detail::explain_by_gradients(task); break;
  }
  return std::move(task.found);
}

}  // namespace nullscope
