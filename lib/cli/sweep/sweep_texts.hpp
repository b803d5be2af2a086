/// The texts of a sweep over a model, and which of them it reads at each length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nullscope/model/model_folder.hpp>
#include <nullscope/model/transformer.hpp>
#include <vector>

#include "lib/cli/common/text_input.hpp"
#include "lib/cli/sweep/sweep_settings.hpp"

namespace nullscope::cli {

class sweep_texts {
 public:
  /// Reads all texts of the file. Throws as text_source does.
  explicit sweep_texts(const text_input_options& input);

  const std::filesystem::path& folder() const { return folder_; }

  /// Tokens of the longest text, as far as the model reads it; at least 1.
  std::int64_t longest() const;

  /// The settings with everything that follows from the model instead of flags. `complete` comes next.
  sweep_settings describe_model_in(sweep_settings settings) const;

  /// The settings without the lengths that no text reaches, and with the number of texts for the others. Prints a
  /// warning for what is left out. Throws file_error if nothing is left.
  sweep_settings keep_reached_lengths(sweep_settings settings) const;

  /// Up to `count` different texts of at least `length` tokens, chosen by the seed, cut to that length.
  std::vector<token_batch::sequence> choose(std::int64_t length, std::int64_t count, std::uint64_t seed) const;

 private:
  std::string name_, file_;  // as given
  std::filesystem::path folder_;
  model_description model_;
  std::vector<token_batch::sequence> sequences_;  // the longest first, otherwise in the order of the file
};

}  // namespace nullscope::cli
