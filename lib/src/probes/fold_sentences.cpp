#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/probes/token_identifiability.hpp>

#include "lib/src/linalg/random_draws.hpp"
#include "lib/src/probes/probe_fit.hpp"

namespace nullscope {

data_split fold_sentences(std::int64_t sentences, std::int64_t fold, std::int64_t folds, std::uint64_t seed) {
  constexpr std::int64_t least = 3;
  if (sentences < least) {
    throw invalid_argument(
        fmt::format("fold_sentences: {} sentences are too few for training, validation and test", sentences));
  }
  if (folds < 1 || folds > sentences || fold < 0 || fold >= folds) {
    throw invalid_argument(
        fmt::format("fold_sentences: fold {} of {} cannot be, with {} sentences: there are at most "
                    "as many folds as sentences, counted from 0",
                    fold, folds, sentences));
  }
  detail::random_draws draws({seed, detail::stream_of(detail::probe_stream::sentences, 0, 0)});
  const std::vector<std::int32_t>& circle = draws.subset(sentences, sentences);
  const std::int64_t part = std::max<std::int64_t>(1, std::llround(0.15 * static_cast<double>(sentences)));
  const std::int64_t first = fold * sentences / folds;
  data_split split;
  for (std::int64_t i = 0; i < sentences; ++i) {
    std::vector<std::int64_t>& to = i < part ? split.test : i < 2 * part ? split.validation : split.training;
    to.push_back(circle[static_cast<std::size_t>((first + i) % sentences)]);
  }
  return split;
}

}  // namespace nullscope
