#include <chrono>
#include <cmath>
#include <map>
#include <nullscope/explain/explanations.hpp>
#include <set>

namespace nullscope {
namespace {

struct measuring {
  const explained_model& model;
  std::span<const measured_text> texts;
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
                         const faithfulness_options& options, bool unsigned_scores) {
  measured_method result;
  result.name = name;
  result.curves = perturbation_curves_of(m.model, m.plain, found, options.curves);
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

perturbation_curves mean_curves(std::span<const perturbation_curves> curves, std::int64_t points) {
  perturbation_curves mean;
  const auto count = static_cast<double>(curves.size());
  for (std::int64_t step = 0; step <= points; ++step) {
    const double share = static_cast<double>(step) / static_cast<double>(points);
    double deletion = 0, insertion = 0;
    for (const perturbation_curves& curve : curves) {
      std::size_t k = 0;
      while (k + 1 < curve.share.size() && curve.share[k + 1] <= share + 1e-9) ++k;
      deletion += curve.deletion[k];
      insertion += curve.insertion[k];
    }
    mean.share.push_back(share);
    mean.deletion.push_back(deletion / count);
    mean.insertion.push_back(insertion / count);
  }
  for (const perturbation_curves& curve : curves) {
    mean.deletion_area += curve.deletion_area / count;
    mean.insertion_area += curve.insertion_area / count;
  }
  return mean;
}

std::vector<measured_method> measure_faithfulness(context& ctx, const explained_model& model,
                                                  std::span<const measured_text> texts,
                                                  std::span<const measured_text> others,
                                                  const faithfulness_options& options) {
  measuring m{model, texts, {}, {}};
  for (const measured_text& text : texts) m.plain.push_back(text.text);
  std::vector<explained_text> counted;
  std::vector<std::int64_t> classes;
  for (const measured_text& other : others) {
    counted.push_back(other.text);
    classes.push_back(other.of_class);
  }
  for (std::int64_t c = 0; c < model.classes; ++c) m.naive_bayes[c] = naive_bayes(counted, classes, c);

  std::vector<measured_method> results;
  for (const explanation_method method : options.methods) {
    explain_options explain_by = options.explain;
    explain_by.method = method;
    if (!m.plain.empty()) explain(ctx, model, {m.plain.data(), 1}, explain_by);  // compiles kernels, which is not timed
    const auto start = std::chrono::steady_clock::now();
    const std::vector<explanation> found = explain(ctx, model, m.plain, explain_by);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const bool is_slalom = method == explanation_method::slalom;
    const std::string name = is_slalom ? "slalom v exp(s)" : std::string(to_string(method));
    const std::size_t first = results.size();
    results.push_back(measured(m, name, found, options, false));
    results.back().fidelity = fidelity(model, m.plain, found, options.fidelity);
    if (is_slalom) {
      results.push_back(measured(m, "slalom v", ranked_by(found, &slalom_scores::value), options, false));
      results.push_back(measured(m, "slalom s", ranked_by(found, &slalom_scores::importance), options, true));
    }
    for (std::size_t i = first; i < results.size(); ++i)
      results[i].seconds = seconds / static_cast<double>(texts.size());
    if (options.progress) options.progress(method);
  }
  return results;
}

}  // namespace nullscope
