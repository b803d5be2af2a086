/// Fits of surrogates: SLALOM by least squares and by SGD on the same samples, many fits and many texts at once against
/// one by one, and linear fits against LAPACK.
#include <algorithm>
#include <nullscope/explain/explanations.hpp>
#include <nullscope/explain/slalom.hpp>
#include <nullscope/linalg/random.hpp>
#include "lib/src/studies/synthetic_experiments.hpp"

#include "bench/core/harness.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_cblas.h>
#include <mkl_lapacke.h>
#endif

namespace nullscope::bench {
namespace {

/// `samples` random pairs of tokens with the scores of a random SLALOM, and noise.
slalom_queries noisy_pairs(std::int64_t tokens, std::int64_t samples, std::uint64_t seed) {
  slalom_queries queries(tokens);
  for (std::int64_t i = 0; i < samples; ++i) {
    std::int32_t pair[2];
    for (int k = 0; k < 2; ++k) {
      pair[k] = static_cast<std::int32_t>(uniform_at<double>({seed, 1}, 2 * i + k) * static_cast<double>(tokens));
    }
    queries.add(pair);
  }
  queries.targets = predict(random_slalom(tokens, seed), queries);
  for (std::size_t i = 0; i < queries.targets.size(); ++i) {
    queries.targets[i] += 0.1 * normal_at<double>({seed, 2}, static_cast<std::int64_t>(i));
  }
  return queries;
}

struct slalom_data {
  context& ctx;
  std::vector<slalom_queries> problems;
  std::vector<slalom_model> found = {};
};

/// The noise has variance 0.01: a fit that is much worse has not converged.
void verify_fits(slalom_data& d, report& found) {
  double worst = d.found.size() == d.problems.size() ? 0 : INFINITY;
  for (const slalom_model& model : d.found) worst = worse(worst, model.mean_squared_error);
  found.residual("mse", worst, 0.02);
}

void add_fits(suite& all) {
  for (const auto& [tokens, samples] : {std::pair<std::int64_t, std::int64_t>{50, 5000}, {200, 5000}, {400, 10000}}) {
    const auto data = [tokens = tokens, samples = samples](context& ctx) {
      return slalom_data{ctx, {noisy_pairs(tokens, samples, 1)}};
    };
    // Least squares, beside the paper's SGD.
    all.add({.operation = "slalom_fit", .type = "f64", .sizes = {{"tokens", tokens}, {"samples", samples}}}, data)
        .path("sycl", [](slalom_data& d) { d.found = fit_slalom(d.ctx, d.problems, {.errors = false}); })
        .path("plain", [](slalom_data& d) { d.found = fit_slalom(d.ctx, d.problems, {.method = slalom_method::sgd}); })
        .clear([](slalom_data& d) { d.found.clear(); })
        .verify(verify_fits);
    all.add({.operation = "slalom_fit_with_errors", .type = "f64", .sizes = {{"tokens", tokens}, {"samples", samples}}},
            data)
        .path("sycl", [](slalom_data& d) { d.found = fit_slalom(d.ctx, d.problems); })
        .clear([](slalom_data& d) { d.found.clear(); })
        .verify(verify_fits);
  }
  all.add({.operation = "slalom_batch", .type = "f64", .sizes = {{"fits", 100}, {"tokens", 20}, {"samples", 400}}},
          [](context& ctx) {
            slalom_data d{ctx, {}};
            for (std::uint64_t seed = 1; seed <= 100; ++seed) d.problems.push_back(noisy_pairs(20, 400, seed));
            return d;
          })
      .path("sycl", [](slalom_data& d) { d.found = fit_slalom(d.ctx, d.problems); })
      .path("plain",
            [](slalom_data& d) {
              for (const slalom_queries& problem : d.problems) d.found.push_back(fit_slalom(d.ctx, {&problem, 1})[0]);
            })
      .clear([](slalom_data& d) { d.found.clear(); })
      .verify(verify_fits);
}

struct explain_data {
  context& ctx;
  std::unique_ptr<transformer<float>> network;
  std::vector<explained_text> texts;
  explain_options options;
  std::vector<explanation> found = {};
};

/// Texts of 4 to 12 tokens for a random classifier of six layers.
explain_data short_texts(context& ctx, std::int64_t count, std::int64_t samples) {
  transformer_config config;
  config.layers = 6, config.width = 384, config.heads = 12, config.key_size = config.value_size = 32;
  config.feed_forward = 1536, config.vocabulary = 500, config.positions = 32, config.classes = 2;
  config.function = activation::gelu;
  explain_data d{ctx, std::make_unique<transformer<float>>(ctx, config), {}, {.samples = samples}};
  d.network->initialise(ctx, 1);
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    explained_text text{.ids = {0}, .special = {1}};
    for (std::int64_t k = 0; k < 4 + i % 9; ++k) {
      text.ids.push_back(static_cast<std::int32_t>(1 + 499 * uniform_at<double>({2, 0}, next++)));
      text.special.push_back(0);
    }
    d.texts.push_back(std::move(text));
  }
  return d;
}

void add_explanations(suite& all) {
  constexpr std::int64_t count = 100, samples = 50;
  all.add({.operation = "explain", .type = "f32", .sizes = {{"texts", count}, {"samples", samples}}},
          [](context& ctx) { return short_texts(ctx, count, samples); })
      .path("sycl",
            [](explain_data& d) {
              d.found = explain(d.ctx, explained_transformer(d.ctx, *d.network), d.texts, d.options);
            })
      .path("plain",
            [](explain_data& d) {
              const explained_model model = explained_transformer(d.ctx, *d.network);
              for (const explained_text& text : d.texts) {
                d.found.push_back(explain(d.ctx, model, {&text, 1}, d.options)[0]);
              }
            })
      .clear([](explain_data& d) { d.found.clear(); })
      .verify([](explain_data& d, report& found) {
        double worst = d.found.size() == d.texts.size() ? 0 : INFINITY;
        for (const explanation& one : d.found) worst = worse(worst, one.fit_error / (1 + one.score * one.score));
        found.residual("mse", worst, 1);
      });
}

struct linear_data {
  context& ctx;
  linear_samples samples;
  linear_surrogate found = {};
};

#ifdef NULLSCOPE_HAS_ONEMKL
/// x^T x + ridge and x^T y by BLAS, solved by Cholesky; x already has a column of ones.
void fit_by_lapack(linear_data& d) {
  const std::int64_t m = d.samples.size(), n = d.samples.features;
  std::vector<double> gram(static_cast<std::size_t>(n * n)), w(static_cast<std::size_t>(n));
  cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, n, m, 1, d.samples.rows.data(), n, 0, gram.data(), n);
  cblas_dgemv(CblasRowMajor, CblasTrans, m, n, 1, d.samples.rows.data(), n, d.samples.targets.data(), 1, 0, w.data(),
              1);
  for (std::int64_t j = 0; j < n; ++j) gram[static_cast<std::size_t>(j * n + j)] += 1;
  LAPACKE_dposv(LAPACK_ROW_MAJOR, 'U', n, 1, gram.data(), n, w.data(), 1);
  d.found.coefficients = w;
}
#endif

void add_linear_fits(suite& all) {
  constexpr std::int64_t samples = 5000, features = 200;
  all.add({.operation = "linear_fit",
           .type = "f64",
           .sizes = {{"samples", samples}, {"features", features}},
           .flops = 1.0 * samples * features * features,
           .bytes = 8.0 * samples * features},
          [](context& ctx) {
            linear_data d{ctx, {.features = features}};
            for (const double x : random_numbers<double>(samples * features, 1))
              d.samples.rows.push_back(x > 0 ? 1 : 0);
            d.samples.targets = random_numbers<double>(samples, 2);
            return d;
          })
      .path("sycl",
            [](linear_data& d) {
              d.found = fit_linear(d.ctx, {&d.samples, 1}, {.ridge = 1, .intercept = false})[0];
            })
#ifdef NULLSCOPE_HAS_ONEMKL
      .path("onemkl", fit_by_lapack)
#endif
      .clear([](linear_data& d) { d.found = {}; })
      .verify([](linear_data& d, report& found) {
        const std::vector<double> guesses = predict(d.found, d.samples);
        double worst = guesses.empty() ? INFINITY : 0;
        for (std::size_t j = 0; j < d.found.coefficients.size(); ++j) {  // the gradient vanishes
          double pull = -d.found.coefficients[j];
          for (std::size_t i = 0; i < guesses.size(); ++i) {
            pull += d.samples.rows[i * features + j] * (d.samples.targets[i] - guesses[i]);
          }
          worst = worse(worst, std::abs(pull));
        }
        found.residual("gradient", worst, 1e-9);
      });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  return nullscope::bench::run(argc, argv, "Fits of surrogates: SLALOM and linear models",
                               [](nullscope::bench::suite& suite) {
                                 nullscope::bench::add_fits(suite);
                                 nullscope::bench::add_explanations(suite);
                                 nullscope::bench::add_linear_fits(suite);
                               });
}
