/// The transformer at the size of MiniLM: forward, with gradients, and with a step of Adam, beside the matrix products
/// alone by oneMKL, which are the least that each of them must do.
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/model/transformer.hpp>
#include <nullscope/training/training.hpp>

#include "bench/core/harness.hpp"
#include "bench/model/minilm.hpp"

namespace nullscope::bench {
namespace {

enum class work_kind { forward, gradients, step };

transformer_config minilm() {
  transformer_config config = minilm_shape(30522, 512);
  config.segments = 2;
  return config;
}

std::vector<token_batch::sequence> random_sequences(const transformer_config& config, std::int64_t batch,
                                                    std::int64_t tokens) {
  std::vector<token_batch::sequence> sequences(static_cast<std::size_t>(batch));
  std::uint64_t state = 1;
  for (token_batch::sequence& sequence : sequences) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sequence.ids.push_back(static_cast<std::int32_t>((state >> 33) % static_cast<std::uint64_t>(config.vocabulary)));
    }
  }
  return sequences;
}

struct transformer_data {
  transformer_data(context& context, work_kind what, std::int64_t batch, std::int64_t tokens)
      : ctx(context),
        kind(what),
        model(ctx, minilm()),
        sequences(random_sequences(model.config(), batch, tokens)),
        ids(ctx, model.config(), sequences),
        hidden(ctx, {model.config().layers + 1, batch, tokens, model.config().width}) {
    model.initialise(ctx, 1, transformer<float>::initialisation::bert);
    if (kind == work_kind::forward) return;
    const std::int64_t n = model.values().size();
    record.emplace(ctx, model.config(), batch, tokens, keep::backward);
    gradient = tensor<float>(ctx, {n});
    first = tensor<float>(ctx, {n}, std::vector<float>(static_cast<std::size_t>(n)));
    second = tensor<float>(ctx, {n}, std::vector<float>(static_cast<std::size_t>(n)));
    d_hidden = tensor<float>(ctx, {batch, tokens, model.config().width},
                             random_numbers<float>(batch * tokens * model.config().width, 2));
  }

  void run() {
    if (kind == work_kind::forward) {
      forward(ctx, model, ids, {.hidden = hidden}).wait();
      return;
    }
    const forward_options<float> options{.record = &*record};
    operation op(ctx, "step");
    ctx.queue().fill(gradient.data(), 0.f, gradient.span().size());
    forward(ctx, model, ids, {}, options);
    backward(ctx, model, ids, {.d_last_hidden = d_hidden}, {.d_parameters = gradient}, options);
    if (kind == work_kind::step) adam(ctx, {gradient}, {model.values(), first, second}, {.learning_rate = 0});
    op.submit().wait();
  }

  /// The products of the linear layers.
  void run_products() {
    const transformer_config& c = model.config();
    const std::int64_t rows = ids.size() * ids.tokens();
    const auto sizes = {std::pair(c.width, 3 * c.width), std::pair(c.width, c.width),
                        std::pair(c.width, c.feed_forward), std::pair(c.feed_forward, c.width)};
    if (x.size() == 0) x = tensor<float>(ctx, {rows, c.feed_forward}), y = tensor<float>(ctx, {rows, c.feed_forward});
    const gemm_options options{.path = gemm_path::vendor};
    for (std::int64_t layer = 0; layer < c.layers; ++layer) {
      for (const auto& [in, out] : sizes) {
        const auto a = contiguous(x.data(), 1, rows, in), b = contiguous(y.data(), 1, rows, out);
        const auto w = contiguous(model.values().data(), 1, out, in);
        gemm(ctx, gemm_operands<float>{a, transposed(w)}, b, options);
        if (kind == work_kind::forward) continue;
        gemm(ctx, gemm_operands<float>{b, w}, a, options);
        gemm(ctx, gemm_operands<float>{transposed(b), a}, contiguous(hidden.data(), 1, out, in), options);
      }
    }
    ctx.queue().wait();
  }

  context& ctx;
  work_kind kind;
  transformer<float> model;
  std::vector<token_batch::sequence> sequences;
  token_batch ids;
  tensor<float> hidden, gradient, first, second, d_hidden, x, y;
  std::optional<forward_record<float>> record;
};

/// The last hidden state in float against the same model in double.
void verify(transformer_data& d, report& report) {
  if (report.path() != "sycl") return;
  const transformer_config& config = d.model.config();
  transformer<double> exact(d.ctx, config);
  const std::vector<float> values = d.model.values().to_host();
  exact.values().copy_from(std::vector<double>(values.begin(), values.end()));
  const std::int64_t layers = config.layers, b = d.ids.size(), s = d.ids.tokens();
  tensor<double> expected(d.ctx, {layers + 1, b, s, config.width});
  forward(d.ctx, exact, d.ids, {.hidden = expected});
  forward(d.ctx, d.model, d.ids, {.hidden = d.hidden}).wait();
  report.residual("residual", scaled_residual(d.hidden.to_host(), expected.to_host(), layers), 10);
}

}  // namespace

void add_transformer(suite& suite, work_kind kind, std::int64_t batch, std::int64_t tokens) {
  const transformer_config c = minilm();
  const double rows = static_cast<double>(batch * tokens), d = static_cast<double>(c.width);
  const double products = rows * (8 * d * d + 4 * d * static_cast<double>(c.feed_forward));
  const double attention = 4 * rows * static_cast<double>(tokens) * d;
  const double forward_flops = static_cast<double>(c.layers) * (products + attention);
  const char* names[] = {"transformer_forward", "transformer_gradients", "transformer_step"};
  auto& added = suite.add({.operation = names[static_cast<int>(kind)],
                           .type = "f32",
                           .sizes = {{"batch", batch}, {"s", tokens}},
                           .flops = kind == work_kind::forward ? forward_flops : 3 * forward_flops,
                           .bytes = 4.0 * static_cast<double>(c.layers) * 12 * d * d},
                          [=](context& ctx) { return transformer_data(ctx, kind, batch, tokens); });
  added.path("sycl", [](transformer_data& data) { data.run(); }).verify(verify);
#ifdef NULLSCOPE_HAS_ONEMKL
  added.path("onemkl", [](transformer_data& data) { data.run_products(); });
#endif
}

}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "the transformer at the size of MiniLM", [](suite& suite) {
    for (const work_kind kind : {work_kind::forward, work_kind::gradients, work_kind::step}) {
      add_transformer(suite, kind, 8, 128);
    }
  });
}
