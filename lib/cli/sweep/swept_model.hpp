/// The model whose heads are swept, and the texts that it reads, as the command line names them.
#pragma once

#include <filesystem>
#include <nullscope/model/transformer.hpp>
#include <nullscope/studies/sweep.hpp>
#include <string>

#include "lib/cli/common/text_input.hpp"

namespace nullscope::cli {

struct swept_model {
  std::string name, file;  ///< as given: the model, the file of the texts
  std::filesystem::path folder;
  transformer_config config;
  sweep_texts texts;
};

/// Finds the model and reads all texts of the file. Throws as text_source does.
swept_model read_swept_model(const text_input_options& input);

/// The settings for this model. Warns of lengths that no text reaches. Throws file_error if there are no others.
sweep_settings complete_for_model(const sweep_settings& settings, const swept_model& model);

/// Of the model, and of the texts that it reads.
std::string checksum_of(const sweep_settings& settings, const swept_model& model);

}  // namespace nullscope::cli
