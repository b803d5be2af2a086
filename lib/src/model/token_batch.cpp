#include <fmt/format.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/transformer.hpp>

namespace nullscope {
namespace {

void check_range(std::string_view what, std::size_t sequence, const std::vector<std::int32_t>& values,
                 std::int64_t count) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < count) continue;
    throw invalid_argument(fmt::format("token_batch: {} {} of sequence {}, at token {}, is not from 0 to {}", what,
                                       values[i], sequence, i, count - 1));
  }
}

void check_sequence(const transformer_config& config, std::size_t index, const token_batch::sequence& sequence) {
  if (sequence.ids.empty()) throw invalid_argument(fmt::format("token_batch: sequence {} has no tokens", index));
  if (std::cmp_greater(sequence.ids.size(), config.positions)) {
    throw invalid_argument(fmt::format("token_batch: sequence {} has {} tokens, the model takes at most {}", index,
                                       sequence.ids.size(), config.positions));
  }
  check_range("id", index, sequence.ids, config.vocabulary);
  if (sequence.segments.empty()) return;
  if (config.segments == 0) {
    throw invalid_argument(fmt::format("token_batch: sequence {} has segments, the model has none", index));
  }
  if (sequence.segments.size() != sequence.ids.size()) {
    throw invalid_argument(fmt::format("token_batch: sequence {} has {} ids and {} segments", index,
                                       sequence.ids.size(), sequence.segments.size()));
  }
  check_range("segment", index, sequence.segments, config.segments);
}

}  // namespace

token_batch::token_batch(context& ctx, const transformer_config& config, std::span<const sequence> sequences) {
  if (sequences.empty()) throw invalid_argument("token_batch: there are no sequences");
  if (config.pairs && sequences.size() % 2 != 0) {
    throw invalid_argument(fmt::format("token_batch: {} sequences are no pairs", sequences.size()));
  }
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    check_sequence(config, i, sequences[i]);
    lengths_host_.push_back(static_cast<std::int64_t>(sequences[i].ids.size()));
  }
  longest_ = *std::max_element(lengths_host_.begin(), lengths_host_.end());
  const std::size_t row = static_cast<std::size_t>(longest_);
  std::vector<std::int32_t> ids(sequences.size() * row), segments(ids.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    std::copy(sequences[i].ids.begin(), sequences[i].ids.end(), ids.data() + i * row);
    std::copy(sequences[i].segments.begin(), sequences[i].segments.end(), segments.data() + i * row);
  }
  ids_ = tensor<std::int32_t>(ctx, {size(), longest_}, ids);
  lengths_ = tensor<std::int64_t>(ctx, {size()}, lengths_host_);
  if (config.segments > 0) segments_ = tensor<std::int32_t>(ctx, {size(), longest_}, segments);
}

}  // namespace nullscope
