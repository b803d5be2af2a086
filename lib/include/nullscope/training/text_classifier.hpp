/// A trained classifier of texts: model, tokenizer and names of the classes, from one folder.
///
///   const text_classifier<float> classifier(ctx, "reviews-model");
///   const text_prediction answer = classifier.predict(ctx, {"Not bad at all."})[0];
///   // classifier.labels()[answer.label], answer.probabilities
#pragma once

#include <cstdint>
#include <filesystem>
#include <nullscope/core/context.hpp>
#include <nullscope/model/model_folder.hpp>
#include <nullscope/model/transformer.hpp>
#include <nullscope/text/text_encoder.hpp>
#include <nullscope/training/training.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope {

/// A text, or two.
struct text_input {
  std::string text;
  std::optional<std::string> pair = std::nullopt;
};

/// The sequences that a model of this kind reads for a text: those of the encoder, cut to the length that the model
/// takes, or to max_length if that is less. Labels are left to the caller. Sets `was_cut` if something was cut off.
/// Throws invalid_argument if the model reads pairs and there is none, or the other way round.
training_example example_of(const transformer_config& config, const text_encoder& encoder, const text_input& input,
                            std::int64_t max_length, bool* was_cut = nullptr);

struct text_prediction {
  std::int64_t label;                 ///< the class with the highest probability
  std::vector<double> probabilities;  ///< of each class
};

/// How well a class is recognised.
struct class_counts {
  std::int64_t texts = 0, predicted = 0, correct = 0;  ///< of the class, taken for it, and both

  double recall() const;     ///< share of its texts that are recognised; 0 without texts
  double precision() const;  ///< share of right ones among the texts taken for it; 0 without any
};

struct prediction_quality {
  double loss = 0;  ///< mean cross-entropy
  std::int64_t texts = 0, correct = 0;
  std::vector<class_counts> classes;

  double accuracy() const;  ///< 0 without texts
};

/// labels[i] is the class of the text of predictions[i]. Throws invalid_argument: other sizes, no such class.
prediction_quality quality_of(std::span<const text_prediction> predictions, std::span<const std::int32_t> labels,
                              std::int64_t classes);

template <class T>
class text_classifier {
 public:
  /// Reads what save_classifier wrote, or another folder of a model with a classifier. Throws file_error.
  text_classifier(context& ctx, const std::filesystem::path& folder);

  const transformer<T>& model() const { return model_; }
  const text_encoder& encoder() const { return encoder_; }
  const std::vector<std::string>& labels() const { return labels_; }

  /// Texts that are too long are cut. Computes up to `batch` of them at a time. Waits.
  std::vector<text_prediction> predict(context& ctx, std::span<const text_input> texts, std::int64_t batch = 64) const;

 private:
  text_classifier(context& ctx, const std::filesystem::path& folder, model_description&& description);

  std::vector<std::string> labels_;
  transformer<T> model_;
  text_encoder encoder_;
};

/// Writes a model folder that text_classifier and `transformers`, where it knows the architecture, read. `family` is
/// that of the model it began with, or "nullscope". Throws invalid_argument if there are not as many labels as classes,
/// and file_error.
template <class T>
void save_classifier(context& ctx, const transformer<T>& model, const text_encoder& encoder,
                     const std::vector<std::string>& labels, const std::filesystem::path& folder,
                     const std::string& family = "nullscope");

/// A model like the one in the folder, with a new classifier for `classes` classes. All other parameters are those of
/// the folder; those of the classifier are random, from the seed. `dropout` replaces the model's.
template <class T>
transformer<T> with_new_classifier(context& ctx, const std::filesystem::path& folder, std::int64_t classes,
                                   std::uint64_t seed, std::optional<double> dropout = std::nullopt);

}  // namespace nullscope
