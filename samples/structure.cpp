/// The structure of attention: weights W from the attention of some inputs, a norm that respects them, and the subspace
/// R of a task. With a small random model; any model folder works the same.
#include <cstdint>
#include <cstdio>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/structure/model_structure.hpp>
#include <span>
#include <vector>

int main() {
  using namespace nullscope;
  try {
    context ctx(select_device());
    transformer_config config;
    config.layers = 2;
    config.width = 32;
    config.heads = 4;
    config.key_size = config.value_size = 8;
    config.feed_forward = 64;
    config.vocabulary = 100;
    config.positions = 24;
    transformer<float> model(ctx, config);
    model.initialise(ctx, 1);

    // Texts of 24 tokens; those of a real task come from a tokenizer.
    std::vector<token_batch::sequence> texts(6);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      for (std::int32_t j = 0; j < 24; ++j)
        texts[i].ids.push_back((7 * j * j + 31 * static_cast<std::int32_t>(i)) % 100);
    }

    // One pass: the sum of attention, and the ranges of all T.
    model_structure<float> structure(ctx, model, 24);
    for (const token_batch::sequence& text : texts) {
      structure.add(ctx, std::span(&text, 1));
      const std::vector<std::int64_t> dimension = structure.subspace().basis(ctx).dimension;
      std::printf("after %d texts, dim R of the first head is %d of 24\n",
                  static_cast<int>(structure.subspace().samples()), static_cast<int>(dimension[0]));
    }

    // W, and how far each text is from the mean attention in both norms.
    const attention_structure<float> w = structure.attention().extract(ctx, {.threshold = 0.2});
    const tensor<float> mean = structure.attention().mean(ctx);
    std::printf("W of the first head has %d empty rows\n", static_cast<int>(w.emptied[0]));
    for (const structure_distances<float>& one : structure.distances(ctx, texts, mean, w.w)) {
      std::printf("first head: plain distance %.5f, structure-aware %.5f\n", static_cast<double>(one.plain[0]),
                  static_cast<double>(one.structure[0]));
    }
  } catch (const error& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
