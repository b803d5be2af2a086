#include <fmt/format.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/studies/sweep.hpp>
#include <random>

namespace nullscope {

sweep_texts::sweep_texts(std::vector<token_batch::sequence> sequences) : sequences_(std::move(sequences)) {
  std::ranges::stable_sort(sequences_, std::greater(), [](const auto& sequence) { return sequence.ids.size(); });
}

std::int64_t sweep_texts::longest() const {
  return sequences_.empty() ? 0 : static_cast<std::int64_t>(sequences_[0].ids.size());
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

sweep_settings complete(sweep_settings settings, const transformer_config& model, const sweep_texts& texts) {
  settings.width = model.width;
  settings.heads = model.layers * model.heads;
  settings.key_size = model.key_size;
  settings.heads_are = model.merge == head_merge::added ? "added" : "concatenated";
  settings.model = {model.layers, model.heads, model.value_size};
  settings = complete(std::move(settings));
  const auto count_texts = [&](std::int64_t length) {
    const std::int64_t wanted = settings.samples_of(settings.kinds()[0], length);
    return std::ssize(texts.choose(length, wanted, settings.seed));
  };
  std::map<std::int64_t, std::int64_t> samples;
  for (const std::int64_t length : settings.lengths) samples[length] = count_texts(length);
  settings.model->samples = samples;
  const std::int64_t shortest = settings.lengths.front();
  std::erase_if(settings.lengths, [&](std::int64_t length) { return samples[length] == 0; });
  if (settings.lengths.empty()) {
    throw invalid_argument(fmt::format("sweep: no text has {} tokens; the longest has {}", shortest, texts.longest()));
  }
  return settings;
}

}  // namespace nullscope
