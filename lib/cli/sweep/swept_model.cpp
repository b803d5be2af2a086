#include "lib/cli/sweep/swept_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <nullscope/core/errors.hpp>
#include <vector>

#include "lib/cli/common/checksum.hpp"
#include "lib/cli/parallel/work_splitter.hpp"

namespace nullscope::cli {
namespace {

void warn_of_missed_lengths(const sweep_settings& settings, const swept_model& model) {
  std::vector<std::int64_t> missed;
  for (const auto& [length, texts] : settings.model->samples) {
    if (texts == 0) missed.push_back(length);
  }
  if (missed.empty() || !speaks_for_all()) return;
  fmt::print(stderr,
             "nullscope: warning: lengths that no text reaches are skipped: {} (the longest text has {} tokens, the "
             "model takes at most {})\n",
             fmt::join(missed, ", "), model.texts.longest(), model.config.positions);
}

}  // namespace

swept_model read_swept_model(const text_input_options& input) {
  text_source source(input);
  const transformer_config& config = source.model().config;
  std::vector<token_batch::sequence> sequences;
  for (input_text text; source.next(text);) sequences.push_back(text.sequence(config));
  return {input.model, input.file, source.folder(), config, sweep_texts(std::move(sequences))};
}

sweep_settings complete_for_model(const sweep_settings& settings, const swept_model& model) {
  const std::int64_t shortest =
      settings.lengths.empty() ? settings.min_length : *std::ranges::min_element(settings.lengths);
  if (model.texts.longest() < shortest) {
    throw file_error(fmt::format("{}: no text has {} tokens; the longest has {}, the model takes at most {}",
                                 model.file, shortest, model.texts.longest(), model.config.positions));
  }
  sweep_settings completed = complete(settings, model.config, model.texts);
  warn_of_missed_lengths(completed, model);
  return completed;
}

std::string checksum_of(const sweep_settings& settings, const swept_model& model) {
  checksum sum;
  sum.add_model(model.folder);
  for (const std::int64_t length : settings.lengths) {
    const std::int64_t count = settings.model->samples.at(length);
    for (const token_batch::sequence& sequence : model.texts.choose(length, count, settings.seed)) {
      sum.add(sequence.ids.data(), sequence.ids.size() * sizeof(std::int32_t));
    }
  }
  return sum.text();
}

}  // namespace nullscope::cli
