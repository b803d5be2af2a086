#include "lib/cli/sweep/sweep_texts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <random>

#include "lib/cli/parallel/work_splitter.hpp"

namespace nullscope::cli {
sweep_texts::sweep_texts(const text_input_options& input) : name_(input.model), file_(input.file) {
  text_source source(input);
  folder_ = source.folder();
  model_ = source.model();
  for (input_text text; source.next(text);) sequences_.push_back(text.sequence(model_.config));
  std::ranges::stable_sort(sequences_, std::greater(), [](const auto& sequence) { return sequence.ids.size(); });
}

std::int64_t sweep_texts::longest() const {
  return sequences_.empty() ? 1 : static_cast<std::int64_t>(sequences_[0].ids.size());
}

sweep_settings sweep_texts::describe_model_in(sweep_settings settings) const {
  const transformer_config& config = model_.config;
  sweep_model model;
  model.name = name_;
  model.texts = file_;
  model.layers = config.layers;
  model.heads = config.heads;
  model.value_size = config.value_size;
  settings.width = config.width;
  settings.heads = config.layers * config.heads;
  settings.key_size = config.key_size;
  settings.heads_are = config.merge == head_merge::added ? "added" : "concatenated";
  settings.model = model;
  return settings;
}

std::vector<token_batch::sequence> sweep_texts::choose(std::int64_t length, std::int64_t count,
                                                       std::uint64_t seed) const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < sequences_.size() && std::cmp_greater_equal(sequences_[i].ids.size(), length); ++i) {
    places.push_back(i);
  }
  // Not std::shuffle, whose choice depends on the standard library.
  std::mt19937_64 generator(seed * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(length));
  std::vector<token_batch::sequence> chosen;
  for (std::size_t i = 0; i < places.size() && std::cmp_less(i, count); ++i) {
    std::swap(places[i], places[i + generator() % (places.size() - i)]);
    token_batch::sequence sequence = sequences_[places[i]];
    sequence.ids.resize(static_cast<std::size_t>(length));
    if (!sequence.segments.empty()) sequence.segments.resize(static_cast<std::size_t>(length));
    chosen.push_back(std::move(sequence));
  }
  return chosen;
}

sweep_settings sweep_texts::keep_reached_lengths(sweep_settings settings) const {
  std::vector<std::int64_t> reached, missed;
  checksum sum;
  sum.add_model(folder_);
  for (const std::int64_t length : settings.lengths) {
    const std::int64_t wanted = settings.samples_of(settings.kinds()[0], length);
    const std::vector<token_batch::sequence> chosen = choose(length, wanted, settings.seed);
    (chosen.empty() ? missed : reached).push_back(length);
    if (!chosen.empty()) settings.model->samples[length] = static_cast<std::int64_t>(chosen.size());
    for (const token_batch::sequence& sequence : chosen) {
      sum.add(sequence.ids.data(), sequence.ids.size() * sizeof(std::int32_t));
    }
  }
  if (reached.empty()) {
    throw file_error(fmt::format("{}: no text has {} tokens; the longest has {}, the model takes at most {}", file_,
                                 settings.lengths.front(), longest(), model_.config.positions));
  }
  if (!missed.empty() && speaks_for_all()) {
    fmt::print(stderr,
               "nullscope: warning: lengths that no text reaches are skipped: {} (the longest text has {} "
               "tokens, the model takes at most {})\n",
               fmt::join(missed, ", "), longest(), model_.config.positions);
  }
  settings.lengths = std::move(reached);
  settings.model->checksum = sum.text();
  return settings;
}

}  // namespace nullscope::cli
