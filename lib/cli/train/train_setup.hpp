/// What `nullscope train` begins with: texts and a model.
#pragma once

#include <cstdint>
#include <nullscope/model/transformer.hpp>
#include <nullscope/training/training.hpp>
#include <string>
#include <vector>

#include "lib/cli/common/labelled_texts.hpp"
#include "lib/cli/train/train_run.hpp"

namespace nullscope::cli {

/// The texts with their labels, divided.
struct training_texts {
  std::vector<labelled_text> data, test;  ///< test: of a file of its own
  std::vector<std::string> labels;
  data_split split;

  /// Reads the files. Throws file_error.
  explicit training_texts(const train_command& command);

  /// The same for the same data.
  std::uint64_t fingerprint() const;
};

/// What is trained, and how its texts are read.
struct starting_point {
  text_encoder encoder;
  transformer<float> model;
  std::string family;
};

/// A new model, or the one that is fine-tuned. Throws usage_error on options that do not fit together.
starting_point start_of(const train_command& command, context& ctx, const training_texts& texts);

}  // namespace nullscope::cli
