#include <nullscope/probes/token_identifiability.hpp>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/operation.hpp>
#include <numeric>

#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/probes/probe_fit.hpp"

namespace nullscope {
namespace {

using detail::fold_tokens;
using detail::probe;
using detail::probe_problem;

[[noreturn]] void refuse(const std::string& why) {
  throw invalid_argument(fmt::format("{}: {}", detail::probes_name, why));
}

template <class T>
void check_states(const context& ctx, const tensor<T>& inputs, const tensor<T>& hidden,
                  std::span<const std::int64_t> sentences) {
  check::device_type<T>(detail::probes_name, ctx);
  const auto &of_inputs = inputs.shape(), &of_hidden = hidden.shape();
  if (of_inputs.size() != 2 || inputs.size() == 0) {
    refuse(fmt::format("inputs {} should be (tokens, d), with elements", of_inputs));
  }
  if (of_hidden.size() != 3 || hidden.size() == 0 || of_hidden[1] != of_inputs[0] || of_hidden[2] != of_inputs[1]) {
    refuse(fmt::format("hidden {} should be (layers, {}, {}), as inputs {}", of_hidden, of_inputs[0], of_inputs[1],
                       of_inputs));
  }
  if (of_inputs[0] > std::numeric_limits<std::int32_t>::max()) refuse("inputs: there are more than 2^31 - 1 tokens");
  std::int64_t tokens = 0;
  for (std::size_t s = 0; s < sentences.size(); ++s) {
    if (sentences[s] < 1 || sentences[s] > of_inputs[0]) {
      refuse(fmt::format("sentence {} has {} of the {} tokens of inputs", s, sentences[s], of_inputs[0]));
    }
    tokens += sentences[s];
  }
  if (tokens != of_inputs[0]) {
    refuse(fmt::format("sentences have {} tokens, inputs {} have {}", tokens, of_inputs, of_inputs[0]));
  }
}

void check_training(const probe_training& training) {
  const auto is_rate = [](double x) { return x > 0 && std::isfinite(x); };
  if (!is_rate(training.learning_rate) || !std::ranges::all_of(training.rate_search, is_rate)) {
    refuse("learning rates must be above 0 and finite");
  }
  for (const auto& [name, value] :
       {std::pair("batch", training.batch), std::pair("patience", training.patience),
        std::pair("most_epochs", training.most_epochs), std::pair("hidden_units", training.hidden_units)}) {
    if (value < 1) refuse(fmt::format("{} is {}; it must be at least 1", name, value));
  }
}

/// Options with their defaults filled in.
identifiability_options completed(identifiability_options options, std::int64_t layers) {
  check_training(options.training);
  if (options.layers.empty()) {
    options.layers.resize(static_cast<std::size_t>(layers));
    std::iota(options.layers.begin(), options.layers.end(), 1);
  }
  for (const std::int64_t layer : options.layers) {
    if (layer < 1 || layer > layers) refuse(fmt::format("there is no layer {}; hidden has {}", layer, layers));
  }
  if (options.folds < 1) refuse(fmt::format("folds is {}; it must be at least 1", options.folds));
  if (options.chosen_folds.empty()) {
    options.chosen_folds.resize(static_cast<std::size_t>(options.folds));
    std::iota(options.chosen_folds.begin(), options.chosen_folds.end(), 0);
  }
  if (!(options.training_share > 0 && options.training_share <= 1)) {
    refuse(fmt::format("training_share is {}; it must be above 0, at most 1", options.training_share));
  }
  if (!options.loss) options.loss = options.distance;
  if (options.fit == probe_fit::least_squares &&
      (options.map != probe_map::linear || options.loss != probe_distance::l2)) {
    refuse("least squares fit the linear map with loss L2 only");
  }
  if (options.map == probe_map::identity || options.fit == probe_fit::least_squares) options.training.rate_search = {};
  if (options.memory < 1) refuse(fmt::format("memory is {}; it must be above 0", options.memory));
  return options;
}

template <class T>
std::vector<fold_tokens> tokens_of_folds(const detail::probe_data<T>& data, std::int64_t sentences,
                                         const identifiability_options& options) {
  std::vector<fold_tokens> folds;
  for (const std::int64_t fold : options.chosen_folds) {
    data_split split = fold_sentences(sentences, fold, options.folds, options.seed);
    const double share = options.training_share * static_cast<double>(split.training.size());
    split.training.resize(static_cast<std::size_t>(std::max<std::int64_t>(1, std::llround(share))));
    folds.push_back({fold, data.tokens_of(split.training, options.offset),
                     data.tokens_of(split.validation, options.offset), data.tokens_of(split.test, options.offset)});
    const fold_tokens& last = folds.back();
    if (last.training.empty() || last.validation.empty() || last.test.empty()) {
      refuse(fmt::format("offset {}: a part of fold {} has no token with such a neighbour", options.offset, fold));
    }
  }
  return folds;
}

/// All probes by fold, layer and rate.
std::vector<probe> make_probes(const identifiability_options& options) {
  std::vector<probe> probes;
  const probe_training& training = options.training;
  const std::vector<double> rates =
      training.rate_search.empty() ? std::vector<double>{training.learning_rate} : training.rate_search;
  for (std::size_t place = 0; place < options.chosen_folds.size(); ++place) {
    for (const double rate : rates) {
      for (const std::int64_t layer : options.layers) {
        probes.push_back({layer, options.steps ? layer - 1 : 0, place, rate});
      }
    }
  }
  return probes;
}

/// Probes that were fitted, each at its best rate.
template <class T>
struct chosen_probes {
  std::vector<probe> probes;
  detail::fitted_probes<T> fitted;
};

/// Of the probes of one fold and layer, that with the lowest validation loss; the first of equals.
template <class T>
chosen_probes<T> choose_rates(context& ctx, std::span<const probe> probes, detail::fitted_probes<T> fitted) {
  std::vector<std::size_t> best;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const auto same = std::ranges::find_if(best, [&](std::size_t j) {
      return probes[j].place == probes[i].place && probes[j].source == probes[i].source;
    });
    if (same == best.end()) {
      best.push_back(i);
    } else if (fitted.validation_loss[i] < fitted.validation_loss[*same]) {
      *same = i;
    }
  }
  chosen_probes<T> chosen;
  if (best.size() == probes.size()) return {{probes.begin(), probes.end()}, std::move(fitted)};
  const std::int64_t size = fitted.parameters.shape()[1];
  const std::vector<T> all = fitted.parameters.to_host();
  std::vector<T> parameters;
  for (const std::size_t i : best) {
    chosen.probes.push_back(probes[i]);
    chosen.fitted.validation_loss.push_back(fitted.validation_loss[i]);
    chosen.fitted.epochs.push_back(fitted.epochs[i]);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i) * size;
    parameters.insert(parameters.end(), begin, begin + size);
  }
  chosen.fitted.parameters = tensor<T>(ctx, {std::ssize(best), size}, parameters);
  return chosen;
}

/// Fits groups of probes that fit the memory, and tests them.
template <class T>
class identification_run {
 public:
  explicit identification_run(const probe_problem<T>& problem) : problem_(problem) {}

  std::vector<identification> run() {
    const std::vector<std::vector<probe>> groups = make_groups();
    for (std::size_t i = 0; i < groups.size(); ++i) {
      progress_ = {
          .group = static_cast<std::int64_t>(i), .groups = std::ssize(groups), .probes = std::ssize(groups[i])};
      test(choose_rates<T>(problem_.ctx, groups[i], fit(groups[i])));
    }
    const auto key = [](const identification& one) {
      return std::tuple(one.fold, one.trained_on, one.tested_on, one.on_training);
    };
    std::ranges::sort(results_, {}, key);
    return std::move(results_);
  }

 private:
  /// Probes that are fitted side by side: whole folds, as many as fit the memory; or, if not even one does, some layers
  /// of a fold at a time, with all their rates.
  std::vector<std::vector<probe>> make_groups() const {
    const std::vector<probe> probes = make_probes(problem_.options);
    const std::int64_t bytes = std::max<std::int64_t>(1, detail::fit_bytes(problem_));
    const std::int64_t fitting = std::max<std::int64_t>(1, problem_.options.memory / bytes);
    const std::int64_t layers = std::ssize(problem_.options.layers),
                       per_fold = std::ssize(probes) / std::ssize(problem_.folds), rates = per_fold / layers;
    const std::int64_t folds_together = std::max<std::int64_t>(1, fitting / per_fold),
                       layers_together = std::clamp<std::int64_t>(fitting / rates, 1, layers),
                       parts = detail::ceil_div(layers, layers_together);
    std::vector<std::vector<probe>> groups;
    for (std::int64_t first = 0; first < std::ssize(problem_.folds); first += folds_together) {
      const std::size_t before = groups.size();
      groups.resize(before + static_cast<std::size_t>(parts));
      const std::int64_t end = std::min(std::ssize(probes), (first + folds_together) * per_fold);
      for (std::int64_t i = first * per_fold; i < end; ++i) {
        const std::size_t part = static_cast<std::size_t>(i % layers / layers_together);
        groups[before + part].push_back(probes[static_cast<std::size_t>(i)]);
      }
    }
    return groups;
  }

  detail::fitted_probes<T> fit(std::span<const probe> probes) {
    if (problem_.options.map == probe_map::identity) {
      return {{}, std::vector<double>(probes.size()), std::vector<std::int64_t>(probes.size())};
    }
    if (problem_.options.fit == probe_fit::least_squares) return detail::solve_probes(problem_, probes);
    return detail::train_probes<T>(problem_, probes, [&](probe_progress now) {
      if (!problem_.options.progress) return;
      now.group = progress_.group;
      now.groups = progress_.groups;
      now.probes = progress_.probes;
      problem_.options.progress(now);
    });
  }

  void test(const chosen_probes<T>& chosen) {
    std::vector<detail::token_list> tests, trainings;
    for (const fold_tokens& one : problem_.folds) {
      tests.push_back(one.test);
      trainings.push_back(one.training);
    }
    std::vector<std::int64_t> sources;
    for (const probe& one : chosen.probes) sources.push_back(one.source);
    if (problem_.options.across_layers && problem_.options.map != probe_map::identity) {
      for (std::int64_t layer = 1; layer <= problem_.data.layers(); ++layer) {
        std::ranges::fill(sources, layer);
        test_on(chosen, sources, tests, false);
        if (problem_.options.on_training) test_on(chosen, sources, trainings, true);
      }
      return;
    }
    test_on(chosen, sources, tests, false);
    if (problem_.options.on_training) test_on(chosen, sources, trainings, true);
  }

  void test_on(const chosen_probes<T>& chosen, const std::vector<std::int64_t>& sources,
               const std::vector<detail::token_list>& lists, bool on_training) {
    const std::vector<std::int64_t> correct =
        detail::count_identified<T>(problem_, chosen.probes, chosen.fitted.parameters, lists, sources);
    for (std::size_t i = 0; i < chosen.probes.size(); ++i) {
      const probe& one = chosen.probes[i];
      results_.push_back({.trained_on = one.source,
                          .tested_on = sources[i],
                          .fold = problem_.folds[one.place].fold,
                          .on_training = on_training,
                          .tokens = std::ssize(lists[one.place]),
                          .correct = correct[i],
                          .learning_rate = chosen.fitted.epochs[i] > 0 ? one.learning_rate : 0,
                          .validation_loss = chosen.fitted.validation_loss[i],
                          .epochs = chosen.fitted.epochs[i]});
    }
  }

  const probe_problem<T>& problem_;
  probe_progress progress_;
  std::vector<identification> results_;
};

}  // namespace

template <class T>
std::vector<identification> token_identifiability(context& ctx, const tensor<T>& inputs, const tensor<T>& hidden,
                                                  std::span<const std::int64_t> sentences,
                                                  const identifiability_options& options) {
  check_states(ctx, inputs, hidden, sentences);
  const identifiability_options all = completed(options, hidden.shape()[0]);
  operation(ctx, detail::probes_name).submit_and_wait();  // inside another operation, nothing could be waited for
  const detail::probe_data<T> data(ctx, inputs, hidden, sentences, all.steps);
  const std::vector<fold_tokens> folds = tokens_of_folds(data, std::ssize(sentences), all);
  const probe_problem<T> problem{ctx,      data, folds, all, {all.map, inputs.shape()[1], all.training.hidden_units},
                                 *all.loss};
  return identification_run<T>(problem).run();
}

template std::vector<identification> token_identifiability(context&, const tensor<float>&, const tensor<float>&,
                                                           std::span<const std::int64_t>,
                                                           const identifiability_options&);
template std::vector<identification> token_identifiability(context&, const tensor<double>&, const tensor<double>&,
                                                           std::span<const std::int64_t>,
                                                           const identifiability_options&);

}  // namespace nullscope
