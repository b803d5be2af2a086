/// Explains the score of any model that reads tokens. Here it is a few lines of code that weigh words: "not" counts
/// more than what it stands next to. SLALOM tells how much a word says (value) and how much it is listened to
/// (importance).
#include <cmath>
#include <cstdio>
#include <map>
#include <nullscope/core/device.hpp>
#include <nullscope/explain/explanations.hpp>
#include <string>
#include <vector>

namespace {

using namespace nullscope;

const std::vector<std::string> words{"the", "film", "was", "not", "good", "but", "great", "fun"};

/// The log-odds that a text is positive: a mean of what its words say, weighted by how loud they are.
double log_odds(const token_sequence& text) {
  const std::map<std::string, std::pair<double, double>> voices{// value, loudness
                                                                {"not", {-2, 8}},
                                                                {"good", {1, 2}},
                                                                {"great", {3, 5}},
                                                                {"fun", {2, 3}}};
  double sum = 0, loudness = 0;
  for (const std::int32_t id : text) {
    const auto voice = voices.find(words[static_cast<std::size_t>(id)]);
    const auto [value, weight] = voice == voices.end() ? std::pair(0.1, 1.0) : voice->second;
    sum += weight * value;
    loudness += weight;
  }
  return sum / loudness;
}

}  // namespace

int main() {
  context ctx(select_device());
  explained_model model;
  model.classes = 1;
  model.logits = [](std::span<const token_sequence> texts) {
    std::vector<double> scores;
    for (const token_sequence& text : texts) scores.push_back(log_odds(text));
    return scores;
  };
  const explained_text text{.ids = {0, 1, 2, 3, 4, 5, 6, 7}};  // all words, in order
  const explanation slalom = explain(ctx, model, {&text, 1})[0];
  const explanation shap = explain(ctx, model, {&text, 1}, {.method = explanation_method::shap})[0];

  std::printf("score %.3f, %ld queries, fit error %.1e\n", slalom.score, static_cast<long>(slalom.queries),
              slalom.fit_error);
  std::printf("word    value  importance  loudness  linearised    SHAP\n");
  for (std::size_t i = 0; i < words.size(); ++i) {
    const double loudness = std::exp(slalom.slalom.importance[i] - slalom.slalom.importance[0]);
    std::printf("%-6s %6.2f %11.2f %9.2f %11.2f %7.3f\n", words[i].c_str(), slalom.slalom.value[i],
                slalom.slalom.importance[i], loudness, slalom.slalom.linearised[i], shap.attribution[i]);
  }
}
