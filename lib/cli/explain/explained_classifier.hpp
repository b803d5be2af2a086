/// A classifier from a model folder, as the commands that explain it need it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nullscope/explain/explanations.hpp>
#include <nullscope/text/tokenizer.hpp>
#include <nullscope/training/text_classifier.hpp>
#include <optional>
#include <string>
#include <vector>

namespace nullscope::cli {

class explained_classifier {
 public:
  /// Throws file_error if the folder holds no classifier. `ctx` must outlive it.
  explained_classifier(context& ctx, const std::filesystem::path& folder);
  explained_classifier(const explained_classifier&) = delete;  // explained_ refers to classifier_
  explained_classifier& operator=(const explained_classifier&) = delete;

  const explained_model& model() const { return explained_; }
  const text_encoder& encoder() const { return classifier_.encoder(); }
  const transformer_config& config() const { return classifier_.model().config(); }
  const std::vector<std::string>& labels() const { return classifier_.labels(); }

  /// The text as `explain` takes it.
  explained_text text_of(const encoded_text& tokens) const;

 private:
  text_classifier<float> classifier_;
  explained_model explained_;
};

/// The class of a label or a number; none if `name` is empty. Throws usage_error with the labels.
std::optional<std::int64_t> class_named(const std::string& name, const std::vector<std::string>& labels);

}  // namespace nullscope::cli
