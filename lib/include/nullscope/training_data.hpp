/// Examples to learn from: sequences with labels, deterministic splits, and batches of similar length.
#pragma once

#include <cstdint>
#include <nullscope/transformer.hpp>
#include <span>
#include <vector>

namespace nullscope {

/// One thing to learn. `labels` is one class; or, for a language-model head, the id wanted at each token of `sequence`,
/// where a negative number does not count.
struct training_example {
  token_batch::sequence sequence;
  token_batch::sequence pair = {};  ///< the second sequence of models with config.pairs
  std::vector<std::int32_t> labels;

  std::int64_t tokens() const { return static_cast<std::int64_t>(sequence.ids.size() + pair.ids.size()); }
};

/// Throws invalid_argument, naming the example, if one cannot be learnt by such a model: no tokens, too long, an id or
/// a label out of range, a pair too many or missing.
void check_examples(const transformer_config& config, std::span<const training_example> examples);

/// Which examples serve what. No example is in two parts.
struct data_split {
  std::vector<std::int64_t> training, validation, test;
};

struct split_shares {
  double training = 0.7, validation = 0.15;  ///< the rest is for the test
};

/// Divides the numbers from 0 to count - 1 at random; the result depends on the seed alone. Every part whose share is
/// above 0 gets at least one. Throws invalid_argument if there are too few, or on shares that are negative or above 1.
data_split split_examples(std::int64_t count, std::uint64_t seed, const split_shares& shares = {});

/// One epoch: all of `indices`, each once, in batches of `batch` (the last one may be smaller), which hold examples of
/// similar length and come in random order. Depends on seed, epoch and lengths alone. lengths[i] is that of example i.
std::vector<std::vector<std::int64_t>> epoch_batches(std::span<const std::int64_t> indices,
                                                     std::span<const std::int64_t> lengths, std::int64_t batch,
                                                     std::uint64_t seed, std::int64_t epoch);

/// The examples of these numbers.
std::vector<training_example> pick(std::span<const training_example> examples, std::span<const std::int64_t> indices);

}  // namespace nullscope
