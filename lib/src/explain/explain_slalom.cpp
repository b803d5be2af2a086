/// SLALOM: queries, fits, and scores for the places of the texts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nullscope/core/errors.hpp>

#include "lib/src/explain/explain_methods.hpp"
#include "lib/src/explain/slalom_layout.hpp"

namespace nullscope::detail {
namespace {

/// What a fit learns from the logits: the log-odds of the explained class; with more than two classes, all logits minus
/// their mean.
std::vector<double> targets_of(const explained_model& model, const std::vector<double>& logits, std::int64_t of_class) {
  if (model.classes <= 2) return class_scores(model, logits, of_class);
  std::vector<double> targets;
  const auto classes = static_cast<std::size_t>(model.classes);
  for (std::size_t i = 0; i < logits.size(); i += classes) {
    for (std::int64_t c = 0; c < model.classes; ++c) {
      targets.push_back(score_of_class(std::span(logits).subspan(i, classes), c));
    }
  }
  return targets;
}

std::int64_t target_classes(const explained_model& model) { return model.classes <= 2 ? 1 : model.classes; }

/// One of the text's tokens after the other, by way of parameters: pairs [reference, token] in the second round.
std::vector<token_sequence> analytic_queries(const explain_task& task, std::size_t i,
                                             std::optional<std::int32_t> reference) {
  const text_parameters& parameters = task.parameters[i];
  const explained_text& text = task.texts[i];
  const auto id_of = [&](std::size_t p) { return text.ids[static_cast<std::size_t>(parameters.occurrences[p][0])]; };
  std::vector<token_sequence> result;
  for (std::size_t p = 0; p < parameters.occurrences.size(); ++p) {
    token_sequence sequence;
    bool is_placed = false;
    for (std::size_t place = 0; place < text.ids.size(); ++place) {
      if (parameters.of_place[place] < 0) {
        sequence.push_back(text.ids[place]);
      } else if (!is_placed) {
        if (reference) sequence.push_back(id_of(static_cast<std::size_t>(*reference)));
        sequence.push_back(id_of(p));
        is_placed = true;
      }
    }
    result.push_back(std::move(sequence));
  }
  return result;
}

std::vector<slalom_model> fit_analytically(explain_task& task) {
  std::vector<std::vector<token_sequence>> single, pairs;
  for (std::size_t i = 0; i < task.texts.size(); ++i) single.push_back(analytic_queries(task, i, std::nullopt));
  auto alone = scores_of_all(task.model, single);
  std::vector<std::int32_t> references;
  const std::int64_t classes = target_classes(task.model);
  for (std::size_t i = 0; i < task.texts.size(); ++i) {
    alone[i] = targets_of(task.model, alone[i], task.found[i].of_class);
    references.push_back(best_reference(alone[i], classes));
    pairs.push_back(analytic_queries(task, i, references[i]));
  }
  const auto together = scores_of_all(task.model, pairs);
  std::vector<slalom_model> models;
  for (std::size_t i = 0; i < task.texts.size(); ++i) {
    const std::vector<double> scores = targets_of(task.model, together[i], task.found[i].of_class);
    models.push_back(analytic_slalom(alone[i], scores, classes, references[i], task.options.slalom.sum));
    const std::int64_t tokens = task.parameters[i].count();
    task.found[i].queries = 2 * tokens - 1;
    slalom_queries queries(tokens, classes);  // the error of the fit on its own queries
    for (std::int32_t p = 0; p < tokens; ++p) queries.add({{p}});
    queries.targets = alone[i];
    for (std::int32_t p = 0; p < tokens; ++p) {
      if (p == references[i]) continue;
      queries.add({{references[i], p}});
      for (std::int64_t c = 0; c < classes; ++c)
        queries.targets.push_back(scores[static_cast<std::size_t>(p * classes + c)]);
    }
    models.back().mean_squared_error = mean_squared_error(models.back(), queries);
  }
  return models;
}

std::vector<slalom_model> fit_to_samples(explain_task& task) {
  const explain_options& options = task.options;
  sampling_options sampling{.kind = options.kind,
                            .samples = options.samples,
                            .length = options.length,
                            .most_deleted = options.most_deleted,
                            .seed = options.seed};
  sampling.identity = options.identity.value_or(token_identity::by_id);
  std::vector<std::vector<token_sequence>> sequences;
  std::vector<slalom_queries> problems;
  for (std::size_t i = 0; i < task.texts.size(); ++i) {
    sampled_queries drawn = sample_queries(task.texts[i], task.parameters[i], target_classes(task.model), sampling);
    task.found[i].queries = static_cast<std::int64_t>(drawn.sequences.size());
    if (drawn.is_complete && drawn.drawn < options.samples) {
      task.found[i].notes.push_back(drawn.drawn == 1 ? "there is only one query"
                                                     : fmt::format("there are only {} different queries", drawn.drawn));
    }
    if (drawn.is_lengthened) {
      task.found[i].notes.push_back(
          fmt::format("sequences of {} tokens do not determine {} tokens: other lengths were added", options.length,
                      task.parameters[i].count()));
    }
    if (options.fit == slalom_fit_kind::sgd) count_as(drawn.queries, options.samples);
    sequences.push_back(std::move(drawn.sequences));
    problems.push_back(std::move(drawn.queries));
  }
  const auto logits = scores_of_all(task.model, sequences);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    problems[i].targets = targets_of(task.model, logits[i], task.found[i].of_class);
  }
  slalom_options fit = options.slalom;
  fit.method = options.fit == slalom_fit_kind::sgd ? slalom_method::sgd : slalom_method::least_squares;
  fit.noise = std::max(fit.noise, task.model.noise);
  return fit_slalom(task.ctx, problems, fit);
}

/// Scores of the places; NaN for special tokens.
slalom_scores spread(const slalom_scores& scores, const text_parameters& parameters) {
  slalom_scores result;
  for (auto member : {&slalom_scores::value, &slalom_scores::importance, &slalom_scores::linearised,
                      &slalom_scores::derivative, &slalom_scores::removal, &slalom_scores::value_error,
                      &slalom_scores::importance_error, &slalom_scores::linearised_error}) {
    const std::vector<double>& from = scores.*member;
    if (from.empty()) continue;
    std::size_t next = 0;
    for (const std::int32_t p : parameters.of_place) {
      (result.*member).push_back(p < 0 ? std::numeric_limits<double>::quiet_NaN() : from[next++]);
    }
  }
  return result;
}

void add_notes(explanation& found, const slalom_model& model) {
  if (model.tokens() == 1) {
    found.notes.emplace_back("the text has one token: its importance has no meaning");
  } else if (static_cast<std::int64_t>(model.without_importance.size()) == model.tokens()) {
    found.notes.emplace_back("the model's scores are constant: importances are not identifiable");
  } else if (!model.without_importance.empty()) {
    found.notes.push_back(fmt::format("the importances of {} of {} tokens are not identifiable",
                                      model.without_importance.size(), model.tokens()));
  }
  if (!model.has_enough_queries) {
    found.notes.emplace_back("there are fewer equations than unknowns: the scores are not identifiable");
  }
  if (!model.converged) found.notes.push_back(fmt::format("not converged after {} iterations", model.iterations));
}

}  // namespace

void explain_by_slalom(explain_task& task) {
  const std::vector<slalom_model> models =
      task.options.fit == slalom_fit_kind::analytic ? fit_analytically(task) : fit_to_samples(task);
  for (std::size_t i = 0; i < models.size(); ++i) {
    explanation& found = task.found[i];
    const text_parameters& parameters = task.parameters[i];
    std::vector<std::int32_t> text;
    for (const std::int32_t p : parameters.of_place) {
      if (p >= 0) text.push_back(p);
    }
    const std::int64_t column = models[i].classes == 1 ? 0 : found.of_class;
    found.slalom = spread(scores_of(models[i], text, column), parameters);
    for (std::size_t place = 0; place < parameters.of_place.size(); ++place) {
      if (parameters.of_place[place] >= 0) found.attribution[place] = found.slalom.linearised[place];
    }
    found.fit_error = models[i].mean_squared_error;
    add_notes(found, models[i]);
  }
}

}  // namespace nullscope::detail
