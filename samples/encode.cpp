/// What a real model makes of a sentence: tokens, the length of their vectors layer by layer, and how similar two
/// sentences are. The model is fetched on first use.
#include <cmath>
#include <cstdio>
#include <nullscope/core/device.hpp>
#include <nullscope/model/model_folder.hpp>
#include <nullscope/model/model_states.hpp>
#include <nullscope/text/text_encoder.hpp>
#include <string>

int main(int argc, char** argv) {
  using namespace nullscope;
  const auto folder = resolve_model(argc > 1 ? argv[1] : default_model, [](std::string_view text) {
    std::fprintf(stderr, "%s\n", std::string(text).c_str());
  });
  context ctx(select_device());
  const text_encoder words(folder);
  const transformer<float> model = load_transformer<float>(ctx, folder);
  const transformer_config& config = model.config();

  std::vector<token_batch::sequence> sequences;
  for (const char* text : {"A cat sat on the mat.", "A kitten was sitting on a rug."}) {
    const encoded_text input = words.encode(text, {.max_length = config.positions});
    sequences.push_back({input.ids, config.segments > 0 ? input.segments : std::vector<std::int32_t>{}});
  }
  const auto states = read_states(ctx, model, sequences, {.pool = pooling::mean, .normalise = true});

  const auto d = static_cast<std::size_t>(config.width), s = sequences[0].ids.size();
  for (std::size_t token = 0; token < s; ++token) {
    std::printf("%-12s", std::string(words.token(sequences[0].ids[token])).c_str());
    for (std::size_t layer = 0; layer <= static_cast<std::size_t>(config.layers); ++layer) {
      double square = 0;
      for (std::size_t i = 0; i < d; ++i) square += std::pow(states[0].hidden[(layer * s + token) * d + i], 2);
      std::printf(" %6.2f", std::sqrt(square));
    }
    std::printf("\n");
  }
  double cosine = 0;
  for (std::size_t i = 0; i < d; ++i) cosine += states[0].embedding[i] * states[1].embedding[i];
  std::printf("cosine of the two sentences: %.3f\n", cosine);
}
