/// Hidden Token Attribution against finite differences, for every kind of model; chunks, merging, padding and sampling.
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <nullscope/attribution/jacobian.hpp>
#include <nullscope/linalg/svd.hpp>

#include "tests/attribution/attribution_support.hpp"

namespace nullscope::test {
namespace {

class hidden_token_attribution_test : public device_test {
 protected:
  void SetUp() override {
    if (!has_fp64()) GTEST_SKIP() << "finite differences need double";
  }
};

INSTANTIATE_TEST_SUITE_P(devices, hidden_token_attribution_test, testing::ValuesIn(devices()), device_name);

/// norms[b] (layers, S_b, S_b) by finite differences; `sum`: of the gradient of the sum of the outputs.
std::vector<std::vector<double>> difference_norms(context& ctx, const transformer<double>& model,
                                                  const token_batch& batch, bool sum) {
  const std::vector<double> inputs = embedded(ctx, model, batch);
  const std::int64_t layers = model.config().layers, count = batch.size(), padded = batch.tokens(),
                     d = model.config().width;
  std::vector<std::vector<double>> result;
  for (const std::int64_t s : batch.lengths()) result.emplace_back(static_cast<std::size_t>(layers * s * s));
  for (std::int64_t i = 0; i < padded; ++i) {
    for (std::int64_t c = 0; c < d; ++c) {
      const std::vector<double> derivative = difference(ctx, model, batch, inputs, i, c);
      for (std::int64_t b = 0; b < count; ++b) {
        const std::int64_t s = batch.lengths()[static_cast<std::size_t>(b)];
        for (std::int64_t row = 0; i < s && row < layers * s; ++row) {
          const std::int64_t l = row / s, j = row % s;
          double total = 0, squares = 0;
          for (std::int64_t e = 0; e < d; ++e) {
            const double x = derivative[static_cast<std::size_t>((((l + 1) * count + b) * padded + j) * d + e)];
            total += x;
            squares += x * x;
          }
          result[static_cast<std::size_t>(b)][static_cast<std::size_t>(row * s + i)] += sum ? total * total : squares;
        }
      }
    }
  }
  for (auto& norms : result) {
    for (double& x : norms) x = std::sqrt(x);
  }
  return result;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

TEST_P(hidden_token_attribution_test, agrees_with_finite_differences_for_every_kind_of_model) {
  for (const auto& [name, config] : attribution_kinds()) {
    SCOPED_TRACE(name);
    const transformer<double> model = random_model<double>(ctx_, config);
    const token_batch batch(ctx_, config, attribution_sequences());
    for (const bool sum : {false, true}) {
      const auto expected = difference_norms(ctx_, model, batch, sum);
      for (const auto merging : {jacobian_merging::never, jacobian_merging::always}) {
        SCOPED_TRACE(testing::Message() << (sum ? "sum" : "frobenius") << " merging " << static_cast<int>(merging));
        const auto got = hidden_token_attribution(
            ctx_, model, batch,
            {.norm = sum ? attribution_norm::sum : attribution_norm::frobenius, .merging = merging});
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t b = 0; b < got.size(); ++b) {
          SCOPED_TRACE(testing::Message() << "sequence " << b);
          expect_near(got[b].norm, expected[b], 1e-7);
          const auto s = static_cast<std::size_t>(got[b].tokens);
          for (std::size_t row = 0; row < got[b].norm.size(); row += s) {
            double total = 0;
            for (std::size_t i = row; i < row + s; ++i) total += got[b].contribution[i];
            EXPECT_NEAR(total, 1, 1e-12);
            const std::size_t j = row / s % s;
            for (std::size_t i = j + 1; config.causal && i < s; ++i) EXPECT_EQ(got[b].norm[row + i], 0);
          }
        }
      }
    }
  }
}

TEST_P(hidden_token_attribution_test, the_spectral_norm_is_the_largest_singular_value_of_the_block) {
  const transformer_config config = attribution_kinds()[0].config;
  const transformer<double> model = random_model<double>(ctx_, config);
  const token_batch batch(ctx_, config, attribution_sequences());
  const auto got = hidden_token_attribution(
      ctx_, model, batch, {.norm = attribution_norm::spectral, .layers = {2, 3}, .power_iterations = 300});
  std::vector<jacobian_block> blocks;
  for (std::int64_t j = 0; j < 4; ++j) {
    for (std::int64_t i = 0; i < 4; ++i) blocks.push_back({2, 3, j, i});
  }
  const tensor<double> dense = jacobian_blocks(ctx_, model, batch, blocks);
  tensor<double> values(ctx_, {16, config.width});
  tensor<std::int32_t> status(ctx_, {16});
  svd(ctx_, dense, {.s = values, .u = {}, .vt = {}, .status = status}, {.vectors = svd_vectors::none}).wait_and_throw();
  const std::vector<double> sigma = values.to_host();
  for (std::size_t n = 0; n < 16; ++n) {
    EXPECT_NEAR(got[2].norm[16 + n], sigma[n * 10], 1e-6 * sigma[n * 10]) << "block " << n;
  }
  EXPECT_LT(got[2].residual, 1e-3);
  EXPECT_GT(got[2].residual, 0);
}

TEST_P(hidden_token_attribution_test, a_padded_batch_equals_sequences_alone) {
  for (const auto& [kind, samples] : {std::pair(0, 0), std::pair(0, 3), std::pair(1, 0), std::pair(1, 3)}) {
    const transformer_config config = attribution_kinds()[static_cast<std::size_t>(kind)].config;
    const transformer<double> model = random_model<double>(ctx_, config);
    const std::vector<token_batch::sequence> all = attribution_sequences();
    const auto together =
        hidden_token_attribution(ctx_, model, token_batch(ctx_, config, all), {.samples = samples, .seed = 3});
    for (std::size_t b = 0; b < all.size(); ++b) {
      const auto alone =
          hidden_token_attribution(ctx_, model, token_batch(ctx_, config, std::span(&all[b], 1)),
                                   {.samples = samples, .seed = 3, .numbers = {static_cast<std::int64_t>(b)}});
      expect_near(alone[0].norm, together[b].norm, 1e-12);
      expect_near(alone[0].standard_error, together[b].standard_error, 1e-12);
    }
  }
}

TEST_P(hidden_token_attribution_test, any_budget_gives_the_same_and_one_that_is_too_small_says_so) {
  for (const auto& [name, config] : attribution_kinds()) {
    SCOPED_TRACE(name);
    const transformer<double> model = random_model<double>(ctx_, config);
    const token_batch batch(ctx_, config, attribution_sequences());
    const auto all = hidden_token_attribution(ctx_, model, batch);
    const std::string message =
        message_of<invalid_argument>([&] { hidden_token_attribution(ctx_, model, batch, {.memory = 1000}); });
    ASSERT_NE(message.find("a budget of 1000 bytes is too small for one tangent per sequence; the least is "),
              std::string::npos)
        << message;
    const std::int64_t needed = std::stoll(message.substr(message.rfind(' ') + 1));
    int calls = 0;
    const auto tight = hidden_token_attribution(
        ctx_, model, batch,
        {.memory = needed + needed / 4, .merging = jacobian_merging::never, .progress = [&](double) { ++calls; }});
    EXPECT_GT(calls, 1);
    for (std::size_t b = 0; b < all.size(); ++b) expect_near(tight[b].norm, all[b].norm, 1e-12);
  }
}

TEST_P(hidden_token_attribution_test, layers_chain_by_the_product_of_their_jacobians) {
  const transformer_config config = attribution_kinds()[1].config;
  const transformer<double> model = random_model<double>(ctx_, config);
  const token_batch batch(ctx_, config, attribution_sequences());
  constexpr std::int64_t s = 4, d = 10, j = 3;
  const auto blocks = [&](std::int64_t from, std::int64_t layer) {
    std::vector<jacobian_block> all;
    for (std::int64_t row = 0; row < s; ++row) {
      for (std::int64_t i = 0; i < s; ++i) all.push_back({2, layer, row, i});
    }
    return jacobian_blocks(ctx_, model, batch, all, {.from = from}).to_host();
  };
  const std::vector<double> whole = blocks(-1, 3), lower = blocks(-1, 1), upper = blocks(1, 3);
  const auto at = [&](const std::vector<double>& x, std::int64_t row, std::int64_t i, std::int64_t e, std::int64_t c) {
    return x[static_cast<std::size_t>(((row * s + i) * d + e) * d + c)];
  };
  for (std::int64_t i = 0; i < s; ++i) {
    for (std::int64_t e = 0; e < d; ++e) {
      for (std::int64_t c = 0; c < d; ++c) {
        double sum = 0;
        for (std::int64_t m = 0; m < s * d; ++m) sum += at(upper, j, m / d, e, m % d) * at(lower, m / d, i, m % d, c);
        EXPECT_NEAR(at(whole, j, i, e, c), sum, 1e-10);
      }
    }
  }
}

TEST_P(hidden_token_attribution_test, estimates_are_unbiased_and_their_errors_calibrated) {
  const transformer_config config = attribution_kinds()[0].config;
  const transformer<double> model = random_model<double>(ctx_, config);
  const std::vector<token_batch::sequence> one{attribution_sequences()[2]};
  const token_batch batch(ctx_, config, one);
  const attribution exact = hidden_token_attribution(ctx_, model, batch, {.layers = {2}})[0];
  constexpr int seeds = 400;
  // Of 8 of 10 directions little is left to chance: errors without the finite-population factor would be twice too
  // large.
  for (const std::int64_t samples : {5, 8}) {
    SCOPED_TRACE(samples);
    std::vector<double> mean(exact.norm.size()), mean_c(mean.size()), variance(mean.size()), stated(mean.size());
    int covered = 0;
    for (int seed = 0; seed < seeds; ++seed) {
      const attribution got = hidden_token_attribution(
          ctx_, model, batch, {.samples = samples, .seed = static_cast<std::uint64_t>(seed), .layers = {2}})[0];
      for (std::size_t n = 0; n < mean.size(); ++n) {
        const double error = got.contribution[n] - exact.contribution[n];
        mean[n] += got.norm[n] * got.norm[n] / seeds;
        mean_c[n] += error / seeds;
        variance[n] += error * error / seeds;
        stated[n] += got.standard_error[n] * got.standard_error[n] / seeds;
        covered += std::abs(error) < 2 * got.standard_error[n];
      }
    }
    for (std::size_t n = 0; n < mean.size(); ++n) {
      EXPECT_NEAR(mean[n] / (exact.norm[n] * exact.norm[n]), 1, 0.1) << n;
      EXPECT_LT(std::abs(mean_c[n]), 0.1 * exact.contribution[n] + 3 * std::sqrt(variance[n] / seeds)) << n;
      EXPECT_NEAR(std::sqrt(stated[n] / variance[n]), 1, 0.35) << n;
    }
    // Two standard errors from a few samples: fewer than the 95 % of a normal distribution, but most.
    EXPECT_GT(covered, 0.8 * seeds * static_cast<double>(mean.size()));
    EXPECT_LT(covered, 0.99 * seeds * static_cast<double>(mean.size()));
  }
}

TEST_P(hidden_token_attribution_test, all_directions_are_exact_and_one_has_no_error) {
  const transformer_config config = attribution_kinds()[1].config;
  const transformer<double> model = random_model<double>(ctx_, config);
  const token_batch batch(ctx_, config, attribution_sequences());
  const auto exact = hidden_token_attribution(ctx_, model, batch);
  const auto all = hidden_token_attribution(ctx_, model, batch, {.samples = config.width});
  for (std::size_t b = 0; b < exact.size(); ++b) expect_near(all[b].norm, exact[b].norm, 1e-12);
  EXPECT_TRUE(hidden_token_attribution(ctx_, model, batch, {.samples = 1})[0].standard_error.empty());
}

/// |a - b| / |b|, as vectors.
double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t n = 0; n < b.size(); ++n) {
    difference += (a[n] - b[n]) * (a[n] - b[n]);
    size += b[n] * b[n];
  }
  return std::sqrt(difference / size);
}

TEST_P(hidden_token_attribution_test, rounded_products_lose_what_bfloat16_loses) {
  for (const auto& [name, config] : attribution_kinds()) {
    SCOPED_TRACE(name);
    const transformer<float> model = random_model<float>(ctx_, config);
    const token_batch batch(ctx_, config, attribution_sequences());
    for (const auto merging : {jacobian_merging::never, jacobian_merging::always}) {
      SCOPED_TRACE(static_cast<int>(merging));
      const auto whole = hidden_token_attribution(ctx_, model, batch, {.merging = merging});
      const auto rounded = hidden_token_attribution(ctx_, model, batch, {.merging = merging, .rounded_products = true});
      // Two factors of each product are off by up to 2^-9; a tangent passes up to five products per layer.
      const double bound = 10 * std::exp2(-9) * static_cast<double>(config.layers);
      for (std::size_t b = 0; b < whole.size(); ++b) {
        const double distance = relative_distance(rounded[b].norm, whole[b].norm);
        EXPECT_LT(distance, bound) << "sequence " << b;
        EXPECT_GT(distance, std::exp2(-16)) << "sequence " << b << ": nothing was rounded";
      }
    }
  }
}

TEST_P(hidden_token_attribution_test, words_gather_the_squares_of_their_tokens) {
  attribution of;
  of.tokens = 4;
  of.layers = {1};
  for (int n = 0; n < 16; ++n) of.norm.push_back(n);
  const attribution words = aggregate_words(of, std::vector<std::int32_t>{-1, 0, 0, -1});
  EXPECT_EQ(words.tokens, 3);
  EXPECT_NEAR(words.norm[4], std::sqrt(5. * 5 + 6 * 6 + 9 * 9 + 10 * 10), 1e-12);
  EXPECT_NEAR(words.norm[2], 3, 1e-12);
  EXPECT_NEAR(words.contribution[0] + words.contribution[1] + words.contribution[2], 1, 1e-12);
  EXPECT_EQ(message_of<invalid_argument>([&] { aggregate_words(of, std::vector<std::int32_t>{0}); }),
            "aggregate_words: 1 words for 4 tokens");
}

TEST_P(hidden_token_attribution_test, refuses_options_that_cannot_be) {
  const transformer_config config = attribution_kinds()[0].config;
  const transformer<double> model = random_model<double>(ctx_, config);
  const token_batch batch(ctx_, config, attribution_sequences());
  const auto message = [&](const attribution_options& options) {
    return message_of<invalid_argument>([&] { hidden_token_attribution(ctx_, model, batch, options); });
  };
  EXPECT_EQ(message({.samples = 11}),
            "hidden_token_attribution: samples is 11; it must be from 0, for all, to the width 10");
  EXPECT_EQ(message({.layers = {2, 2}}), "hidden_token_attribution: layers must be ascending, from 1 to 3; got 2");
  EXPECT_EQ(message({.layers = {4}}), "hidden_token_attribution: layers must be ascending, from 1 to 3; got 4");
  EXPECT_EQ(message({.from = 3}), "hidden_token_attribution: from is 3; it must be -1 or a hidden state from 0 to 2");
  EXPECT_EQ(message({.rounded_products = true}), "hidden_token_attribution: rounded_products are for models of float");
  EXPECT_EQ(message({.norm = attribution_norm::spectral, .samples = 2}),
            "hidden_token_attribution: the spectral norm cannot be estimated from samples");
}

}  // namespace
}  // namespace nullscope::test
