/// The page of `nullscope view`: one HTML file with the numbers in it, for any browser, without a network.
///
/// The page itself is in lib/cli/view/page; the build embeds it. Numbers are in half precision, base64,
/// little-endian, in elements of their own, so that the browser decodes a head when it is looked at:
///   settings              JSON: what the page was made with
///   data                  JSON: the text, and numbers about heads
///   head-<layer>-<head>   raw (S, S), then the basis U (S, rank) of the range of T, from which the browser computes
///                         A U U^T, or nothing if the rank is S; of causal models the lower triangles of raw and of
///                         effective attention, row by row
///   contributions         (layers, S, S): contributions
///   contribution-errors   (layers, S): standard errors of the contributions to a hidden token, as a share of them
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <nullscope/model/model_states.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/cli/common/text_input.hpp"

namespace nullscope::cli {

struct view_page {
  std::string model;  ///< as the user named it
  input_text text;
  std::vector<std::string> vocabulary;  ///< (S): the tokens as the vocabulary writes them
  bool causal = false;
  attention_parts<float> parts;
  std::optional<attribution> contributions;
  std::int64_t samples = 0;            ///< of the contributions; 0: exact
  nlohmann::ordered_json explanation;  ///< {method, label, scores (S)}, or null
  nlohmann::ordered_json settings;     ///< compared by a later call
};

/// The page with @STYLE@ and @SCRIPT@ filled in, and @DATA@ still there.
std::string_view page_template();

std::string page_html(const view_page& page);

/// The settings of a page; std::nullopt if the file is no page of ours. Throws file_error if it cannot be read.
std::optional<nlohmann::ordered_json> settings_in_page(const std::filesystem::path& path);

/// The bits of a number in half precision, rounded to nearest, ties to even.
std::uint16_t half_bits(float number);

/// Numbers in half precision as base64.
std::string encoded_halves(std::span<const float> numbers);

}  // namespace nullscope::cli
