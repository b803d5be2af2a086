/// The texts of config.json.
#pragma once

#include <nullscope/model/model_folder.hpp>
#include <string>

namespace nullscope::detail {

/// In the library's own format.
std::string own_config(const model_description& description);

/// As the description's family writes it; empty if the model is not one of that family.
std::string family_config(const model_description& description);

}  // namespace nullscope::detail
