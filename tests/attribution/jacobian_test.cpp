/// Products with Jacobians: forward against finite differences, backward against forward.
#include <nullscope/attribution/jacobian.hpp>

#include "tests/attribution/attribution_support.hpp"

namespace nullscope::test {
namespace {

class jacobian_test : public device_test {
 protected:
  void SetUp() override {
    if (!has_fp64()) GTEST_SKIP() << "finite differences need double";
  }

  /// Numbers (vectors, batch, S, d), zeros beyond the length of each sequence.
  static std::vector<double> masked(const token_batch& batch, std::int64_t vectors, std::int64_t d,
                                    std::uint64_t seed) {
    const std::int64_t s = batch.tokens(), count = batch.size();
    std::vector<double> numbers = random_numbers<double>(vectors * count * s * d, seed);
    for (std::int64_t n = 0; n < vectors * count * s * d; ++n) {
      const std::int64_t token = n / d % s, b = n / d / s % count;
      if (token >= batch.lengths()[static_cast<std::size_t>(b)]) numbers[static_cast<std::size_t>(n)] = 0;
    }
    return numbers;
  }
};

INSTANTIATE_TEST_SUITE_P(devices, jacobian_test, testing::ValuesIn(devices()), device_name);

TEST_P(jacobian_test, forward_products_agree_with_finite_differences_and_with_backward_ones) {
  constexpr std::int64_t vectors = 3;
  for (const auto& [name, config] : attribution_kinds()) {
    SCOPED_TRACE(name);
    const transformer<double> model = random_model<double>(ctx_, config);
    const token_batch batch(ctx_, config, attribution_sequences());
    const std::int64_t b = batch.size(), s = batch.tokens(), d = config.width, size = b * s * d;
    forward_record<double> record(ctx_, config, b, s, keep::backward);
    forward(ctx_, model, batch, {}, {.record = &record}).wait_and_throw();
    const std::vector<double> v = masked(batch, vectors, d, 17), u = masked(batch, vectors, d, 19);
    const tensor<double> d_inputs(ctx_, {vectors, b, s, d}, v), d_last(ctx_, {vectors, b, s, d}, u);
    tensor<double> d_hidden(ctx_, {vectors, b, s, d}), gradient(ctx_, {vectors, b, s, d});
    const std::vector<double> inputs = embedded(ctx_, model, batch);
    for (std::int64_t layer = 1; layer <= config.layers; ++layer) {
      jacobian_vector_products(ctx_, model, batch, d_inputs, d_hidden, {.record = &record, .layer = layer})
          .wait_and_throw();
      const std::vector<double> got = d_hidden.to_host();
      constexpr double step = 1e-5;
      for (std::int64_t t = 0; t < vectors; ++t) {
        const auto moved = [&](double by) {
          std::vector<double> x = inputs;
          for (std::int64_t n = 0; n < size; ++n) {
            x[static_cast<std::size_t>(n)] += by * v[static_cast<std::size_t>(t * size + n)];
          }
          return hidden_states(ctx_, model, batch, x);
        };
        const std::vector<double> above = moved(step), below = moved(-step);
        for (std::int64_t n = 0; n < size; ++n) {
          if (n / d % s >= batch.lengths()[static_cast<std::size_t>(n / d / s)]) continue;
          const auto at = static_cast<std::size_t>(layer * size + n);
          const double expected = (above[at] - below[at]) / (2 * step);
          EXPECT_NEAR(got[static_cast<std::size_t>(t * size + n)], expected, 1e-7 * (1 + std::abs(expected)));
        }
      }
    }
    // <u, J v> = <J^T u, v>; d_hidden is that of the last layer
    vector_jacobian_products(ctx_, model, batch, d_last, gradient, {.record = &record}).wait_and_throw();
    const std::vector<double> forward_result = d_hidden.to_host(), backward_result = gradient.to_host();
    for (std::int64_t t = 0; t < vectors; ++t) {
      double left = 0, right = 0, size_of_terms = 0;
      for (std::int64_t n = t * size; n < (t + 1) * size; ++n) {
        const auto at = static_cast<std::size_t>(n);
        if (u[at] != 0) left += u[at] * forward_result[at];
        right += backward_result[at] * v[at];
        size_of_terms += std::abs(backward_result[at] * v[at]);
      }
      EXPECT_NEAR(left, right, 1e-13 * size_of_terms * static_cast<double>(config.layers));
    }
  }
}

TEST_P(jacobian_test, refuses_layers_blocks_and_records_that_there_are_not) {
  const transformer_config config = attribution_kinds()[0].config;
  const transformer<double> model = random_model<double>(ctx_, config);
  const token_batch batch(ctx_, config, attribution_sequences());
  tensor<double> x(ctx_, {1, 4, 5, 10}), y(ctx_, {1, 4, 5, 10});
  forward_record<double> heads(ctx_, config, 4, 5, keep::heads), whole(ctx_, config, 4, 5, keep::backward);
  const auto message = [&](const jacobian_options<double>& options) {
    return message_of<invalid_argument>([&] { jacobian_vector_products(ctx_, model, batch, x, y, options); });
  };
  EXPECT_EQ(message({}), "jacobian_vector_products: needs a record with keep::backward that does not recompute");
  EXPECT_EQ(message({.record = &heads}),
            "jacobian_vector_products: needs a record with keep::backward that does not recompute");
  EXPECT_EQ(message({.record = &whole, .layer = 4}),
            "jacobian_vector_products: there is no hidden state 4 after a layer, the model has 3 layers");
  const std::vector<jacobian_block> wrong{{0, 1, 0, 0}, {1, 1, 2, 0}};
  EXPECT_EQ(message_of<invalid_argument>([&] { jacobian_blocks(ctx_, model, batch, wrong); }),
            "jacobian_blocks: block 1 is of sequence 1, layer 1, hidden token 2 and input token 0, which there is not");
}

}  // namespace
}  // namespace nullscope::test
