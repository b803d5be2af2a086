/// The texts that a surrogate is fitted to: short sequences of a text's tokens, or the text with tokens deleted.
/// Special tokens stay in every query. A query that is drawn several times is computed once, and counts as often. Host
/// code.
#pragma once

#include <cstdint>
#include <nullscope/explain/explanations.hpp>
#include <span>
#include <vector>

namespace nullscope {

struct sampling_options {
  query_kind kind = query_kind::short_sequences;
  token_identity identity = token_identity::by_id;
  std::int64_t samples = 5000;
  std::int64_t length = 2;
  std::int64_t most_deleted = 5;
  std::uint64_t seed = 1;
};

/// The tokens of a text that can be left out, as parameters of a surrogate.
struct text_parameters {
  std::vector<std::int32_t> of_place;                  ///< (places): parameter of each, -1 for special tokens
  std::vector<std::vector<std::int32_t>> occurrences;  ///< (parameters): the places of each

  std::int64_t count() const { return static_cast<std::int64_t>(occurrences.size()); }
};

/// Throws invalid_argument if the text has no token besides the special ones, or `special` has another length.
text_parameters parameters_of_text(const explained_text& text, token_identity identity);

struct sampled_queries {
  std::vector<token_sequence> sequences;  ///< for the model, special tokens included
  slalom_queries queries;                 ///< the same for the fit, without targets
  std::int64_t drawn = 0;                 ///< sum of the weights
  bool is_complete = false;               ///< there are not more sequences than samples: each is here once
  bool is_lengthened = false;             ///< sequences of that length do not determine the model: others were added
};

/// Draws queries for SLALOM. `classes` is that of the targets. If sequences of `length` tokens are too few to determine
/// the model (pairs of fewer than five places), all lengths from 1 to length + 1 are drawn; a text of one token is its
/// only query. Depends on the text, the options and the seed alone.
sampled_queries sample_queries(const explained_text& text, const text_parameters& parameters, std::int64_t classes,
                               const sampling_options& options);

/// The text without the parameters whose `present` is 0. `text.empty` if nothing is left.
token_sequence text_with(const explained_text& text, const text_parameters& parameters,
                         std::span<const std::uint8_t> present);

/// Logits of sequences; an empty one has logits of 0.
std::vector<double> logits_of(const explained_model& model, std::span<const token_sequence> sequences);

}  // namespace nullscope
