/// Token identifiability: can hidden tokens still be recognised as their input tokens? With a small random model; any
/// model folder works the same.
#include <cstdint>
#include <cstdio>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/probes/token_identifiability.hpp>
#include <vector>

namespace {

/// The mean rate over folds, layer by layer.
void print(const char* name, std::int64_t layers, const std::vector<nullscope::identification>& found) {
  std::printf("%-28s", name);
  for (std::int64_t layer = 1; layer <= layers; ++layer) {
    std::int64_t tokens = 0, correct = 0;
    for (const nullscope::identification& one : found) {
      if (one.tested_on != layer) continue;
      tokens += one.tokens;
      correct += one.correct;
    }
    std::printf("  layer %d: %.3f", static_cast<int>(layer),
                static_cast<double>(correct) / static_cast<double>(tokens));
  }
  std::printf("\n");
}

}  // namespace

int main() {
  using namespace nullscope;
  try {
    context ctx(select_device());
    transformer_config config;
    config.layers = 3;
    config.width = 32;
    config.heads = 4;
    config.key_size = config.value_size = 8;
    config.feed_forward = 64;
    config.vocabulary = 200;
    config.positions = 20;
    transformer<float> model(ctx, config);
    model.initialise(ctx, 1);

    // 100 texts of 20 tokens; those of a real task come from a tokenizer.
    std::vector<token_batch::sequence> texts(100);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      for (std::int32_t j = 0; j < 20; ++j)
        texts[i].ids.push_back((17 * j * j + 31 * static_cast<std::int32_t>(i) * (j + 1)) % 200);
    }

    // x, the sum of the embeddings, and the output of each layer.
    const token_states<float> states = read_token_states(ctx, model, texts);
    const auto identify = [&](const identifiability_options& options) {
      return token_identifiability(ctx, states.inputs, states.hidden, states.sentences, options);
    };

    // The hidden tokens as they are; a matrix by least squares; a matrix and an MLP, trained on all layers and folds at
    // once.
    const probe_training training{.learning_rate = 0.003, .patience = 3, .most_epochs = 30, .hidden_units = 64};
    print("identity", 3, identify({.map = probe_map::identity, .folds = 4}));
    print("linear, least squares", 3,
          identify({.loss = probe_distance::l2, .fit = probe_fit::least_squares, .folds = 4}));
    print("linear, cosine", 3, identify({.training = training, .folds = 4}));
    print("MLP, cosine", 3, identify({.map = probe_map::mlp, .training = training, .folds = 4}));
  } catch (const error& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
