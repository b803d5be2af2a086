/// The texts of nullscope hta as units of work, and the results of a unit as text for the journal and other processes.
#pragma once

#include <cstdint>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/cli/common/text_input.hpp"

namespace nullscope::cli {

/// Texts that are computed together: places in the list.
using hta_unit = std::vector<std::size_t>;

/// The units depend on the texts and on the tangents per token alone: short texts share the device, long ones are
/// alone.
std::vector<hta_unit> hta_units(const std::vector<input_text>& texts, std::int64_t tangents_per_token);

/// The numbers of an attribution in single precision, as they go to the file, as a line of text, and back.
void append_attribution(std::string& text, const attribution& of);
attribution decode_attribution(std::string_view text, std::int64_t tokens, const std::vector<std::int64_t>& layers);

}  // namespace nullscope::cli
