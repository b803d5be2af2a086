/// The shape of MiniLM, for benchmarks of whole models.
#pragma once

#include <cstdint>
#include <nullscope/model/transformer.hpp>

namespace nullscope::bench {

inline transformer_config minilm_shape(std::int64_t vocabulary, std::int64_t positions) {
  transformer_config config;
  config.layers = 6;
  config.width = 384;
  config.heads = 12;
  config.key_size = config.value_size = 32;
  config.feed_forward = 1536;
  config.vocabulary = vocabulary;
  config.positions = positions;
  config.embedding_norm = true;
  config.function = activation::gelu;
  return config;
}

}  // namespace nullscope::bench
