#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/training/training.hpp>
#include <numeric>

#include "lib/src/training/training_streams.hpp"

namespace nullscope {
namespace {

using index_list = std::vector<std::int64_t>;

/// Fisher and Yates, with random numbers that are the same everywhere.
template <class Value>
void shuffle(std::vector<Value>& values, random_stream stream) {
  for (std::int64_t i = std::ssize(values) - 1; i > 0; --i) {
    const auto other = static_cast<std::int64_t>(uniform_at<double>(stream, i) * static_cast<double>(i + 1));
    std::swap(values[static_cast<std::size_t>(i)], values[static_cast<std::size_t>(std::min(other, i))]);
  }
}

class example_check {
 public:
  example_check(const transformer_config& config, std::size_t number) : config_(config), number_(number) {}

  void run(const training_example& example) const {
    check_sequence("sequence", example.sequence);
    if (config_.pairs) check_sequence("pair", example.pair);
    if (!config_.pairs && !example.pair.ids.empty()) fail("has a pair, the model reads single sequences");
    const bool per_token = config_.classes == 0;
    const std::size_t wanted = per_token ? example.sequence.ids.size() : 1;
    if (example.labels.size() != wanted) fail(fmt::format("has {} labels, expected {}", example.labels.size(), wanted));
    const std::int64_t kinds = per_token ? config_.vocabulary : config_.classes;
    for (const std::int32_t label : example.labels) {
      if (label >= kinds || (label < 0 && !per_token)) {
        fail(fmt::format("has the label {}, expected 0 to {}", label, kinds - 1));
      }
    }
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw invalid_argument(fmt::format("training: example {} {}", number_, text));
  }

  void check_sequence(const char* name, const token_batch::sequence& sequence) const {
    if (sequence.ids.empty()) fail(fmt::format("has no tokens in its {}", name));
    if (std::cmp_greater(sequence.ids.size(), config_.positions)) {
      fail(fmt::format("has {} tokens in its {}, the model takes at most {}", sequence.ids.size(), name,
                       config_.positions));
    }
    check_range("id", name, sequence.ids, config_.vocabulary);
    check_range("segment", name, sequence.segments, config_.segments);
    if (!sequence.segments.empty() && sequence.segments.size() != sequence.ids.size()) {
      fail(fmt::format("has {} ids and {} segments in its {}", sequence.ids.size(), sequence.segments.size(), name));
    }
  }

  void check_range(const char* what, const char* name, const std::vector<std::int32_t>& values,
                   std::int64_t count) const {
    for (const std::int32_t value : values) {
      if (value < 0 || value >= count) {
        fail(fmt::format("has the {} {} in its {}, expected 0 to {}", what, value, name, count - 1));
      }
    }
  }

  const transformer_config& config_;
  std::size_t number_;
};

}  // namespace

void check_examples(const transformer_config& config, std::span<const training_example> examples) {
  for (std::size_t i = 0; i < examples.size(); ++i) example_check(config, i).run(examples[i]);
}

data_split split_examples(std::int64_t count, std::uint64_t seed, const split_shares& shares) {
  const double test_share = 1 - shares.training - shares.validation;
  constexpr double rounding = 1e-9;  // of shares such as 0.7 and 0.3
  if (!(shares.training >= 0 && shares.validation >= 0 && test_share >= -rounding)) {
    throw invalid_argument(
        fmt::format("split_examples: shares of {} and {}, expected numbers from 0 with a sum up to 1", shares.training,
                    shares.validation));
  }
  std::int64_t parts = 0;
  for (const double share : {shares.training, shares.validation, test_share}) parts += share > rounding ? 1 : 0;
  if (count < parts) {
    throw invalid_argument(fmt::format("split_examples: {} examples cannot be divided into {} parts", count, parts));
  }
  index_list all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  shuffle(all, {seed, detail::split_stream});
  // Parts that are rounded to nothing get one example of what is left.
  std::int64_t left = count;
  const auto size_of = [&](double share) -> std::int64_t {
    if (share <= rounding) return 0;
    --parts;
    const auto wanted = static_cast<std::int64_t>(std::llround(share * static_cast<double>(count)));
    const std::int64_t size = parts == 0 ? left : std::clamp<std::int64_t>(wanted, 1, left - parts);
    left -= size;
    return size;
  };
  data_split split;
  auto from = all.begin();
  for (const auto& [part, share] :
       {std::pair(&split.training, shares.training), std::pair(&split.validation, shares.validation),
        std::pair(&split.test, test_share)}) {
    const auto to = from + size_of(share);
    part->assign(from, to);
    from = to;
  }
  return split;
}

std::vector<index_list> epoch_batches(std::span<const std::int64_t> indices, std::span<const std::int64_t> lengths,
                                      std::int64_t batch, std::uint64_t seed, std::int64_t epoch) {
  if (batch < 1) throw invalid_argument(fmt::format("epoch_batches: batches of {}, expected at least 1", batch));
  for (const std::int64_t index : indices) {
    if (index >= 0 && index < std::ssize(lengths)) continue;
    throw invalid_argument(fmt::format("epoch_batches: index {}, there are {} lengths", index, lengths.size()));
  }
  const std::uint64_t stream = detail::order_stream + 2 * static_cast<std::uint64_t>(epoch);
  index_list order(indices.begin(), indices.end());
  shuffle(order, {seed, stream});
  // Long enough for batches of similar lengths, short enough that batches differ from epoch to epoch.
  constexpr std::ptrdiff_t batches_per_window = 32;
  const std::ptrdiff_t window = batches_per_window * batch;
  std::vector<index_list> batches;
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = begin + std::min(window, order.end() - begin);
    std::stable_sort(begin, end, [&](std::int64_t a, std::int64_t b) {
      return lengths[static_cast<std::size_t>(a)] < lengths[static_cast<std::size_t>(b)];
    });
    while (begin != end) {
      const auto next = begin + std::min<std::ptrdiff_t>(batch, end - begin);
      batches.emplace_back(begin, next);
      begin = next;
    }
  }
  shuffle(batches, {seed, stream + 1});
  return batches;
}

std::vector<training_example> pick(std::span<const training_example> examples, std::span<const std::int64_t> indices) {
  std::vector<training_example> picked;
  picked.reserve(indices.size());
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= std::ssize(examples)) {
      throw invalid_argument(fmt::format("pick: index {}, there are {} examples", index, examples.size()));
    }
    picked.push_back(examples[static_cast<std::size_t>(index)]);
  }
  return picked;
}

}  // namespace nullscope
