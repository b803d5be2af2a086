/// Attention parts of a whole model: the weights are those of the model, and what is called null changes nothing.
#include <cmath>
#include <nullscope/model/model_states.hpp>

#include "tests/core/support.hpp"

namespace nullscope {
namespace {

constexpr double eps = std::numeric_limits<double>::epsilon();

transformer_config small_config(bool causal) {
  transformer_config config;
  config.layers = 2;
  config.width = 12;
  config.heads = 3;
  config.key_size = 4;
  config.value_size = 4;
  config.feed_forward = 7;
  config.vocabulary = 19;
  config.positions = 11;
  config.causal = causal;
  config.order = causal ? norm_order::pre : norm_order::post;
  if (!causal) {
    config.relative_buckets = 6;
    config.relative_distance = 4;
  }
  return config;
}

/// x (rows, n) times y (n, columns).
std::vector<double> product(const double* x, const double* y, std::size_t rows, std::size_t n, std::size_t columns) {
  std::vector<double> result(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t j = 0; j < columns; ++j) result[i * columns + j] += x[i * n + k] * y[k * columns + j];
    }
  }
  return result;
}

/// A U U^T, or what a causal model has been given.
std::vector<double> effective_of(const attention_parts<double>& parts, std::size_t head) {
  const std::size_t s = static_cast<std::size_t>(parts.tokens), c = static_cast<std::size_t>(parts.columns);
  if (!parts.effective.empty()) {
    return {parts.effective.begin() + static_cast<std::ptrdiff_t>(head * s * s),
            parts.effective.begin() + static_cast<std::ptrdiff_t>((head + 1) * s * s)};
  }
  const double* const u = parts.basis.data() + head * s * c;
  std::vector<double> transposed(c * s);
  for (std::size_t i = 0; i < s * c; ++i) transposed[i % c * s + i / c] = u[i];
  const std::vector<double> p = product(parts.raw.data() + head * s * s, u, s, s, c);
  return product(p.data(), transposed.data(), s, c, s);
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

class attention_parts_test : public testing::TestWithParam<bool> {
 protected:
  context ctx_{select_device()};
};

TEST_P(attention_parts_test, what_is_null_changes_no_output) {
  const transformer_config config = small_config(GetParam());
  transformer<double> model(ctx_, config);
  model.initialise(ctx_, 7);
  const token_batch::sequence sequence{{3, 1, 4, 1, 5, 9, 2, 6, 18}};
  const attention_parts<double> parts = read_attention_parts(ctx_, model, sequence);
  ASSERT_EQ(parts.tokens, 9);
  ASSERT_EQ(parts.columns, 4);
  const std::size_t s = 9, d = 12, dv = 4, heads = 3;
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const model_states<double> states = read_states(
        ctx_, model, {&sequence, 1}, {.attention = true, .heads_of_layer = static_cast<std::int64_t>(layer) + 1})[0];
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t head = layer * heads + h;
      const std::vector<double> raw(parts.raw.begin() + static_cast<std::ptrdiff_t>(head * s * s),
                                    parts.raw.begin() + static_cast<std::ptrdiff_t>((head + 1) * s * s));
      std::vector<double> effective = effective_of(parts, head), null(s * s);
      double entropy = 0;
      for (std::size_t i = 0; i < s * s; ++i) {
        EXPECT_NEAR(raw[i], states.attention[head * s * s + i], 100 * eps);
        EXPECT_TRUE(!GetParam() || i % s <= i / s || effective[i] == 0) << "above the diagonal";
        if (raw[i] > 0) entropy -= raw[i] * std::log(raw[i]) / static_cast<double>(s);
        null[i] = raw[i] - effective[i];
      }
      const std::vector<double> t = product(states.v.data() + h * s * dv, states.h.data() + h * dv * d, s, dv, d);
      EXPECT_LT(norm(product(null.data(), t.data(), s, s, d)) / (norm(raw) * norm(t) * eps), 1000) << "A_par T = 0";
      EXPECT_GT(norm(null), 0.01) << "there is a null space";
      EXPECT_EQ(parts.rank[head], 4);
      EXPECT_NEAR(parts.entropy[head], entropy, 100 * eps);
      EXPECT_NEAR(parts.summary[head].effective_norm, norm(effective), 1000 * eps);
      EXPECT_GT(parts.singular_values[head * 4 + 3], 0);
    }
  }
}

TEST_P(attention_parts_test, short_texts_have_no_null_space) {
  const transformer_config config = small_config(GetParam());
  transformer<float> model(ctx_, config);
  model.initialise(ctx_, 3);
  const attention_parts<float> parts = read_attention_parts(ctx_, model, {{5}});
  EXPECT_EQ(parts.rank, std::vector<std::int64_t>(6, 1));
  ASSERT_EQ(parts.raw.size(), 6u);
  for (std::size_t head = 0; head < 6; ++head) {  // scores of size x leave an error of x eps
    EXPECT_NEAR(parts.raw[head], 1, 10 * std::numeric_limits<float>::epsilon());
    EXPECT_NEAR(parts.entropy[head], 0, 10 * std::numeric_limits<float>::epsilon());
  }
}

TEST_P(attention_parts_test, mistakes_are_typed) {
  const transformer_config config = small_config(GetParam());
  transformer<float> model(ctx_, config);
  model.initialise(ctx_, 3);
  EXPECT_THROW(read_attention_parts(ctx_, model, {{}}), invalid_argument);
  EXPECT_THROW(read_attention_parts(ctx_, model, {{19}}), invalid_argument);
  std::vector<float> values = model.values().to_host();
  for (const parameter& one : model.parameters()) {
    if (one.name == "layer.1.output.weight") values[static_cast<std::size_t>(one.offset)] = std::nanf("");
  }
  model.values().copy_from(values);
  const std::string message = test::message_of<computation_error>([&] {
    read_attention_parts(ctx_, model, {{1, 2, 3}});
  });
  EXPECT_NE(message.find("1 of 6 heads"), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(kinds, attention_parts_test, testing::Bool(),
                         [](const auto& info) { return info.param ? "causal" : "encoder"; });

}  // namespace
}  // namespace nullscope
