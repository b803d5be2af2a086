/// Which class each token of a text has: the model's own start and separator tokens, periods and commas, and the rest;
/// or whatever a file says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nullscope/encoded_text.hpp>
#include <nullscope/text_encoder.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope {

/// The default classes. Their names are the model's own spelling of its start and separator tokens ("[CLS]", "[SEP]"),
/// "periods and commas", and "other". A model without start or separator tokens has fewer classes; one that uses the
/// same token for both has one class for it.
class token_classifier {
 public:
  /// The encoder must outlive this.
  explicit token_classifier(const text_encoder& encoder);

  const std::vector<std::string>& names() const { return names_; }

  /// The class of each token, a number below names().size().
  std::vector<std::int32_t> classify(const std::vector<std::int32_t>& ids) const;

  /// The class of separators, if the model has them: what fig. 5 of Brunner et al. looks at.
  std::optional<std::int32_t> separator() const { return separator_; }

 private:
  const text_encoder& encoder_;
  std::vector<std::string> names_;
  std::vector<std::int32_t> ids_;  // of the first classes, one token each
  std::optional<std::int32_t> separator_;
};

/// Classes from a file: line i has the names of the classes of the tokens of text i, special tokens included, separated
/// by blanks or tabs. Names are numbered in the order in which they appear.
class token_class_file {
 public:
  /// Throws file_error if the file cannot be read, or has no names.
  explicit token_class_file(const std::filesystem::path& file);

  const std::vector<std::string>& names() const { return names_; }

  /// The classes of text number `text`, from 0. Throws file_error, with the line, if there are not `tokens` of them.
  const std::vector<std::int32_t>& classes(std::int64_t text, std::int64_t tokens) const;

  /// Throws file_error if there are classes for a text that is not there.
  void check_texts(std::int64_t texts) const;

 private:
  std::filesystem::path file_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::int32_t>> lines_;
};

}  // namespace nullscope
