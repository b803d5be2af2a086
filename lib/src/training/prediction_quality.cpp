#include <fmt/format.h>

#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/training/text_classifier.hpp>

namespace nullscope {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double class_counts::recall() const { return share(correct, texts); }
double class_counts::precision() const { return share(correct, predicted); }
double prediction_quality::accuracy() const { return share(correct, texts); }

prediction_quality quality_of(std::span<const text_prediction> predictions, std::span<const std::int32_t> labels,
                              std::int64_t classes) {
  if (predictions.size() != labels.size()) {
    throw invalid_argument(fmt::format("quality_of: {} predictions with {} labels", predictions.size(), labels.size()));
  }
  prediction_quality result;
  result.classes.resize(static_cast<std::size_t>(classes));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const text_prediction& prediction = predictions[i];
    if (labels[i] < 0 || labels[i] >= classes || std::ssize(prediction.probabilities) != classes) {
      throw invalid_argument(fmt::format("quality_of: label {} and {} probabilities of text {}; there are {} classes",
                                         labels[i], prediction.probabilities.size(), i, classes));
    }
    const auto label = static_cast<std::size_t>(labels[i]), predicted = static_cast<std::size_t>(prediction.label);
    result.loss -= std::log(prediction.probabilities[label]);
    ++result.texts;
    ++result.classes[label].texts;
    ++result.classes[predicted].predicted;
    if (label != predicted) continue;
    ++result.correct;
    ++result.classes[label].correct;
  }
  if (result.texts > 0) result.loss /= static_cast<double>(result.texts);
  return result;
}

}  // namespace nullscope
