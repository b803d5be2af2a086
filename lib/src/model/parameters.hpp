/// Parameters by their names.
#pragma once

#include <nullscope/model/transformer.hpp>
#include <span>
#include <string_view>

namespace nullscope::detail {

/// The parameter of that name; null if there is none.
const parameter* find_parameter(std::span<const parameter> parameters, std::string_view name);

}  // namespace nullscope::detail
