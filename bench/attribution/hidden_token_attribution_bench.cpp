/// Hidden Token Attribution of a model of MiniLM's shape: merged Jacobians beside every layer as it is, all layers
/// beside the last one alone, and the matrix products alone, which are the least that it must do.
///
/// NULLSCOPE_BENCH_LARGE=1 adds the sizes that docs/results.md quotes; some of them take a minute per call, so choose
/// among them with --benchmark_filter and --benchmark_repetitions.
#include <cstdlib>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <nullscope/attribution/jacobian.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/model/transformer.hpp>

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
  tensor<float> block;
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

enum class compared { with_plain, alone };

void add_attribution(suite& suite, const char* operation, std::int64_t tokens, const attribution_options& options,
                     compared how) {
  const transformer_config config = minilm_shape(vocabulary, tokens);
  auto& added =
      suite
          .add({.operation = operation,
                .type = "f32",
                .sizes = {{"layers", config.layers}, {"d", config.width}, {"s", tokens}, {"samples", options.samples}},
                .flops = attribution_flops(config, tokens, options),
                .bytes = 0},
               [=](context& ctx) { return attribution_data(ctx, tokens, options); })
          .path("sycl", [](attribution_data& d) { d.run(jacobian_merging::automatic); })
          .clear([](attribution_data& d) { d.result = {}; })
          .verify(verify);
  if (how == compared::with_plain) {
    added.path("plain", [](attribution_data& d) { d.run(jacobian_merging::never); });
  }
}

/// The tangents of one input token without merging: 1 / S of what all of them take.
void add_one_token(suite& suite, std::int64_t tokens) {
  const transformer_config config = minilm_shape(vocabulary, tokens);
  const attribution_options plain{.merging = jacobian_merging::never};
  suite
      .add({.operation = "hta_one_token",
            .type = "f32",
            .sizes = {{"layers", config.layers}, {"d", config.width}, {"s", tokens}},
            .flops = attribution_flops(config, tokens, plain) / static_cast<double>(tokens),
            .bytes = 0},
           [=](context& ctx) { return attribution_data(ctx, tokens, plain); })
      .path("sycl",
            [=](attribution_data& d) {
              const jacobian_block last{0, d.model.config().layers, tokens - 1, tokens / 2};
              d.block = jacobian_blocks(d.ctx, d.model, *d.batch, std::span(&last, 1));
            })
      .verify([](attribution_data& d, report& report) {
        double squares = 0;
        for (const float x : d.block.to_host()) squares += static_cast<double>(x) * static_cast<double>(x);
        report.residual("not_finite", std::isfinite(squares) && squares > 0 ? 0 : 1, 0.5);
      });
}

/// The products of an exact sweep with merged Jacobians, by the library's own choice of gemm.
struct product_data {
  product_data(context& context, std::int64_t length)
      : ctx(context),
        tokens(length),
        x(ctx, {rows(), c.width}),
        y(ctx, {rows(), 3 * c.width}),
        weights(ctx, {3 * c.width, c.width}),
        jacobians(ctx, {tokens, c.width, c.width}),
        up(ctx, {tokens, c.feed_forward, c.width}),
        down(ctx, {c.width, c.feed_forward}) {
    for (tensor<float>* each : {&x, &y, &weights, &jacobians, &up, &down}) {
      each->copy_from(std::vector<float>(static_cast<std::size_t>(each->size()), 1e-3f));
    }
  }

  /// Tangents at a time, as attribution chooses them: whole tokens, about 2^22 elements.
  std::int64_t slots() const { return c.width * std::max<std::int64_t>(1, (1 << 22) / (tokens * c.width * c.width)); }
  std::int64_t rows() const { return tokens * slots(); }

  void run() {
    for (std::int64_t layer = 0; layer < c.layers; ++layer) multiply(down, up, jacobians);
    for (std::int64_t first = 0; first < c.width * tokens; first += slots()) {
      for (std::int64_t layer = 0; layer < c.layers; ++layer) {
        const std::int64_t entering = layer == 0 ? slots() : rows();
        multiply(contiguous(x.data(), 1, entering, c.width), transposed(weights.as<2>()),
                 contiguous(y.data(), 1, entering, 3 * c.width));
        multiply(contiguous(x.data(), 1, rows(), c.width), transposed(slice(weights.as<2>(), 0, 0, c.width)),
                 contiguous(y.data(), 1, rows(), c.width));
        multiply(contiguous(x.data(), tokens, slots(), c.width), jacobians,
                 contiguous(y.data(), tokens, slots(), c.width));
      }
    }
    ctx.queue().wait();
  }

  void multiply(const view<const float, 3>& a, const view<const float, 3>& b, const view<float, 3>& to) {
    gemm(ctx, {a, b}, to);
  }

  context& ctx;
  std::int64_t tokens;
  transformer_config c = minilm_shape(vocabulary, 8);
  tensor<float> x, y, weights, jacobians, up, down;
};

void add_products(suite& suite, std::int64_t tokens) {
  const transformer_config config = minilm_shape(vocabulary, tokens);
  suite
      .add({.operation = "hta_products",
            .type = "f32",
            .sizes = {{"layers", config.layers}, {"d", config.width}, {"s", tokens}},
            .flops = attribution_flops(config, tokens, {}),
            .bytes = 0},
           [=](context& ctx) { return product_data(ctx, tokens); })
      .path("sycl", [](product_data& d) { d.run(); });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  using nullscope::attribution_options;
  return run(argc, argv, "Hidden Token Attribution: exact and estimated", [](suite& suite) {
    const bool is_large = std::getenv("NULLSCOPE_BENCH_LARGE") != nullptr;
    for (const std::int64_t tokens : is_large ? std::vector<std::int64_t>{6, 32} : std::vector<std::int64_t>{6}) {
      add_attribution(suite, "hta", tokens, {}, compared::with_plain);
      add_attribution(suite, "hta_last_layer", tokens, {.layers = {6}}, compared::alone);
      add_products(suite, tokens);
    }
    add_attribution(suite, "hta", 24, {.samples = 16}, compared::with_plain);
    if (!is_large) return;
    add_attribution(suite, "hta", 128, {.samples = 16}, compared::alone);
    add_one_token(suite, 128);
  });
}
