/// model_structure: the heads of a whole model against what read_states gives for each of its inputs.
#include <nullscope/model/model_states.hpp>
#include <nullscope/structure/model_structure.hpp>
#include <nullscope/structure/structure_norm.hpp>

#include "tests/null_space/null_space_support.hpp"

namespace nullscope::test {
namespace {

class model_structure_test : public device_test {
 protected:
  static constexpr std::int64_t S = 11;

  static transformer_config config() {
    transformer_config config;
    config.layers = 2;
    config.width = 12;
    config.heads = 3;
    config.key_size = 5;
    config.value_size = 4;
    config.feed_forward = 16;
    config.vocabulary = 20;
    config.positions = 16;
    return config;
  }

  transformer<float> make_model() {
    transformer<float> model(ctx_, config());
    model.initialise(ctx_, 3);
    return model;
  }

  /// The last one is shorter.
  static std::vector<token_batch::sequence> sequences() {
    std::vector<token_batch::sequence> result(4);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const std::int64_t count = i == 3 ? 7 : S;
      for (std::int64_t j = 0; j < count; ++j) {
        result[i].ids.push_back(static_cast<std::int32_t>((7 * j + 5 * static_cast<std::int64_t>(i * i) + j * j) % 20));
      }
    }
    return result;
  }
};
INSTANTIATE_TEST_SUITE_P(devices, model_structure_test, testing::ValuesIn(devices()), device_name);

/// A (heads, s, s) within zeros (heads, S, S), in double.
matrix padded(const std::vector<float>& a, std::int64_t heads, std::int64_t count, std::int64_t size) {
  matrix result(static_cast<std::size_t>(heads * size * size), 0.0);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < count; ++j) {
        result[static_cast<std::size_t>((h * size + i) * size + j)] =
            static_cast<double>(a[static_cast<std::size_t>((h * count + i) * count + j)]);
      }
    }
  }
  return result;
}

TEST_P(model_structure_test, sums_the_attention_of_all_heads_and_measures_distances_from_its_mean) {
  const transformer<float> model = make_model();
  model_structure<float> structure(ctx_, model, S);
  const std::vector<token_batch::sequence> inputs = sequences();
  structure.add(ctx_, std::span(inputs).first(1));
  structure.add(ctx_, std::span(inputs).subspan(1));
  EXPECT_EQ(structure.heads(), 6);
  EXPECT_EQ(structure.attention().inputs(), 4);
  EXPECT_EQ(structure.subspace().samples(), 4);
  std::vector<matrix> attention;
  matrix mean(6 * S * S, 0.0);
  for (const model_states<float>& one : read_states(ctx_, model, inputs, {.attention = true})) {
    attention.push_back(padded(one.attention, 6, one.tokens, S));
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += attention.back()[i] / 4;
  }
  const tensor<float> found = structure.attention().mean(ctx_);
  EXPECT_LT(scaled_residual(found.to_host(), mean, 12), bound);

  const attention_structure<float> w = structure.attention().extract(ctx_, {.threshold = 0.05});
  const std::vector<float> weights = w.w.to_host();
  const std::vector<structure_distances<float>> distances = structure.distances(ctx_, inputs, found, w.w);
  ASSERT_EQ(distances.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    matrix plain(6, 0.0), weighted(6, 0.0);
    for (std::size_t j = 0; j < mean.size(); ++j) {
      const double difference = std::abs(attention[i][j] - mean[j]) / (S * S);
      plain[j / (S * S)] += difference;
      weighted[j / (S * S)] += difference * static_cast<double>(weights[j]);
    }
    EXPECT_LT(scaled_residual(distances[i].plain, plain, S * S), bound);
    EXPECT_LT(scaled_residual(distances[i].structure, weighted, S * S), bound);
  }
}

TEST_P(model_structure_test, finds_the_subspace_of_all_heads) {
  const transformer<float> model = make_model();
  model_structure<float> structure(ctx_, model, S);
  const std::vector<token_batch::sequence> inputs = sequences();
  structure.add(ctx_, std::span(inputs).first(2), {.attention = false});
  EXPECT_EQ(structure.attention().inputs(), 0);
  const task_subspace_basis<float> r = structure.subspace().basis(ctx_);
  const std::vector<float> basis = r.basis.to_host();
  const std::vector<std::vector<std::int64_t>> off = structure.switched_off_dimensions(ctx_, inputs, r.basis);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const auto states = read_states(ctx_, model, std::span(inputs).first(2), {.heads_of_layer = layer + 1});
    for (std::int64_t head = 0; head < 3; ++head) {
      const std::size_t own = static_cast<std::size_t>(layer * 3 + head);
      EXPECT_EQ(r.dimension[own], 8);  // two inputs with d_v = 4 each
      EXPECT_EQ(off[0][own], 4);
      EXPECT_EQ(off[2][own], 4);  // not one of the two: T within R still has rank 4
      for (const model_states<float>& one : states) {
        const matrix t = product(one.v.data() + head * S * 4, one.h.data() + head * 4 * 12, S, 4, 12);
        EXPECT_LT(outside(t, basis.data() + own * S * S, S, S, 12), bound);
      }
    }
  }
}

TEST_P(model_structure_test, takes_effective_attention) {
  const transformer<float> model = make_model();
  const std::vector<token_batch::sequence> inputs = sequences();
  model_structure<float> raw(ctx_, model, S), effective(ctx_, model, S, {.effective = true});
  raw.add(ctx_, std::span(inputs).first(1));
  effective.add(ctx_, std::span(inputs).first(1));
  const task_subspace_basis<float> r = raw.subspace().basis(ctx_);  // of one input: the range of T
  tensor<float> projected(ctx_, {6, S, S});
  project(ctx_, projection_operands<float>{raw.attention().sum(), r.basis}, projected, row_part::range)
      .wait_and_throw();
  const std::vector<float> expected = projected.to_host();
  EXPECT_LT(scaled_residual(effective.attention().sum().to_host(), matrix(expected.begin(), expected.end()), S), bound);
}

TEST_P(model_structure_test, refuses_what_is_too_long) {
  const transformer<float> model = make_model();
  EXPECT_THROW(model_structure<float>(ctx_, model, 17), invalid_argument);
  EXPECT_THROW(model_structure<float>(ctx_, model, 0), invalid_argument);
  model_structure<float> structure(ctx_, model, 5);
  EXPECT_NE(message_of<invalid_argument>([&] { structure.add(ctx_, sequences()); }).find("sequence 0 has 11 tokens"),
            std::string::npos);
  EXPECT_EQ(structure.attention().inputs(), 0);
}

}  // namespace
}  // namespace nullscope::test
