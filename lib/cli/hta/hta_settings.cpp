#include "lib/cli/hta/hta_settings.hpp"

#include <fmt/format.h>

#include <charconv>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/version.hpp>

#include "lib/cli/commands.hpp"
#include "lib/cli/hta/hta_tokens.hpp"

namespace nullscope::cli {
namespace {

std::int64_t number_of(const std::string& text, const char* option, std::int64_t least, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure == std::errc{} && end == text.data() + text.size() && number >= least && number <= most) return number;
  throw usage_error(fmt::format("{}: \"{}\" is not a number from {} to {}", option, text, least, most));
}

void check_words(const hta_command& command) {
  if (!command.words) return;
  if (command.norm != "frobenius") throw usage_error("--words needs --norm frobenius");
  if (!command.input.ids.empty()) throw usage_error("--words needs text; --ids have no words");
}

}  // namespace

attribution_options options_of(const hta_command& command, const transformer_config& config) {
  attribution_options options;
  options.norm = command.norm == "spectral" ? attribution_norm::spectral
                 : command.norm == "sum"    ? attribution_norm::sum
                                            : attribution_norm::frobenius;
  options.samples = command.samples;
  options.seed = command.seed;
  options.memory = command.memory;
  options.rounded_products = command.type == "bf16";
  if (command.from == "norm") {
    options.from = 0;
  } else if (command.from != "embeddings") {
    options.from = number_of(command.from, "--from", 1, config.layers - 1);
  }
  if (command.samples > config.width) {
    throw usage_error(fmt::format("--samples {}: the model has {} directions", command.samples, config.width));
  }
  if (options.norm == attribution_norm::spectral && command.samples > 0) {
    throw usage_error("--norm spectral is exact; it cannot be estimated with --samples");
  }
  check_words(command);
  options.layers = command.layers;
  const std::int64_t least = std::max<std::int64_t>(options.from, 0) + 1;
  for (std::int64_t l = least; command.layers.empty() && l <= config.layers; ++l) options.layers.push_back(l);
  for (std::size_t i = 0; i < options.layers.size(); ++i) {
    const bool is_ascending = i == 0 || options.layers[i] > options.layers[i - 1];
    if (options.layers[i] >= least && options.layers[i] <= config.layers && is_ascending) continue;
    throw usage_error(fmt::format("--layers must be ascending, from {} to {}", least, config.layers));
  }
  return options;
}

std::vector<input_text> read_texts(text_source& source, std::int64_t limit) {
  std::vector<input_text> texts = source.rest(limit);
  for (const input_text& text : texts) check_tags(text);
  return texts;
}

nlohmann::ordered_json identity_of(const hta_command& command, const text_source& source,
                                   const std::vector<input_text>& texts, const attribution_options& options,
                                   const sycl::device& device) {
  nlohmann::ordered_json identity = common_settings("hta", device);
  identity.update({{"model", command.input.model},
                   {"model_checksum", checksum_of_model(source.folder())},
                   {"texts", texts.size()},
                   {"texts_checksum", checksum_of(texts)},
                   {"is_file", source.is_file()},
                   {"norm", command.norm},
                   {"samples", command.samples},
                   {"seed", command.seed},
                   {"layers", options.layers},
                   {"from", command.from},
                   {"words", command.words},
                   {"memory", options.memory},
                   {"type", command.type}});
  return identity;
}

}  // namespace nullscope::cli
