/// Probes of token identifiability: an epoch of training of all layers and folds side by side, against the same probes
/// one after the other by oneMKL and plain loops on all threads; exact fits against LAPACK. Sizes of MiniLM: d = 384.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <nullscope/linalg/qr.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/probes/token_identifiability.hpp>
#include <numeric>

#include "bench/core/harness.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_cblas.h>
#include <mkl_lapacke.h>
#endif

namespace nullscope::bench {
namespace {

constexpr std::int64_t width = 384, batch = 256, sentence = 50;

struct probe_sizes {
  std::int64_t tokens, layers, folds, hidden;  ///< hidden 0: the linear map

  double parameters() const { return static_cast<double>(hidden > 0 ? 2 * width * hidden : width * width); }
  /// Output and gradient of the parameters, and of the hidden units; the loss of the validation.
  double flops() const {
    const double n = static_cast<double>(tokens * layers * folds);
    return n * parameters() * (0.7 * (hidden > 0 ? 5 : 4) + 0.15 * 2);
  }
};

struct probe_data {
  probe_data(context& ctx, const probe_sizes& sizes)
      : ctx(ctx),
        sizes(sizes),
        x(random_numbers<float>(sizes.tokens * width, 1)),
        e(random_numbers<float>(sizes.layers * sizes.tokens * width, 2)),
        sentences(static_cast<std::size_t>(sizes.tokens / sentence), sentence) {
    for (std::size_t i = 0; i < e.size(); ++i) e[i] += 0.5f * x[i % x.size()];  // something to learn
    inputs = tensor<float>(ctx, {sizes.tokens, width}, x);
    hidden = tensor<float>(ctx, {sizes.layers, sizes.tokens, width}, e);
  }

  context& ctx;
  probe_sizes sizes;
  std::vector<float> x, e;
  std::vector<std::int64_t> sentences;
  tensor<float> inputs, hidden;
  double loss = 0;  ///< of the validation: mean over probes
};

void run_sycl(probe_data& d) {
  identifiability_options options{.map = d.sizes.hidden > 0 ? probe_map::mlp : probe_map::linear};
  options.training = {.learning_rate = d.sizes.hidden > 0 ? 1e-3 : 0.01, .most_epochs = 1};
  if (d.sizes.hidden > 0) options.training.hidden_units = d.sizes.hidden;
  options.folds = d.sizes.folds;
  d.loss = 0;
  const auto found = token_identifiability(d.ctx, d.inputs, d.hidden, d.sentences, options);
  for (const identification& one : found) d.loss += one.validation_loss / static_cast<double>(found.size());
}

#ifdef NULLSCOPE_HAS_ONEMKL
void multiply(const float* a, bool a_transposed, const float* b, float* c, std::int64_t m, std::int64_t n,
              std::int64_t k) {
  cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans, CblasNoTrans, m, n, k, 1, a,
              a_transposed ? m : k, b, n, 0, c, n);
}

/// One linear probe with cosine loss, as the library trains it.
class linear_probe {
 public:
  linear_probe() : w_(random_numbers<float>(width * width, 3)), m_(w_.size()), v_(w_.size()), g_(w_.size()) {
    for (float& w : w_) w *= std::sqrt(6.f / (2 * width));
  }

  /// Mean loss of these tokens; a step of Adam if `learns`.
  double run(const float* e, const float* x, const std::int64_t* tokens, std::int64_t count, bool learns) {
    parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        std::memcpy(e_.data() + r * width, e + tokens[r] * width, width * sizeof(float));
      }
    });
    multiply(e_.data(), false, w_.data(), y_.data(), count, width, width);
    parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        rows_[r] = loss_of(y_.data() + r * width, x + tokens[r] * width, count);
    });
    if (learns) {
      multiply(e_.data(), true, y_.data(), g_.data(), width, width, count);
      update();
    }
    return std::accumulate(rows_, rows_ + count, 0.0);
  }

 private:
  static double loss_of(float* y, const float* x, std::int64_t count) {
    float product = 0, of_y = 0, of_x = 0;
    for (std::int64_t c = 0; c < width; ++c) {
      product += y[c] * x[c];
      of_y += y[c] * y[c];
      of_x += x[c] * x[c];
    }
    const float lengths = std::sqrt(of_y * of_x), scale = 1 / (lengths * static_cast<float>(count));
    for (std::int64_t c = 0; c < width; ++c) y[c] = scale * (product / of_y * y[c] - x[c]);
    return 1 - static_cast<double>(product / lengths);
  }

  void update() {
    ++step_;
    const float rate = 0.01f / (1 - std::pow(0.9f, step_)), root = 1 / std::sqrt(1 - std::pow(0.999f, step_));
    parallel_for(std::ssize(w_), [&](std::int64_t begin, std::int64_t end) {
      for (std::size_t i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        m_[i] = 0.9f * m_[i] + 0.1f * g_[i];
        v_[i] = 0.999f * v_[i] + 0.001f * g_[i] * g_[i];
        w_[i] -= rate * m_[i] / (std::sqrt(v_[i]) * root + 1e-8f);
      }
    });
  }

  std::vector<float> w_, m_, v_, g_, e_ = std::vector<float>(batch * width), y_ = e_;
  double rows_[batch];
  float step_ = 0;
};

void run_onemkl(probe_data& d) {
  d.loss = 0;
  const auto tokens_of = [](const std::vector<std::int64_t>& sentences) {
    std::vector<std::int64_t> tokens;
    for (const std::int64_t s : sentences) {
      for (std::int64_t i = 0; i < sentence; ++i) tokens.push_back(s * sentence + i);
    }
    return tokens;
  };
  for (std::int64_t fold = 0; fold < d.sizes.folds; ++fold) {
    const data_split split = fold_sentences(std::ssize(d.sentences), fold, d.sizes.folds, 1);
    std::vector<std::int64_t> training = tokens_of(split.training), validation = tokens_of(split.validation);
    for (std::size_t i = training.size() - 1; i > 0; --i) {
      std::swap(training[i], training[(i * 7919 + 13) % (i + 1)]);
    }
    for (std::int64_t layer = 0; layer < d.sizes.layers; ++layer) {
      linear_probe probe;
      double total = 0;
      const auto pass = [&](const std::vector<std::int64_t>& tokens, bool learns) {
        for (std::size_t i = 0; i < tokens.size(); i += batch) {
          total += probe.run(d.e.data() + layer * d.sizes.tokens * width, d.x.data(), tokens.data() + i,
                             std::min<std::int64_t>(batch, std::ssize(tokens) - static_cast<std::int64_t>(i)), learns);
        }
      };
      pass(training, true);
      total = 0;
      pass(validation, false);
      d.loss += total / static_cast<double>(validation.size()) / static_cast<double>(d.sizes.folds * d.sizes.layers);
    }
  }
}
#endif

void add_training(suite& all, const probe_sizes& sizes) {
  std::vector<std::pair<std::string, std::int64_t>> names{
      {"tokens", sizes.tokens}, {"layers", sizes.layers}, {"folds", sizes.folds}};
  if (sizes.hidden > 0) names.push_back({"hidden", sizes.hidden});
  [[maybe_unused]] auto& comparison =
      all.add({.operation = sizes.hidden > 0 ? "mlp_probes" : "linear_probes",
               .type = "f32",
               .sizes = names,
               .flops = sizes.flops(),
               .bytes = 4.0 * static_cast<double>((sizes.layers + 1) * sizes.tokens * width)},
              [sizes](context& ctx) { return probe_data(ctx, sizes); })
          .path("sycl", run_sycl)
          .clear([](probe_data& d) { d.loss = NAN; })
          // Untrained, the loss is 1.
          .verify([](probe_data& d, report& found) { found.residual("loss", d.loss, 0.98); });
#ifdef NULLSCOPE_HAS_ONEMKL
  if (sizes.hidden == 0) comparison.path("onemkl", run_onemkl);
#endif
}

struct fit_data {
  static constexpr std::int64_t problems = 6, rows = 7000;

  explicit fit_data(context& ctx)
      : ctx(ctx),
        a(random_numbers<float>(problems * rows * width, 1)),
        b(random_numbers<float>(problems * rows * width, 2)),
        device_a(ctx, {problems, rows, width}, a),
        device_b(ctx, {problems, rows, width}, b),
        device_x(ctx, {problems, width, width}) {}

  context& ctx;
  std::vector<float> a, b;
  tensor<float> device_a, device_b, device_x;
  std::vector<float> x;
};

/// Of the first column of the last problem: a^T (a x - b) in units of rounding.
void verify_fit(fit_data& d, report& found) {
  constexpr std::int64_t last = fit_data::problems - 1, rows = fit_data::rows;
  const float* a = d.a.data() + last * rows * width;
  std::vector<double> pull(width, 0.0);
  double scale = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    double residual = -static_cast<double>(d.b[static_cast<std::size_t>((last * rows + i) * width)]);
    for (std::int64_t j = 0; j < width; ++j) {
      residual += static_cast<double>(a[i * width + j]) *
                  static_cast<double>(d.x.at(static_cast<std::size_t>((last * width + j) * width)));
    }
    scale += residual * residual;
    for (std::int64_t j = 0; j < width; ++j) {
      pull[static_cast<std::size_t>(j)] += static_cast<double>(a[i * width + j]) * residual;
    }
  }
  double worst = 0;
  for (const double p : pull) worst = worse(worst, std::abs(p));
  found.residual("gradient", worst / (std::sqrt(scale * rows) * std::sqrt(width) * 0x1p-23), 10);
}

void add_fits(suite& all) {
  const double n = static_cast<double>(fit_data::problems), m = static_cast<double>(fit_data::rows), d = width;
  [[maybe_unused]] auto& comparison =
      all.add({.operation = "least_squares",
               .type = "f32",
               .sizes = {{"problems", fit_data::problems}, {"rows", fit_data::rows}, {"d", width}},
               .flops = n * (2 * m * d * d + 4 * m * d * d + d * d * d),
               .bytes = n * 4 * (2 * m * d + d * d)},
              [](context& ctx) { return fit_data(ctx); })
          .path("sycl",
                [](fit_data& data) {
                  least_squares(data.ctx, least_squares_operands<float>{data.device_a, data.device_b}, data.device_x)
                      .wait_and_throw();
                  data.x = data.device_x.to_host();
                })
          .clear([](fit_data& data) { data.x.clear(); })
          .verify(verify_fit);
#ifdef NULLSCOPE_HAS_ONEMKL
  comparison.path("onemkl", [](fit_data& data) {
    data.x.clear();
    for (std::int64_t p = 0; p < fit_data::problems; ++p) {
      const std::int64_t size = fit_data::rows * width;
      std::vector<float> a(data.a.begin() + p * size, data.a.begin() + (p + 1) * size),
          b(data.b.begin() + p * size, data.b.begin() + (p + 1) * size);
      LAPACKE_sgels(LAPACK_ROW_MAJOR, 'N', fit_data::rows, width, width, a.data(), width, b.data(), width);
      data.x.insert(data.x.end(), b.begin(), b.begin() + width * width);
    }
  });
#endif
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "Probes of token identifiability", [](suite& suite) {
    add_training(suite, {5000, 6, 10, 0});
    add_training(suite, {20000, 6, 10, 0});
    add_training(suite, {2500, 6, 2, 1000});
    add_fits(suite);
  });
}
