/// Gradient, gradient x input, and integrated gradients.
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <numbers>

#include "lib/src/explain/explain_methods.hpp"

namespace nullscope::detail {
namespace {

struct quadrature {
  std::vector<double> at, weight;
};

/// The Gauss-Legendre rule of `count` points on [0, 1]: zeros of the Legendre polynomial by Newton's method.
quadrature gauss_legendre(std::int64_t count) {
  quadrature rule;
  const auto n = static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    double x = std::cos(std::numbers::pi * (static_cast<double>(i) + 0.75) / (n + 0.5)), slope = 1;
    for (int round = 0; round < 8; ++round) {
      double before = 1, value = x;
      for (std::int64_t k = 2; k <= count; ++k) {
        const auto degree = static_cast<double>(k);
        const double next = ((2 * degree - 1) * x * value - (degree - 1) * before) / degree;
        before = value;
        value = next;
      }
      slope = n * (x * value - before) / (x * x - 1);
      x -= value / slope;
    }
    rule.at.push_back(0.5 * (1 + x));
    rule.weight.push_back(1 / ((1 - x * x) * slope * slope));
  }
  return rule;
}

/// Derivatives of score_of_class by the logits.
std::vector<double> logit_slopes(std::int64_t classes, std::int64_t of_class) {
  std::vector<double> slopes(static_cast<std::size_t>(classes), classes == 2 ? -1 : -1 / static_cast<double>(classes));
  slopes[static_cast<std::size_t>(of_class)] = classes <= 2 ? 1 : 1 - 1 / static_cast<double>(classes);
  return slopes;
}

}  // namespace

void explain_by_gradients(explain_task& task) {
  if (!task.model.gradients) throw invalid_argument("explain: the model gives no gradients, which the method needs");
  const bool is_path = task.options.method == explanation_method::integrated_gradients;
  const quadrature rule = is_path ? gauss_legendre(task.options.steps) : quadrature{{1}, {1}};
  std::vector<std::vector<token_sequence>> baselines;
  for (std::size_t i = 0; i < task.texts.size(); ++i) {
    explanation& found = task.found[i];
    gradient_request request{task.texts[i].ids, task.texts[i].ids, logit_slopes(task.model.classes, found.of_class),
                             rule.at};
    const std::vector<std::int32_t>& of_place = task.parameters[i].of_place;
    for (std::size_t place = 0; is_path && place < of_place.size(); ++place) {
      if (of_place[place] >= 0) request.baseline[place] = task.options.baseline_id;
    }
    const gradient_answer answer = task.model.gradients(request);
    const std::vector<double>& numbers = is_path                                               ? answer.along_path
                                         : task.options.method == explanation_method::gradient ? answer.norm
                                                                                               : answer.along_token;
    for (std::size_t p = 0; p < rule.at.size(); ++p) {
      for (std::size_t place = 0; place < of_place.size(); ++place) {
        if (of_place[place] < 0) continue;
        found.attribution[place] += rule.weight[p] * numbers[p * of_place.size() + place];
      }
    }
    found.queries = static_cast<std::int64_t>(rule.at.size());
    baselines.push_back({request.baseline});
  }
  if (!is_path) return;
  const auto logits = scores_of_all(task.model, baselines);
  for (std::size_t i = 0; i < task.texts.size(); ++i) {
    explanation& found = task.found[i];
    found.base = score_of_class(logits[i], found.of_class);
    double gap = found.score - found.base;
    for (const double a : found.attribution) gap -= a;
    found.fit_error = gap * gap;
  }
}

}  // namespace nullscope::detail
