/// model_attention: all heads of a model against what read_states and effective attention give for each text alone.
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/model/model_states.hpp>

#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

constexpr std::int64_t classes = 3;

class model_attention_test : public device_test {
 protected:
  static transformer_config config(bool causal = false) {
    transformer_config config;
    config.layers = 2;
    config.width = 12;
    config.heads = 3;
    config.key_size = 5;
    config.value_size = 4;
    config.feed_forward = 16;
    config.vocabulary = 20;
    config.positions = 32;
    config.causal = causal;
    return config;
  }

  transformer<float> make_model(const transformer_config& of) {
    transformer<float> model(ctx_, of);
    model.initialise(ctx_, 3);
    return model;
  }

  /// Texts of different lengths; class 2 is only in some of them.
  static std::vector<classified_text> texts() {
    std::vector<classified_text> result;
    for (const std::int32_t length : {9, 1, 17, 4, 30, 9}) {
      classified_text& text = result.emplace_back();
      for (std::int32_t j = 0; j < length; ++j) {
        text.tokens.ids.push_back((7 * j + 5 * length + j * j) % 20);
        text.classes.push_back(j == 0 ? 0 : j % 10 == 9 ? 2 : 1);
      }
    }
    return result;
  }
};
INSTANTIATE_TEST_SUITE_P(devices, model_attention_test, testing::ValuesIn(devices()), device_name);

/// The matrices of one head of one text, dense, from its own effective attention.
struct dense_head {
  std::vector<float> raw, effective;
  effective_attention_summary<float> summary;
  std::int64_t rank;
};

std::vector<dense_head> dense_heads(context& ctx, const transformer<float>& model, const classified_text& text,
                                    bool by_rows) {
  const transformer_config& config = model.config();
  const std::int64_t s = std::ssize(text.classes), h = config.heads;
  std::vector<dense_head> result;
  for (std::int64_t layer = 1; layer <= config.layers; ++layer) {
    const model_states<float> of =
        read_states(ctx, model, std::span(&text.tokens, 1), {.attention = true, .heads_of_layer = layer})[0];
    const tensor<float> q(ctx, {h, s, config.key_size}, of.q), k(ctx, {h, s, config.key_size}, of.k),
        v(ctx, {h, s, config.value_size}, of.v), projection(ctx, {h, config.value_size, config.width}, of.h);
    const attention_heads<float> heads{q, k, v, projection};
    const std::int64_t c = heads.basis_columns();
    tensor<float> p(ctx, {h, s, c}), u(ctx, {h, s, c}), values(ctx, {h, c}), log_sum_exp(ctx, {h, s}),
        dense(ctx, {h, s, s});
    tensor<std::int64_t> rank(ctx, {h});
    tensor<std::int32_t> status(ctx, {h});
    tensor<effective_attention_summary<float>> summary(ctx, {h});
    const effective_attention_results<float> results{p, u, values, rank, status, log_sum_exp, summary};
    if (by_rows) {
      effective_attention_by_rows(ctx, heads, results).wait_and_throw();
    } else {
      effective_attention(ctx, heads, results, {.causal = config.causal}).wait_and_throw();
    }
    attention_part(ctx, {q, k, log_sum_exp, p, u}, dense, {.causal = config.causal, .by_rows = by_rows})
        .wait_and_throw();
    const std::vector<float> effective = dense.to_host();
    const auto summaries = summary.to_host();
    const auto ranks = rank.to_host();
    for (std::int64_t head = 0; head < h; ++head) {
      const auto of_head = [&](const std::vector<float>& x, std::int64_t number) {
        return std::vector<float>(x.begin() + number * s * s, x.begin() + (number + 1) * s * s);
      };
      const auto i = static_cast<std::size_t>(head);
      result.push_back(
          {of_head(of.attention, (layer - 1) * h + head), of_head(effective, head), summaries[i], ranks[i]});
    }
  }
  return result;
}

/// The mean over queries of class `from` (classes: all) of the sum over keys of class `to`; none if there is no query.
std::optional<double> mean_attention(const std::vector<float>& a, const std::vector<std::int32_t>& of,
                                     std::int64_t from, std::int64_t to) {
  double sum = 0, queries = 0;
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (from < classes && of[i] != from) continue;
    ++queries;
    for (std::size_t j = 0; j < of.size(); ++j) {
      if (of[j] == to) sum += static_cast<double>(a[i * of.size() + j]);
    }
  }
  if (queries == 0) return std::nullopt;
  return sum / queries;
}

void check(context& ctx, const transformer<float>& model, const std::vector<classified_text>& texts, bool by_rows,
           const model_attention_options& options) {
  model_attention<float> attention(ctx, model, classes, options);
  EXPECT_EQ(attention.is_by_rows(), by_rows);
  std::int64_t seen = 0;
  const auto found = attention.add(ctx, texts, [&](std::int64_t count) { seen += count; });
  EXPECT_EQ(seen, std::ssize(texts));
  ASSERT_EQ(found.size(), texts.size());
  std::vector<std::vector<dense_head>> dense;
  for (const classified_text& text : texts) dense.push_back(dense_heads(ctx, model, text, by_rows));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(found[i].tokens, std::ssize(texts[i].classes));
    ASSERT_EQ(std::ssize(found[i].heads), attention.heads());
    for (std::size_t head = 0; head < found[i].heads.size(); ++head) {
      const head_numbers<float>& one = found[i].heads[head];
      const dense_head& expected = dense[i][head];
      EXPECT_EQ(one.rank, expected.rank);
      EXPECT_NEAR(one.raw_norm, expected.summary.raw_norm, 1e-4);
      EXPECT_NEAR(one.effective_norm, expected.summary.effective_norm, 1e-4);
      if (found[i].tokens > 1) {
        EXPECT_NEAR(one.pearson, expected.summary.pearson, 1e-3);
      }
      double entropy = 0;
      for (const float weight : expected.raw) {
        if (weight > 0) entropy -= static_cast<double>(weight) * std::log(static_cast<double>(weight));
      }
      EXPECT_NEAR(one.entropy, entropy / static_cast<double>(found[i].tokens), 1e-4);
    }
  }
  const class_averages averages = attention.averages();
  EXPECT_EQ(averages.matrices, attention.heads());
  for (std::int64_t head = 0; head < averages.matrices; ++head) {
    for (std::int64_t from = 0; from <= classes; ++from) {
      for (std::int64_t to = 0; to < classes; ++to) {
        double raw = 0, effective = 0;
        std::int64_t count = 0;
        for (std::size_t i = 0; i < texts.size(); ++i) {
          const dense_head& one = dense[i][static_cast<std::size_t>(head)];
          const auto mean = mean_attention(one.raw, texts[i].classes, from, to);
          if (!mean) continue;
          ++count;
          raw += *mean;
          effective += *mean_attention(one.effective, texts[i].classes, from, to);
        }
        EXPECT_EQ(averages.texts[static_cast<std::size_t>(from)], count);
        EXPECT_NEAR(averages.at(averages.raw, head, from, to), raw / static_cast<double>(count), 1e-4);
        EXPECT_NEAR(averages.at(averages.effective, head, from, to), effective / static_cast<double>(count), 1e-3);
      }
    }
  }
}

TEST_P(model_attention_test, agrees_with_each_text_alone) {
  const transformer<float> model = make_model(config());
  check(ctx_, model, texts(), false, {});
  check(ctx_, model, texts(), false, {.batch_tokens = 1});  // no padding at all
}

TEST_P(model_attention_test, takes_decoders_by_rows_and_with_all_tokens_if_asked_to) {
  const transformer<float> model = make_model(config(true));
  check(ctx_, model, texts(), true, {});
  check(ctx_, model, texts(), false, {.by_rows = false});
}

TEST_P(model_attention_test, rolls_out_through_the_layers) {
  const transformer<float> model = make_model(config());
  const std::vector<classified_text> one{texts()[2]};
  model_attention<float> attention(ctx_, model, classes, {.rollout = true});
  attention.add(ctx_, one);
  const class_averages found = attention.rollout_averages();
  ASSERT_EQ(found.matrices, 2);
  const std::vector<dense_head> heads = dense_heads(ctx_, model, one[0], false);
  const std::size_t n = one[0].classes.size();
  for (const bool is_raw : {true, false}) {
    std::vector<float> r(n * n, 0.f);
    for (std::size_t i = 0; i < n; ++i) r[i * n + i] = 1;
    for (std::size_t layer = 0; layer < 2; ++layer) {
      std::vector<float> next(n * n, 0.f);
      for (std::size_t i = 0; i < n; ++i) {
        std::vector<double> mix(n, 0.0);
        double sum = 0;
        for (std::size_t j = 0; j < n; ++j) {
          for (std::size_t h = 3 * layer; h < 3 * layer + 3; ++h) {
            mix[j] += std::abs(static_cast<double>((is_raw ? heads[h].raw : heads[h].effective)[i * n + j]));
          }
          sum += mix[j];
        }
        for (std::size_t j = 0; j < n; ++j) {
          const double weight = 0.5 * mix[j] / sum + (i == j ? 0.5 : 0);
          for (std::size_t k = 0; k < n; ++k) next[i * n + k] += static_cast<float>(weight) * r[j * n + k];
        }
      }
      r = next;
      for (std::int64_t to = 0; to < classes; ++to) {
        const double got =
            found.at(is_raw ? found.raw : found.effective, static_cast<std::int64_t>(layer), classes, to);
        EXPECT_NEAR(got, *mean_attention(r, one[0].classes, classes, to), 1e-4) << layer << " " << is_raw;
      }
    }
  }
}

TEST_P(model_attention_test, the_same_texts_give_the_same_bits_however_they_come) {
  const transformer<float> model = make_model(config());
  const std::vector<classified_text> all = texts();
  model_attention<float> together(ctx_, model, classes, {.batch_tokens = 1}), apart(ctx_, model, classes);
  const auto found = together.add(ctx_, all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto one = apart.add(ctx_, std::span(all).subspan(i, 1));
    for (std::size_t head = 0; head < found[i].heads.size(); ++head) {
      EXPECT_EQ(one[0].heads[head].effective_norm, found[i].heads[head].effective_norm);
    }
  }
}

TEST_P(model_attention_test, a_class_that_no_text_has_is_nan) {
  const transformer<float> model = make_model(config());
  model_attention<float> attention(ctx_, model, classes);
  attention.add(ctx_, std::vector<classified_text>{texts()[3]});
  const class_averages averages = attention.averages();
  EXPECT_EQ(averages.texts, (std::vector<std::int64_t>{1, 1, 0, 1}));
  EXPECT_TRUE(std::isnan(averages.at(averages.raw, 0, 2, 0)));
  EXPECT_EQ(averages.at(averages.raw, 0, 0, 2), 0);
}

// Two tokens in turn give T the singular values sqrt(S / 2) and r sqrt(S / 2). The default tolerance does not grow with
// the tokens beyond 4096.
TEST_P(model_attention_test, counts_the_rank_of_long_texts_by_the_default_tolerance) {
  transformer_config config;
  config.width = config.value_size = config.feed_forward = config.vocabulary = 2;
  config.heads = config.key_size = 1;
  config.has_positions = config.biases = false;
  constexpr std::int64_t tokens = 8192;
  config.positions = tokens;
  constexpr float r = 6144 * std::numeric_limits<float>::epsilon();
  transformer<float> model(ctx_, config);
  std::vector<float> values = model.values().to_host();
  const auto set = [&](std::string_view name, const std::vector<float>& numbers) {
    const auto found = std::ranges::find(model.parameters(), name, &parameter::name);
    ASSERT_NE(found, model.parameters().end());
    std::ranges::copy(numbers, values.begin() + found->offset);
  };
  set("embedding.token", {1, 0, 0, r});
  set("layer.0.query_key_value.weight", {0.1f, 0, 0, 0.1f, 1, 0, 0, 1});  // q, k, then v = x
  set("layer.0.output.weight", {1, 0, 0, 1});
  model.values().copy_from(values);
  classified_text text;
  for (std::int32_t i = 0; i < tokens; ++i) text.tokens.ids.push_back(i % 2);
  text.classes.assign(tokens, 0);
  model_attention<float> attention(ctx_, model, 1);
  EXPECT_EQ(attention.add(ctx_, std::vector<classified_text>{text})[0].heads[0].rank, 2);
}

TEST_P(model_attention_test, refuses_what_does_not_fit_before_it_reads) {
  const transformer<float> model = make_model(config());
  EXPECT_THROW(model_attention<float>(ctx_, model, 0), invalid_argument);
  EXPECT_THROW(model_attention<float>(ctx_, model, 2, {.by_rows = true}), invalid_argument);
  model_attention<float> attention(ctx_, model, classes);
  std::vector<classified_text> wrong = texts();
  wrong[2].classes.pop_back();
  EXPECT_NE(
      message_of<invalid_argument>([&] { attention.add(ctx_, wrong); }).find("text 2 has 17 tokens and 16 classes"),
      std::string::npos);
  wrong = texts();
  wrong[1].classes[0] = 3;
  EXPECT_NE(message_of<invalid_argument>([&] { attention.add(ctx_, wrong); }).find("text 1 has class 3"),
            std::string::npos);
  EXPECT_EQ(attention.averages().texts, (std::vector<std::int64_t>{0, 0, 0, 0}));
}

TEST(mean_of_heads_test, is_over_texts_and_heads_and_skips_correlations_that_are_not_there) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::vector<text_attention<double>> texts{
      {3, {{2, 0.5, 2, 1, 1, 0.25}, {4, none, 1, 1, 0, 0.75}, {9, 9, 9, 9, 9, 9}}},
      {5, {{6, 0.25, 4, 1, 1, 0.5}, {8, 0.75, 1, 0, 1, 0.5}, {9, 9, 9, 9, 9, 9}}}};
  const head_means two = mean_of_heads(std::span(texts), 0, 2), one = mean_of_heads(std::span(texts).first(1), 1, 1);
  EXPECT_EQ(two.rank, 5);
  EXPECT_EQ(two.pearson, 0.5);
  EXPECT_EQ(two.entropy, 0.5);
  EXPECT_EQ(two.null_share, (0.25 + 0 + 0.0625 + 1) / 4);
  EXPECT_TRUE(std::isnan(one.pearson));
  EXPECT_EQ(one.rank, 4);
}

}  // namespace
}  // namespace nullscope::test
