/// The transformer: every gradient against finite differences, for every kind of model; padding, narrow last layers and
/// recomputation change nothing.
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/transformer.hpp>

#include <cmath>
#include <functional>
#include <nullscope/model/model_states.hpp>

#include "lib/src/model/pass_plan.hpp"
#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"

namespace nullscope {
namespace {

using test::random_numbers;

transformer_config base_config() {
  transformer_config config;
  config.layers = 2;
  config.width = 10;
  config.heads = 2;
  config.key_size = 3;
  config.value_size = 5;
  config.feed_forward = 13;
  config.vocabulary = 11;
  config.positions = 9;
  config.classes = 3;
  config.function = activation::gelu;
  return config;
}

struct named_config {
  const char* name;
  transformer_config config;
};

std::vector<named_config> kinds() {
  std::vector<named_config> result;
  const auto add = [&](const char* name, auto change) {
    transformer_config config = base_config();
    change(config);
    result.push_back({name, config});
  };
  add("post", [](auto&) {});
  add("bert", [](auto& c) {
    c.segments = 2;
    c.embedding_norm = true;
    c.classifier_hidden = activation::tanh;
  });
  add("gpt2", [](auto& c) {
    c.order = norm_order::pre;
    c.causal = true;
    c.pool = pooling::last;
    c.function = activation::gelu_tanh;
    c.language_model = true;
    c.classifier_bias = false;
  });
  add("added_heads", [](auto& c) {
    c.merge = head_merge::added;
    c.value_size = 10;
    c.key_size = 1;
    c.layers = 1;
  });
  add("mean_no_biases", [](auto& c) {
    c.pool = pooling::mean;
    c.biases = false;
    c.function = activation::tanh;
  });
  add("relative_positions", [](auto& c) {
    c.relative_buckets = 6;
    c.relative_distance = 4;
  });
  add("relative_positions_mean", [](auto& c) {
    c.relative_buckets = 4;
    c.relative_distance = 3;
    c.pool = pooling::mean;
  });
  add("pairs", [](auto& c) { c.pairs = true; });
  add("pre_first", [](auto& c) { c.order = norm_order::pre; });
  add("one_of_everything", [](auto& c) {
    c.layers = c.width = c.heads = c.key_size = c.value_size = c.feed_forward = 1;
    c.classes = 2;
  });
  return result;
}

std::vector<token_batch::sequence> sequences(const transformer_config& config) {
  std::vector<token_batch::sequence> result{{{1, 5, 2, 7, 3, 0}}, {{4, 9}}, {{10, 1, 1, 6}}, {{8}}};
  for (auto& [ids, segments] : result) {
    for (std::size_t i = 0; config.segments > 0 && i < ids.size(); ++i) segments.push_back(i > 1 ? 1 : 0);
  }
  return result;
}

class transformer_test : public test::device_test {
 protected:
  void SetUp() override {
    if (!has_fp64()) GTEST_SKIP() << "finite differences need double";
  }

  transformer<double> make_model(const transformer_config& config) {
    transformer<double> model(ctx_, config);
    std::vector<double> values = random_numbers<double>(model.values().size(), 7);
    for (double& value : values) value *= 0.6;
    for (const parameter& p : model.parameters()) {  // norms around one
      for (std::int64_t i = 0; p.name.ends_with("gamma") && i < p.size; ++i) {
        values[static_cast<std::size_t>(p.offset + i)] += 1;
      }
    }
    model.values().copy_from(values);
    return model;
  }

  std::int64_t logit_count(const transformer_config& config, std::int64_t batch) {
    return (config.pairs ? batch / 2 : batch) * config.classes;
  }

  std::vector<double> logits_of(const transformer<double>& model, const token_batch& batch,
                                forward_options<double> options = {}) {
    const transformer_config& config = model.config();
    tensor<double> logits(ctx_, {logit_count(config, batch.size()) / config.classes, config.classes});
    forward(ctx_, model, batch, {.logits = logits}, options).wait_and_throw();
    return logits.to_host();
  }
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// |got - expected| <= bound (|expected| + typical), entry by entry.
void expect_gradient(double got, double expected, double typical, const std::string& where) {
  EXPECT_LE(std::abs(got - expected), 1e-5 * (std::abs(expected) + typical))
      << where << ": " << got << ", expected " << expected;
}

TEST_P(transformer_test, every_parameter_gradient_agrees_with_finite_differences) {
  for (const auto& [name, config] : kinds()) {
    SCOPED_TRACE(name);
    transformer<double> model = make_model(config);
    const token_batch batch(ctx_, config, sequences(config));
    const std::vector<double> weight = random_numbers<double>(logit_count(config, batch.size()), 3);
    const tensor<double> d_logits(ctx_, {logit_count(config, batch.size()) / config.classes, config.classes}, weight);
    for (const keep what : {keep::backward, keep::pooled_backward}) {
      for (const bool recompute : {false, true}) {
        forward_record<double> record(ctx_, config, batch.size(), batch.tokens(), what, recompute);
        const forward_options<double> options{.record = &record};
        logits_of(model, batch, options);
        const std::vector<double> start = random_numbers<double>(model.values().size(), 5);  // gradients are added
        tensor<double> gradient(ctx_, {model.values().size()}, start);
        backward(ctx_, model, batch, {.d_logits = d_logits}, {.d_parameters = gradient}, options).wait_and_throw();
        const std::vector<double> got = gradient.to_host();
        std::vector<double> values = model.values().to_host();
        for (const parameter& p : model.parameters()) {
          const std::int64_t step = std::max<std::int64_t>(1, p.size / 4);
          for (std::int64_t i = 0; i < p.size; i += step) {
            const auto at = static_cast<std::size_t>(p.offset + i);
            const double kept = values[at], h = 1e-5;
            const auto loss_at = [&](double value) {
              values[at] = value;
              model.values().copy_from(values);
              return dot(logits_of(model, batch), weight);
            };
            const double expected = (loss_at(kept + h) - loss_at(kept - h)) / (2 * h);
            loss_at(kept);
            expect_gradient(got[at] - start[at], expected, 1e-3, p.name + " at " + std::to_string(i));
          }
        }
      }
    }
  }
}

TEST_P(transformer_test, the_gradient_of_the_inputs_agrees_with_finite_differences) {
  for (const auto& [name, config] : kinds()) {
    SCOPED_TRACE(name);
    const transformer<double> model = make_model(config);
    const token_batch batch(ctx_, config, sequences(config));
    const std::int64_t b = batch.size(), s = batch.tokens(), d = config.width;
    const std::vector<double> weight = random_numbers<double>(b * s * d, 11);
    std::vector<double> masked = weight;  // rows beyond a sequence do not count
    for (std::int64_t i = 0; i < b; ++i) {
      for (std::int64_t t = batch.lengths()[static_cast<std::size_t>(i)]; t < s; ++t) {
        std::fill_n(masked.begin() + (i * s + t) * d, d, 0.0);
      }
    }
    std::vector<double> inputs = random_numbers<double>(b * s * d, 13);
    const auto loss_of = [&](const std::vector<double>& x, forward_record<double>* record) {
      const tensor<double> given(ctx_, {b, s, d}, x);
      tensor<double> hidden(ctx_, {config.layers + 1, b, s, d});
      forward(ctx_, model, batch, {.hidden = hidden}, {.record = record, .inputs = given}).wait_and_throw();
      const std::vector<double> all = hidden.to_host();
      return dot({all.end() - b * s * d, all.end()}, masked);
    };
    forward_record<double> record(ctx_, config, b, s, keep::backward);
    loss_of(inputs, &record);
    const tensor<double> d_last(ctx_, {b, s, d}, masked);
    tensor<double> d_inputs(ctx_, {b, s, d});
    backward(ctx_, model, batch, {.d_last_hidden = d_last}, {.d_inputs = d_inputs}, {.record = &record})
        .wait_and_throw();
    const std::vector<double> got = d_inputs.to_host();
    for (std::size_t i = 0; i < inputs.size(); i += 7) {
      const double kept = inputs[i], h = 1e-5;
      inputs[i] = kept + h;
      const double above = loss_of(inputs, nullptr);
      inputs[i] = kept - h;
      const double below = loss_of(inputs, nullptr);
      inputs[i] = kept;
      expect_gradient(got[i], (above - below) / (2 * h), 1e-3, "input " + std::to_string(i));
    }
  }
}

TEST_P(transformer_test, a_padded_sequence_gives_what_it_gives_alone) {
  for (const auto& [name, config] : kinds()) {
    if (config.pairs) continue;
    SCOPED_TRACE(name);
    const transformer<double> model = make_model(config);
    const std::vector<token_batch::sequence> all = sequences(config);
    const std::vector<double> together = logits_of(model, token_batch(ctx_, config, all));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::vector<double> alone = logits_of(model, token_batch(ctx_, config, std::span(&all[i], 1)));
      for (std::size_t c = 0; c < alone.size(); ++c) {
        EXPECT_NEAR(alone[c], together[i * alone.size() + c], 1e-12) << "sequence " << i;
      }
    }
  }
}

TEST_P(transformer_test, logits_from_one_token_equal_those_from_all) {
  for (const auto& [name, config] : kinds()) {
    SCOPED_TRACE(name);
    const transformer<double> model = make_model(config);
    const token_batch batch(ctx_, config, sequences(config));
    const std::vector<double> narrow = logits_of(model, batch);
    forward_record<double> record(ctx_, config, batch.size(), batch.tokens(), keep::backward);
    const std::vector<double> whole = logits_of(model, batch, {.record = &record});
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(narrow[i], whole[i], 1e-12);
  }
}

TEST_P(transformer_test, a_pass_in_bfloat16_differs_by_its_rounding_alone) {
  for (const auto& [name, config] : kinds()) {
    if (config.width == 1) continue;  // a norm of one number is zero, whatever was rounded
    SCOPED_TRACE(name);
    const transformer<double> model = make_model(config);
    transformer<float> narrow(ctx_, config);
    const std::vector<double> values = model.values().to_host();
    narrow.values().copy_from(std::vector<float>(values.begin(), values.end()));
    const token_batch batch(ctx_, config, sequences(config));
    const std::int64_t rows = batch.size() * batch.tokens();
    tensor<double> expected(ctx_, {config.layers + 1, batch.size(), batch.tokens(), config.width});
    tensor<float> found(ctx_, expected.shape());
    const tensor<bfloat16> rounded = rounded_values(ctx_, narrow);
    forward(ctx_, model, batch, {.hidden = expected}).wait_and_throw();
    forward(ctx_, narrow, batch, {.hidden = found}, {.rounded_values = rounded}).wait_and_throw();
    double error = 0, size = 0;
    const std::vector<double> reference = expected.to_host();
    const std::vector<float> numbers = found.to_host();
    for (std::int64_t row = 0; row < rows; ++row) {
      if (row % batch.tokens() >= batch.lengths()[static_cast<std::size_t>(row / batch.tokens())]) continue;
      for (std::int64_t c = 0; c < config.width; ++c) {
        const auto at = static_cast<std::size_t>((config.layers * rows + row) * config.width + c);
        error += (numbers[at] - reference[at]) * (numbers[at] - reference[at]);
        size += reference[at] * reference[at];
      }
    }
    const double products = 6.0 * static_cast<double>(config.layers), epsilon = 0x1p-8;
    EXPECT_LT(std::sqrt(error / size) / (products * epsilon), 10);
    EXPECT_GT(std::sqrt(error / size), 0x1p-14) << "nothing was rounded to bfloat16";
  }
}

TEST_P(transformer_test, refuses_rounded_values_where_they_have_no_place) {
  const transformer_config config = base_config();
  transformer<float> model(ctx_, config);
  model.initialise(ctx_, 1);
  const token_batch batch(ctx_, config, sequences(config));
  const tensor<bfloat16> rounded = rounded_values(ctx_, model), small(ctx_, {3});
  tensor<float> logits(ctx_, {batch.size(), config.classes});
  forward_record<float> record(ctx_, config, batch.size(), batch.tokens(), keep::backward);
  const auto message = [&](const forward_options<float>& options) {
    return test::message_of<invalid_argument>([&] { forward(ctx_, model, batch, {.logits = logits}, options); });
  };
  EXPECT_NE(message({.rounded_values = small}).find("rounded_values (3)"), std::string::npos);
  EXPECT_NE(message({.record = &record, .rounded_values = rounded}).find("no backward pass"), std::string::npos);
  EXPECT_NE(message({.training = true, .rounded_values = rounded}).find("no backward pass"), std::string::npos);
}

TEST_P(transformer_test, refuses_tokens_that_the_model_cannot_take) {
  const transformer_config config = base_config();
  using sequence = token_batch::sequence;
  const auto message = [&](std::vector<sequence> given) {
    return test::message_of<invalid_argument>([&] { token_batch(ctx_, config, given); });
  };
  EXPECT_EQ(message({}), "token_batch: there are no sequences");
  EXPECT_EQ(message({{{1}}, {{}}}), "token_batch: sequence 1 has no tokens");
  EXPECT_EQ(message({{{1, 11}}}), "token_batch: id 11 of sequence 0, at token 1, is not from 0 to 10");
  EXPECT_EQ(message({{{-1}}}), "token_batch: id -1 of sequence 0, at token 0, is not from 0 to 10");
  EXPECT_EQ(message({{std::vector<std::int32_t>(10, 1)}}),
            "token_batch: sequence 0 has 10 tokens, the model takes at most 9");
  EXPECT_EQ(message({{{1}, {0}}}), "token_batch: sequence 0 has segments, the model has none");
}

// Launches cost most where layers are small. Those of a layer are what three layers take more than two.
TEST_P(transformer_test, a_layer_takes_few_launches) {
  const auto launches = [&](context& in, std::int64_t layers) {
    transformer_config config = base_config();
    config.layers = layers;
    config.language_model = true;  // so that the last layer computes all tokens
    transformer<float> model(in, config);
    const token_batch batch(in, config, sequences(config));
    forward_record<float> record(in, config, batch.size(), batch.tokens(), keep::backward);
    const forward_options<float> options{.record = &record};
    tensor<float> logits(in, {batch.size(), batch.tokens(), config.vocabulary});
    tensor<float> d_parameters(in, {model.values().size()});
    const auto run_forward = [&](context& ctx) { forward(ctx, model, batch, {.token_logits = logits}, options); };
    const auto run_backward = [&](context& ctx) {
      backward(ctx, model, batch, {.d_token_logits = logits}, {.d_parameters = d_parameters}, options);
    };
    return std::pair(dry_run(in, run_forward).launches, dry_run(in, run_backward).launches);
  };
  for (const lane_layout& layout : test::compiled({ctx_.layout(), lane_layout::work_items(ctx_.device(), 32)})) {
    context in(ctx_.queue(), layout);
    const auto [forward_of_two, backward_of_two] = launches(in, 2);
    const auto [forward_of_three, backward_of_three] = launches(in, 3);
    const std::int64_t packing = layout.has_vectors() ? 0 : 2;  // of keys and values, before attention on a GPU
    EXPECT_LE(forward_of_three - forward_of_two, 8 + packing);
    EXPECT_LE(backward_of_three - backward_of_two, 18);
  }
}

TEST_P(transformer_test, the_plan_finds_every_parameter_by_its_place) {
  for (const auto& [name, config] : kinds()) {
    SCOPED_TRACE(name);
    const transformer<double> model = make_model(config);
    const detail::pass_plan<double> plan(model, 1, 1, false);
    const auto expect = [&](const auto& found, const std::string& parameter) {
      if (found.is_absent()) return test::message_of<invalid_argument>([&] { model.vector(parameter); });
      const auto [rows, columns] = model.matrix(parameter).extent;
      EXPECT_EQ(found.data, model.matrix(parameter).data) << parameter;
      EXPECT_EQ(found.size(), rows * columns) << parameter;
      return std::string();
    };
    expect(plan.weights.token, "embedding.token");
    expect(plan.weights.position, "embedding.position");
    expect(plan.weights.segment, "embedding.segment");
    expect(plan.weights.relative_bias, "relative_bias");
    expect(plan.weights.embedding_norm.beta, "embedding.norm.beta");
    expect(plan.weights.final_norm.gamma, "final_norm.gamma");
    expect(plan.weights.classifier_hidden_bias, "classifier.hidden.bias");
    expect(plan.weights.classifier, "classifier.weight");
    expect(plan.weights.classifier_bias, "classifier.bias");
    for (const auto& [number, shape, weights, arrays] : plan.layers) {
      const std::string prefix = "layer." + std::to_string(number) + ".";
      expect(weights.query_key_value, prefix + "query_key_value.weight");
      expect(weights.query_key_value_bias, prefix + "query_key_value.bias");
      expect(weights.output, prefix + "output.weight");
      expect(weights.output_bias, prefix + "output.bias");
      expect(weights.attention_norm.gamma, prefix + "attention_norm.gamma");
      expect(weights.attention_norm.beta, prefix + "attention_norm.beta");
      expect(weights.up, prefix + "up.weight");
      expect(weights.up_bias, prefix + "up.bias");
      expect(weights.down, prefix + "down.weight");
      expect(weights.down_bias, prefix + "down.bias");
      expect(weights.feed_forward_norm.gamma, prefix + "feed_forward_norm.gamma");
      expect(weights.feed_forward_norm.beta, prefix + "feed_forward_norm.beta");
    }
  }
}

TEST_P(transformer_test, a_pass_takes_the_workspace_that_a_dry_run_counts) {
  for (const auto& [name, config] : kinds()) {
    SCOPED_TRACE(name);
    const transformer<double> model = make_model(config);
    const token_batch batch(ctx_, config, sequences(config));
    const std::int64_t b = batch.size(), s = batch.tokens(), d = config.width;
    tensor<double> hidden(ctx_, {config.layers + 1, b, s, d}), pooled(ctx_, {b, d}), d_inputs(ctx_, {b, s, d});
    const tensor<double> d_pooled(ctx_, {b, d}, random_numbers<double>(b * d, 3));
    forward_record<double> kept(ctx_, config, b, s, keep::backward);
    forward_record<double> again(ctx_, config, b, s, keep::pooled_backward, true);
    const auto backward_of = [&](forward_record<double>& record) {
      return [&](context& ctx) {
        backward(ctx, model, batch, {.d_pooled = d_pooled}, {.d_inputs = d_inputs}, {.record = &record});
      };
    };
    const std::function<void(context&)> passes[] = {
        [&](context& ctx) { forward(ctx, model, batch, {.pooled = pooled}); },
        [&](context& ctx) { forward(ctx, model, batch, {.hidden = hidden}); },
        [&](context& ctx) { forward(ctx, model, batch, {.pooled = pooled}, {.record = &kept}); },
        backward_of(kept),
        [&](context& ctx) { forward(ctx, model, batch, {.pooled = pooled}, {.record = &again}); },
        backward_of(again)};
    for (const auto& pass : passes) {
      const std::int64_t bytes = required_workspace(ctx_, pass);
      if (bytes == 0) continue;
      tensor<double> memory(ctx_, {bytes / std::int64_t{sizeof(double)}});
      const std::span<std::byte> all(reinterpret_cast<std::byte*>(memory.data()), static_cast<std::size_t>(bytes));
      ctx_.use_workspace(all);
      pass(ctx_);
      ctx_.queue().wait_and_throw();
      constexpr std::size_t more_than_alignment = 128;
      ctx_.use_workspace(all.first(all.size() - std::min(all.size(), more_than_alignment) + 1));
      EXPECT_NE(test::message_of<invalid_argument>([&] { pass(ctx_); }).find("too small"), std::string::npos);
      ctx_.use_workspace({});
    }
  }
}

// What a pass does not keep of a layer is released when another layer begins, also when backward computes it again.
TEST_P(transformer_test, the_workspace_of_a_pass_does_not_grow_with_the_layers) {
  for (const auto& [name, kind] : kinds()) {
    SCOPED_TRACE(name);
    const auto needs = [&](std::int64_t layers) {
      transformer_config config = kind;
      config.layers = layers;
      const transformer<double> model(ctx_, config);
      const token_batch batch(ctx_, config, sequences(config));
      tensor<double> pooled(ctx_, {batch.size(), config.width}), gradient(ctx_, {model.values().size()});
      std::vector<std::int64_t> bytes{
          required_workspace(ctx_, [&](context& ctx) { forward(ctx, model, batch, {.pooled = pooled}); })};
      for (const keep what : {keep::backward, keep::pooled_backward}) {
        forward_record<double> record(ctx_, config, batch.size(), batch.tokens(), what, true);
        const forward_options<double> options{.record = &record};
        bytes.push_back(
            required_workspace(ctx_, [&](context& ctx) { forward(ctx, model, batch, {.pooled = pooled}, options); }));
        bytes.push_back(required_workspace(ctx_, [&](context& ctx) {
          backward(ctx, model, batch, {.d_pooled = pooled}, {.d_parameters = gradient}, options);
        }));
      }
      return bytes;
    };
    EXPECT_EQ(needs(3), needs(7));
  }
}

TEST_P(transformer_test, the_heads_of_a_layer_are_those_of_the_pass_that_filled_the_record) {
  const transformer_config config = base_config();
  const transformer<double> model = make_model(config);
  const std::vector<token_batch::sequence> all = sequences(config);
  forward_record<double> record(ctx_, config, 4, 6, keep::heads);
  EXPECT_NE(test::message_of<invalid_argument>([&] {
              layer_heads(model, record, {1, 0, 2});
            }).find("no forward pass"),
            std::string::npos);
  for (const std::size_t count : {all.size(), std::size_t{2}}) {
    const token_batch batch(ctx_, config, std::span(all).first(count));
    forward(ctx_, model, batch, {}, {.record = &record}).wait_and_throw();
    const attention_heads<double> heads = layer_heads(model, record, {1, 1, 2});
    tensor<double> v(ctx_, {config.heads, 2, config.value_size});
    copy(ctx_, heads.v, v).wait_and_throw();
    const std::vector<model_states<double>> alone =
        read_states(ctx_, model, std::span(all).subspan(1, 1), {.heads_of_layer = 2});
    EXPECT_EQ(heads.h.data, model.matrix("layer.1.output.weight").data);
    const std::vector<double> found = v.to_host();
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], alone[0].v[i], 1e-12);
    const auto past_the_end = [&] { layer_heads(model, record, {1, static_cast<std::int64_t>(count), 1}); };
    EXPECT_NE(test::message_of<invalid_argument>(past_the_end).find("there is no sequence"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(devices, transformer_test, testing::ValuesIn(devices()), test::device_name);

}  // namespace
}  // namespace nullscope
