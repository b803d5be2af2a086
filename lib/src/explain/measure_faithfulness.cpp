#include "lib/cli/explain/faithfulness_run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <set>

namespace nullscope::cli {
namespace {

struct measuring {
  const explained_model& model;
  const std::vector<measured_text>& texts;
  std::vector<explained_text> plain;
  std::map<std::int64_t, std::unordered_map<std::int32_t, double>> naive_bayes;  // by class
};

double bayes_correlation(const measuring& m, std::size_t i, const explanation& found, bool unsigned_scores) {
  const auto& weights = m.naive_bayes.at(found.of_class);
  std::vector<double> scores, known;
  std::set<std::int32_t> seen;
  const explained_text& text = m.plain[i];
  for (std::size_t place = 0; place < text.ids.size(); ++place) {
    const auto weight = weights.find(text.ids[place]);
    const bool is_special = !text.special.empty() && text.special[place] != 0;
    if (is_special || weight == weights.end() || !seen.insert(text.ids[place]).second) continue;
    scores.push_back(found.attribution[place]);
    known.push_back(unsigned_scores ? std::abs(weight->second) : weight->second);
  }
  return rank_correlation(scores, known);
}

double agreement_with_marks(const measured_text& text, const explanation& found) {
  if (text.marked.empty()) return std::nan("");
  std::vector<double> scores;
  std::vector<std::uint8_t> marked;
  for (std::size_t place = 0; place < text.marked.size(); ++place) {
    if (!text.text.special.empty() && text.text.special[place] != 0) continue;
    scores.push_back(std::abs(found.attribution[place]));
    marked.push_back(text.marked[place]);
  }
  return area_under_roc(scores, marked);
}

/// `unsigned_scores`: importances say how much a token matters, not in which direction.
measured_method measured(const measuring& m, const std::string& name, const std::vector<explanation>& found,
                         const faithfulness_settings& settings, bool unsigned_scores) {
  measured_method result;
  result.name = name;
  result.curves = perturbation_curves_of(m.model, m.plain, found, settings.curves);
  for (std::size_t i = 0; i < found.size(); ++i) {
    result.deletion.push_back(result.curves[i].deletion_area);
    result.insertion.push_back(result.curves[i].insertion_area);
    result.naive_bayes.push_back(bayes_correlation(m, i, found[i], unsigned_scores));
    explanation sizes = found[i];
    if (unsigned_scores) {  // an importance below 0 is a small one
      for (double& a : sizes.attribution) a = std::exp(a);
    }
    result.roc.push_back(agreement_with_marks(m.texts[i], sizes));
  }
  return result;
}

/// The explanations with another of SLALOM's scores as attribution.
std::vector<explanation> ranked_by(std::vector<explanation> found, std::vector<double> slalom_scores::*score) {
  for (explanation& one : found) {
    for (std::size_t i = 0; i < one.attribution.size(); ++i) {
      if (!std::isnan((one.slalom.*score)[i])) one.attribution[i] = (one.slalom.*score)[i];
    }
  }
  return found;
}

}  // namespace

std::vector<measured_method> measure(context& ctx, const explained_model& model,
                                     const std::vector<measured_text>& texts, const std::vector<measured_text>& others,
                                     const faithfulness_settings& settings, progress_bar& bar) {
  measuring m{model, texts, {}, {}};
  for (const measured_text& text : texts) m.plain.push_back(text.text);
  std::vector<explained_text> counted;
  std::vector<std::int64_t> classes;
  for (const measured_text& other : others) {
    counted.push_back(other.text);
    classes.push_back(other.of_class);
  }
  for (std::int64_t c = 0; c < model.classes; ++c) m.naive_bayes[c] = naive_bayes(counted, classes, c);

  std::vector<measured_method> rows;
  for (const std::string& name : settings.methods) {
    explain_options options = settings.options;
    options.method = explanation_method_named(name);
    if (!m.plain.empty()) explain(ctx, model, {m.plain.data(), 1}, options);  // compiles kernels, which is not timed
    const auto start = std::chrono::steady_clock::now();
    const std::vector<explanation> found = explain(ctx, model, m.plain, options);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const bool is_slalom = options.method == explanation_method::slalom;
    const std::size_t first = rows.size();
    rows.push_back(measured(m, is_slalom ? "slalom v exp(s)" : name, found, settings, false));
    rows.back().fidelity = fidelity(model, m.plain, found, settings.fidelity);
    if (is_slalom) {
      rows.push_back(measured(m, "slalom v", ranked_by(found, &slalom_scores::value), settings, false));
      rows.push_back(measured(m, "slalom s", ranked_by(found, &slalom_scores::importance), settings, true));
    }
    for (std::size_t i = first; i < rows.size(); ++i) rows[i].seconds = seconds / static_cast<double>(texts.size());
    bar.advance(1);
    bar.draw(name);
  }
  return rows;
}

}  // namespace nullscope::cli
