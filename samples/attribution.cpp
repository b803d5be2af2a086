/// Attribution: how much of each word is in each hidden token of a model, exact and estimated.
///
///   attribution ["a sentence"] [model name or folder]
#include <cmath>
#include <cstdio>
#include <exception>
#include <nullscope/nullscope.hpp>
#include <string>

namespace ns = nullscope;

int main(int argc, char** argv) try {
  const std::string text = argc > 1 ? argv[1] : "the cat sat on the mat";
  const auto folder = ns::resolve_model(argc > 2 ? argv[2] : ns::default_model);
  ns::context ctx(ns::select_device(""));
  const ns::transformer<float> model = ns::load_transformer<float>(ctx, folder);
  const ns::tokenizer tokenizer(folder);
  const ns::encoded_text tokens = tokenizer.encode(text);

  ns::token_batch::sequence sequence{tokens.ids, {}};
  if (model.config().segments > 0) sequence.segments = tokens.segments;
  const ns::token_batch batch(ctx, model.config(), std::span(&sequence, 1));

  // contribution (layers, S, S): row j is the hidden token, column i the input token.
  const ns::attribution exact = ns::hidden_token_attribution(ctx, model, batch)[0];
  const ns::attribution estimate = ns::hidden_token_attribution(ctx, model, batch, {.samples = 16})[0];
  const auto s = static_cast<std::size_t>(exact.tokens);
  std::printf("%-12s", "own share of");
  for (const std::int64_t layer : exact.layers) std::printf("  layer %lld", static_cast<long long>(layer));
  std::printf("\n");
  for (std::size_t j = 0; j < s; ++j) {
    std::printf("%-12s", std::string(tokenizer.token(tokens.ids[j])).c_str());
    for (std::size_t l = 0; l < exact.layers.size(); ++l) {
      std::printf("  %5.1f %%", 100 * exact.contribution[(l * s + j) * s + j]);
    }
    std::printf("\n");
  }

  double difference = 0, error = 0;
  for (std::size_t n = 0; n < exact.contribution.size(); ++n) {
    difference += std::pow(estimate.contribution[n] - exact.contribution[n], 2);
    error += std::pow(estimate.standard_error[n], 2);
  }
  const double count = static_cast<double>(exact.contribution.size());
  std::printf("16 random tangents per token instead of %lld: off by %.4f on average, standard error %.4f\n",
              static_cast<long long>(model.config().width), std::sqrt(difference / count), std::sqrt(error / count));
} catch (const std::exception& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
