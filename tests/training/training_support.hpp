/// A toy task for tests of training: count the tokens 9 of a sequence.
#pragma once

#include <nullscope/training/training.hpp>

#include <random>
#include <vector>

#include "tests/core/support.hpp"

namespace nullscope::test {

inline transformer_config toy_config() {
  transformer_config config;
  config.width = 16;
  config.heads = 2;
  config.key_size = 3;
  config.value_size = 8;
  config.feed_forward = 24;
  config.vocabulary = 10;
  config.positions = 8;
  config.classes = 3;
  return config;
}

/// Sequences of 1 to 7 tokens after a first token 0; the class is the number of tokens 9 among them, up to 2.
inline std::vector<training_example> toy_examples(std::int64_t count) {
  std::mt19937 generator(3);
  std::vector<training_example> examples;
  for (std::int64_t i = 0; i < count; ++i) {
    training_example example{{{0}}, {}, {0}};
    const auto length = 1 + generator() % 7;
    for (std::size_t j = 0; j < length; ++j) {
      const bool is_nine = generator() % 4 == 0;
      example.sequence.ids.push_back(is_nine ? 9 : static_cast<std::int32_t>(1 + generator() % 8));
      if (is_nine && example.labels[0] < 2) ++example.labels[0];
    }
    examples.push_back(std::move(example));
  }
  return examples;
}

/// Options that are all in use; runs of 21 steps.
inline training_options everything() {
  training_options options;
  options.learning_rate = 5e-3;
  options.weight_decay = 0.01;
  options.largest_norm = 0.5;
  options.schedule = learning_schedule::linear;
  options.warm_up_steps = 4;
  options.total_steps = 21;
  options.seed = 7;
  return options;
}

inline transformer_config with_dropout() {
  transformer_config config = toy_config();
  config.dropout = 0.2;
  return config;
}

class training_fixture : public device_test {
 protected:
  transformer<float> model(const transformer_config& config, std::uint64_t seed = 1) {
    transformer<float> made(ctx_, config);
    made.initialise(ctx_, seed);
    return made;
  }
  trainer<float> toy_trainer(const training_options& options, transformer_config config = toy_config()) {
    return trainer<float>(ctx_, model(config), options);
  }
  template <class Trainer>
  static std::vector<float> parameters(Trainer& training) {
    training.wait();
    return training.model().values().to_host();
  }
};

}  // namespace nullscope::test
