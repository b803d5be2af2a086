/// The loss of a batch: a classifier's, or that of a language-model head at each token.
#pragma once

#include <fmt/format.h>

#include <nullscope/core/errors.hpp>
#include <nullscope/model/layers.hpp>
#include <nullscope/model/transformer.hpp>

#include "lib/src/training/training_batch.hpp"

namespace nullscope::detail {

inline void check_head(const char* name, const transformer_config& config) {
  if (config.classes > 0 || config.language_model) return;
  throw invalid_argument(fmt::format("{}: the model has neither a classifier nor a language-model head", name));
}

inline std::int64_t logit_rows(const transformer_config& config, const token_batch& tokens) {
  if (config.classes == 0) return tokens.size() * tokens.tokens();
  return config.pairs ? tokens.size() / 2 : tokens.size();
}

inline std::int64_t logit_count(const transformer_config& config, const token_batch& tokens) {
  return logit_rows(config, tokens) * (config.classes > 0 ? config.classes : config.vocabulary);
}

/// logits (rows, classes), or (batch, S, vocabulary).
template <class T>
forward_results<T> logits_at(const transformer_config& config, const token_batch& tokens, T* logits) {
  forward_results<T> results;
  if (config.classes > 0) {
    results.logits = contiguous(logits, logit_rows(config, tokens), config.classes);
  } else {
    results.token_logits = contiguous(logits, tokens.size(), tokens.tokens(), config.vocabulary);
  }
  return results;
}

/// Forward pass and cross-entropy; `logits` is memory for them.
template <class T>
void loss_of(context& ctx, const transformer<T>& model, const device_batch& batch, const forward_options<T>& options,
             T* logits, const cross_entropy_results<T>& results) {
  const transformer_config& config = model.config();
  forward(ctx, model, batch.tokens, logits_at(config, batch.tokens, logits), options);
  const std::int64_t rows = logit_rows(config, batch.tokens);
  cross_entropy(ctx, {contiguous(logits, rows, logit_count(config, batch.tokens) / rows), batch.labels}, results);
}

}  // namespace nullscope::detail
