/// The config.json of other people's families of models: BERT, MPNet, DistilBERT, GPT-2.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <nullscope/model/model_folder.hpp>

#include "lib/src/model/files/config_reader.hpp"

namespace nullscope::detail {

/// Reads config and labels of `to.family`; false if that is none of these. Throws file_error on what is not supported.
bool read_family_config(const config_reader& reader, model_description& to);

/// As description.family writes it; false if the model is not one of that family.
bool write_family_config(const model_description& description, nlohmann::json& document);

}  // namespace nullscope::detail
