/// The library's own config.json: the members of transformer_config by their names, and the labels.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <nullscope/model/model_folder.hpp>

#include "lib/src/model/files/config_reader.hpp"

namespace nullscope::detail {

void read_own_config(const config_reader& reader, model_description& to);
void write_own_config(const model_description& description, nlohmann::json& document);

}  // namespace nullscope::detail
