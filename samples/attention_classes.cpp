/// Raw and effective attention between classes of tokens, for a model that reads texts of different lengths. With a
/// small random model, an encoder and a decoder; any model folder works the same.
#include <cstdint>
#include <cstdio>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/model_states.hpp>
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
    config.positions = 48;

    // Token 1 begins a text and token 2 ends it; the others are words. Real texts come from a tokenizer, their classes
    // from token_classifier.
    enum { start, end, word, classes };
    std::vector<classified_text> texts;
    for (std::int32_t length : {12, 24, 48}) {
      classified_text text;
      for (std::int32_t j = 0; j < length; ++j) {
        text.tokens.ids.push_back(j == 0 ? 1 : j + 1 == length ? 2 : 3 + 7 * j * j % 97);
        text.classes.push_back(j == 0 ? start : j + 1 == length ? end : word);
      }
      texts.push_back(text);
    }

    for (const bool causal : {false, true}) {
      config.causal = causal;
      transformer<float> model(ctx, config);
      model.initialise(ctx, 1);
      model_attention<float> attention(ctx, model, classes);
      std::printf("%s\n", causal ? "A decoder, by rows:" : "An encoder:");
      for (const text_attention<float>& text : attention.add(ctx, texts)) {
        const head_numbers<float>& first = text.heads[0];
        std::printf("%2d tokens, first head: rank(T) %d, correlation %.4f, null attention %.1f %%\n",
                    static_cast<int>(text.tokens), static_cast<int>(first.rank), static_cast<double>(first.pearson),
                    100.0 * static_cast<double>(first.null_norm * first.null_norm / (first.raw_norm * first.raw_norm)));
      }
      const class_averages averages = attention.averages();
      std::printf("attention of a word to the start: raw %.4f, effective %.4f\n",
                  averages.at(averages.raw, 0, word, start), averages.at(averages.effective, 0, word, start));
    }
  } catch (const error& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
