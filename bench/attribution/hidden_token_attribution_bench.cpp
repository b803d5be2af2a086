/// Hidden Token Attribution of a model of MiniLM's shape: merged Jacobians, and every layer as it is.
#include <nullscope/hidden_token_attribution.hpp>
#include <nullscope/transformer.hpp>

#include "bench/core/harness.hpp"
#include "bench/model/minilm.hpp"

namespace nullscope::bench {
namespace {

constexpr std::int64_t vocabulary = 1000;

struct attribution_data {
  attribution_data(context& context, std::int64_t tokens, attribution_options given)
      : ctx(context), model(context, minilm_shape(vocabulary, tokens)), options(std::move(given)) {
    model.initialise(ctx, 1, transformer<float>::initialisation::bert);
    token_batch::sequence sequence;
    for (std::int64_t i = 0; i < tokens; ++i) sequence.ids.push_back(static_cast<std::int32_t>(i * 37 % vocabulary));
    batch.emplace(ctx, model.config(), std::span(&sequence, 1));
  }

  void run(jacobian_merging merging) {
    options.merging = merging;
    result = hidden_token_attribution(ctx, model, *batch, options)[0];
  }

  context& ctx;
  transformer<float> model;
  attribution_options options;
  std::optional<token_batch> batch;
  attribution result, reference;
};

/// Contributions of the paths agree, and rows sum to one.
void verify(attribution_data& d, report& report) {
  if (d.reference.norm.empty()) d.reference = d.result;
  const std::vector<float> got(d.result.contribution.begin(), d.result.contribution.end());
  report.residual("contribution", scaled_residual<float>(got, d.reference.contribution, d.model.config().width), 10);
  std::vector<float> sums;
  const auto s = static_cast<std::size_t>(d.result.tokens);
  for (std::size_t row = 0; row < got.size(); row += s) {
    double sum = 0;
    for (std::size_t i = row; i < row + s; ++i) sum += d.result.contribution[i];
    sums.push_back(static_cast<float>(sum));
  }
  report.residual("row_sums", scaled_residual<float>(sums, std::vector<double>(sums.size(), 1.0), 1), 10);
}

void add_attribution(suite& suite, std::int64_t tokens, std::int64_t samples, std::vector<std::int64_t> layers) {
  attribution_options options;
  options.samples = samples;
  options.layers = std::move(layers);
  const transformer_config config = minilm_shape(vocabulary, tokens);
  auto& added =
      suite
          .add({.operation = options.layers.empty() ? "hta" : "hta_last_layer",
                .type = "f32",
                .sizes = {{"layers", config.layers}, {"d", config.width}, {"s", tokens}, {"samples", samples}},
                .flops = attribution_flops(config, tokens, options),
                .bytes = 0},
               [=](context& ctx) { return attribution_data(ctx, tokens, options); })
          .path("sycl", [](attribution_data& d) { d.run(jacobian_merging::automatic); })
          .clear([](attribution_data& d) { d.result = {}; })
          .verify(verify);
  if (options.layers.empty()) added.path("plain", [](attribution_data& d) { d.run(jacobian_merging::never); });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "Hidden Token Attribution: exact and estimated", [](suite& suite) {
    add_attribution(suite, 32, 0, {});
    add_attribution(suite, 32, 0, {6});
    add_attribution(suite, 128, 16, {});
  });
}
