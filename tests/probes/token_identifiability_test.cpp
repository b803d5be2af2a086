/// token_identifiability: folds, naive rates against a plain loop, planted maps, chance, bits, options, bad input.
#include <nullscope/probes/token_identifiability.hpp>
#include <numeric>
#include <set>

#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

class token_identifiability_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, token_identifiability_test, testing::ValuesIn(devices()), device_name);

/// States of random sentences: inputs, and hidden tokens that are functions of them.
template <class T>
struct planted {
  std::int64_t tokens = 0, width = 0, layers = 1;
  std::vector<std::int64_t> sentences;
  std::vector<T> inputs, hidden;

  tensor<T> inputs_on(context& ctx) const { return {ctx, {tokens, width}, inputs}; }
  tensor<T> hidden_on(context& ctx) const { return {ctx, {layers, tokens, width}, hidden}; }

  std::vector<identification> identify(context& ctx, const identifiability_options& options) const {
    return token_identifiability(ctx, inputs_on(ctx), hidden_on(ctx), sentences, options);
  }
};

/// Sentences of 1 to 9 tokens; hidden layer l is x times a random matrix, plus noise.
template <class T>
planted<T> mixed_states(std::int64_t sentences, std::int64_t width, std::int64_t layers, double noise) {
  planted<T> p;
  p.width = width;
  p.layers = layers;
  for (std::int64_t s = 0; s < sentences; ++s) {
    p.sentences.push_back(1 + s * 7 % 9);
    p.tokens += p.sentences.back();
  }
  p.inputs = random_numbers<T>(p.tokens * width, 1);
  for (std::int64_t l = 0; l < layers; ++l) {
    const std::vector<T> mixing = random_numbers<T>(width * width, 10 + static_cast<std::uint64_t>(l)),
                         errors = random_numbers<T>(p.tokens * width, 20 + static_cast<std::uint64_t>(l));
    for (std::int64_t i = 0; i < p.tokens * width; ++i) {
      const std::int64_t token = i / width, column = i % width;
      double sum = noise * static_cast<double>(errors[static_cast<std::size_t>(i)]);
      for (std::int64_t k = 0; k < width; ++k) {
        sum += static_cast<double>(p.inputs[static_cast<std::size_t>(token * width + k)]) *
               static_cast<double>(mixing[static_cast<std::size_t>(k * width + column)]);
      }
      p.hidden.push_back(static_cast<T>(sum));
    }
  }
  return p;
}

/// How many tokens of the sentences a plain loop identifies without any map.
std::int64_t naive_count(const planted<double>& p, std::int64_t layer, const std::vector<std::int64_t>& chosen,
                         probe_distance distance, std::int64_t offset) {
  std::vector<std::int64_t> first{0};
  for (const std::int64_t length : p.sentences) first.push_back(first.back() + length);
  std::int64_t correct = 0;
  for (const std::int64_t s : chosen) {
    const std::int64_t begin = first[static_cast<std::size_t>(s)], end = first[static_cast<std::size_t>(s) + 1];
    for (std::int64_t i = begin; i < end; ++i) {
      if (i + offset < begin || i + offset >= end) continue;
      const double* y = p.hidden.data() + ((layer - 1) * p.tokens + i) * p.width;
      std::int64_t nearest = -1;
      double smallest = INFINITY;
      for (std::int64_t j = begin; j < end; ++j) {
        const double* x = p.inputs.data() + j * p.width;
        double squares = 0, product = 0, of_x = 0, of_y = 0;
        for (std::int64_t c = 0; c < p.width; ++c) {
          squares += (y[c] - x[c]) * (y[c] - x[c]);
          product += y[c] * x[c];
          of_x += x[c] * x[c];
          of_y += y[c] * y[c];
        }
        const double score = distance == probe_distance::l2 ? squares : 1 - product / std::sqrt(of_x * of_y);
        if (score < smallest) {
          smallest = score;
          nearest = j;
        }
      }
      correct += nearest == i + offset;
    }
  }
  return correct;
}

TEST(folds, cover_all_sentences_once_and_rotate_the_test) {
  for (const auto& [sentences, folds] : {std::pair<std::int64_t, std::int64_t>{400, 10}, {7, 7}, {3, 1}, {101, 4}}) {
    std::vector<std::int64_t> tested(static_cast<std::size_t>(sentences), 0);
    for (std::int64_t fold = 0; fold < folds; ++fold) {
      const data_split split = fold_sentences(sentences, fold, folds, 5);
      std::set<std::int64_t> all;
      for (const auto* part : {&split.training, &split.validation, &split.test}) {
        EXPECT_FALSE(part->empty());
        all.insert(part->begin(), part->end());
      }
      EXPECT_EQ(std::ssize(all), sentences);  // no sentence is in two parts
      EXPECT_EQ(std::ssize(split.training) + std::ssize(split.validation) + std::ssize(split.test), sentences);
      EXPECT_EQ(std::ssize(split.test), std::ssize(split.validation));
      EXPECT_NEAR(static_cast<double>(split.test.size()), 0.15 * static_cast<double>(sentences), 0.95);
      for (const std::int64_t s : split.test) ++tested[static_cast<std::size_t>(s)];
    }
    if (folds == 10) {  // 15 % of each of ten folds: every sentence is tested once or twice
      EXPECT_EQ(*std::ranges::min_element(tested), 1);
      EXPECT_EQ(*std::ranges::max_element(tested), 2);
    }
  }
  EXPECT_NE(fold_sentences(50, 0, 10, 1).test, fold_sentences(50, 0, 10, 2).test);
  EXPECT_EQ(fold_sentences(50, 3, 10, 1).test, fold_sentences(50, 3, 10, 1).test);
  EXPECT_THROW(fold_sentences(2, 0, 1, 1), invalid_argument);
  EXPECT_THROW(fold_sentences(9, 0, 10, 1), invalid_argument);
  EXPECT_THROW(fold_sentences(9, 3, 3, 1), invalid_argument);
  EXPECT_THROW(fold_sentences(9, -1, 3, 1), invalid_argument);
}

TEST_P(token_identifiability_test, counts_as_a_plain_loop_does) {
  if (!has_fp64()) GTEST_SKIP() << "in double, where no decision is close";
  const planted<double> p = mixed_states<double>(40, 21, 2, 0.5);
  for (const lane_layout& layout : compiled({ctx_.layout(), lane_layout::work_items(properties(GetParam()), 32)})) {
    SCOPED_TRACE(name_of(layout));
    context ctx(queue_, layout);
    for (const probe_distance distance : {probe_distance::cosine, probe_distance::l2}) {
      for (const std::int64_t offset : {0, 2, -1}) {
        const auto found = p.identify(
            ctx, {.map = probe_map::identity, .distance = distance, .on_training = true, .offset = offset, .folds = 3});
        ASSERT_EQ(found.size(), 2u * 3 * 2);
        for (const identification& one : found) {
          const data_split split = fold_sentences(40, one.fold, 3, 1);
          const auto& chosen = one.on_training ? split.training : split.test;
          EXPECT_EQ(one.correct, naive_count(p, one.tested_on, chosen, distance, offset))
              << "layer " << one.tested_on << ", fold " << one.fold << ", offset " << offset;
          std::int64_t tokens = 0;
          for (const std::int64_t s : chosen) {
            tokens += std::max<std::int64_t>(0, p.sentences[static_cast<std::size_t>(s)] - std::abs(offset));
          }
          EXPECT_EQ(one.tokens, tokens);
        }
      }
    }
  }
}

TEST_P(token_identifiability_test, recovers_a_planted_map) {
  const planted<float> p = mixed_states<float>(120, 16, 2, 0);
  for (const probe_distance distance : {probe_distance::cosine, probe_distance::l2}) {
    for (const probe_map map : {probe_map::linear, probe_map::mlp}) {
      const auto found = p.identify(
          ctx_,
          {.map = map,
           .distance = distance,
           .training = {.learning_rate = 0.01, .batch = 64, .patience = 10, .most_epochs = 40, .hidden_units = 64},
           .folds = 2});
      ASSERT_EQ(found.size(), 4u);
      for (const identification& one : found) {
        EXPECT_GT(one.rate(), 0.97) << "layer " << one.tested_on << ", fold " << one.fold;
        EXPECT_LE(one.epochs, 40);
        EXPECT_EQ(one.learning_rate, 0.01);
      }
    }
  }
  identifiability_options two_folds{.distance = probe_distance::l2, .fit = probe_fit::least_squares, .folds = 3};
  two_folds.chosen_folds = {2, 0};
  const auto exact = p.identify(ctx_, two_folds);
  ASSERT_EQ(exact.size(), 4u);
  for (const identification& one : exact) EXPECT_EQ(one.correct, one.tokens);
  EXPECT_EQ(exact[0].fold, 0);
  EXPECT_EQ(exact[3].fold, 2);
  const auto neighbours = p.identify(ctx_, {.distance = probe_distance::cosine,
                                            .loss = probe_distance::l2,
                                            .fit = probe_fit::least_squares,
                                            .offset = 1,
                                            .folds = 1});
  for (const identification& one : neighbours) EXPECT_LT(one.rate(), 0.6);  // the next token is not in the state
}

TEST_P(token_identifiability_test, gives_chance_on_permuted_tokens) {
  planted<float> p = mixed_states<float>(120, 16, 1, 0);
  p.sentences.assign(60, 10);
  p.tokens = 600;
  p.inputs = random_numbers<float>(600 * 16, 5);
  p.hidden = random_numbers<float>(600 * 16, 6);  // of no sentence in particular
  for (const probe_map map : {probe_map::identity, probe_map::linear}) {
    const auto found = p.identify(ctx_, {.map = map,
                                         .distance = probe_distance::l2,
                                         .fit = map == probe_map::linear ? probe_fit::least_squares : probe_fit::adam,
                                         .folds = 6});
    std::int64_t tokens = 0, correct = 0;
    for (const identification& one : found) {
      tokens += one.tokens;
      correct += one.correct;
    }
    const double deviation = std::sqrt(0.1 * 0.9 / 540);  // of the rate of 540 different tokens
    EXPECT_NEAR(static_cast<double>(correct) / static_cast<double>(tokens), 0.1, 4 * deviation);
  }
}

TEST_P(token_identifiability_test, gives_the_same_bits_for_a_seed_and_other_folds_for_another) {
  const planted<float> p = mixed_states<float>(50, 12, 2, 2);
  const auto run = [&](std::uint64_t seed) {
    std::vector<double> numbers;
    for (const identification& one : p.identify(
             ctx_, {.training = {.learning_rate = 0.003, .batch = 32, .most_epochs = 5}, .folds = 3, .seed = seed})) {
      numbers.push_back(one.validation_loss);
      numbers.push_back(static_cast<double>(one.correct));
    }
    return numbers;
  };
  const std::vector<double> first = run(1);
  EXPECT_EQ(first, run(1));
  EXPECT_NE(first, run(2));
}

TEST_P(token_identifiability_test, trains_the_same_in_small_groups_and_stops_each_probe_alone) {
  const planted<float> p = mixed_states<float>(60, 12, 3, 1);
  identifiability_options options{.training = {.learning_rate = 0.02, .batch = 50, .patience = 2, .most_epochs = 60},
                                  .folds = 3};
  std::int64_t largest_group = 0;
  options.progress = [&](const probe_progress& now) { largest_group = std::max(largest_group, now.probes); };
  const auto together = p.identify(ctx_, options);
  EXPECT_EQ(largest_group, 9);
  largest_group = 0;
  options.memory = 1;  // one by one
  const auto alone = p.identify(ctx_, options);
  EXPECT_EQ(largest_group, 1);
  ASSERT_EQ(together.size(), alone.size());
  std::set<std::int64_t> epochs;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(together[i].validation_loss, alone[i].validation_loss, 1e-4) << i;
    EXPECT_EQ(together[i].tested_on, alone[i].tested_on);
    EXPECT_EQ(together[i].tokens, alone[i].tokens);
    epochs.insert(together[i].epochs);
  }
  EXPECT_GT(epochs.size(), 1u) << "all probes stopped at the same time";
}

TEST_P(token_identifiability_test, searches_learning_rates) {
  const planted<float> p = mixed_states<float>(60, 12, 2, 0.1);
  const auto found =
      p.identify(ctx_, {.training = {.rate_search = {1e-7, 0.02, 1e-6}, .batch = 50, .most_epochs = 10}, .folds = 2});
  ASSERT_EQ(found.size(), 4u);
  for (const identification& one : found) EXPECT_EQ(one.learning_rate, 0.02);
}

TEST_P(token_identifiability_test, tests_across_layers_from_layer_to_layer_and_with_less_data) {
  planted<float> p = mixed_states<float>(80, 12, 2, 0);
  // Layer 3 is layer 2 again: what finds layer 2 works there too, and the step from 3 to 2 is the identity.
  const std::vector<float> last(p.hidden.begin() + p.tokens * 12, p.hidden.end());
  p.hidden.insert(p.hidden.end(), last.begin(), last.end());
  p.layers = 3;
  identifiability_options options{.distance = probe_distance::l2, .fit = probe_fit::least_squares};
  options.layers.assign(1, 2);
  options.across_layers = true;
  options.folds = 1;
  const auto transfer = p.identify(ctx_, options);
  ASSERT_EQ(transfer.size(), 3u);
  EXPECT_LT(transfer[0].rate(), 0.8);
  EXPECT_EQ(transfer[1].rate(), 1);
  EXPECT_EQ(transfer[2].rate(), 1);
  EXPECT_EQ(transfer[2].trained_on, 2);
  EXPECT_EQ(transfer[2].tested_on, 3);
  const auto steps =
      p.identify(ctx_, {.map = probe_map::identity, .distance = probe_distance::cosine, .steps = true, .folds = 1});
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[2].rate(), 1);
  EXPECT_LT(steps[1].rate(), 0.8);
  options.across_layers = false;
  options.training_share = 0.02;  // one sentence is too little to learn a matrix
  options.on_training = true;
  const auto less = p.identify(ctx_, options);
  ASSERT_EQ(less.size(), 2u);
  EXPECT_FALSE(less[0].on_training);
  EXPECT_TRUE(less[1].on_training);
  EXPECT_LT(less[1].tokens, 10);
  EXPECT_EQ(less[1].rate(), 1);
  EXPECT_LT(less[0].rate(), 1);
}

TEST_P(token_identifiability_test, takes_equal_tokens_for_one_another_and_nan_for_none) {
  planted<float> p = mixed_states<float>(4, 3, 1, 0);
  p.sentences = {1, 4, 4, 4};
  p.tokens = 13;
  p.inputs.assign(39, 1.f);  // all tokens are equal
  p.hidden = random_numbers<float>(39, 3);
  EXPECT_EQ(p.identify(ctx_, {.map = probe_map::identity, .folds = 1})[0].rate(), 1);
  p.inputs = random_numbers<float>(39, 4);
  p.hidden.assign(39, 0.f);  // as near to all tokens: the first one is taken, and is seldom right
  const identification zero = p.identify(ctx_, {.map = probe_map::identity, .folds = 4})[1];
  EXPECT_LE(zero.correct, 1);
  p.hidden.assign(39, NAN);
  EXPECT_EQ(p.identify(ctx_, {.map = probe_map::identity, .folds = 1})[0].correct, 0);
  for (const probe_fit fit : {probe_fit::adam, probe_fit::least_squares}) {
    try {
      p.identify(ctx_, {.distance = probe_distance::l2, .fit = fit, .folds = 1});
      ADD_FAILURE() << "NaN was accepted";
    } catch (const computation_error& failure) {
      EXPECT_EQ(failure.failed_batch_ids(), (std::vector<std::int64_t>{1}));
    }
  }
}

TEST_P(token_identifiability_test, refuses_bad_input) {
  const planted<float> p = mixed_states<float>(10, 4, 2, 0);
  const auto message = [&](const identifiability_options& options) {
    return message_of<invalid_argument>([&] { p.identify(ctx_, options); });
  };
  EXPECT_NE(message({.folds = 11}).find("with 10 sentences"), std::string::npos);
  identifiability_options changed;
  changed.layers = {3};
  EXPECT_NE(message(changed).find("there is no layer 3; hidden has 2"), std::string::npos);
  changed.layers = {0};
  EXPECT_NE(message(changed).find("layer 0"), std::string::npos);
  changed = {};
  changed.training.batch = 0;
  EXPECT_NE(message(changed).find("batch is 0"), std::string::npos);
  changed = {};
  changed.training.learning_rate = NAN;
  EXPECT_NE(message(changed).find("learning rates"), std::string::npos);
  changed = {};
  changed.folds = 2;
  changed.chosen_folds = {2};
  EXPECT_NE(message(changed).find("fold 2 of 2"), std::string::npos);
  EXPECT_NE(message({.offset = 9, .folds = 1}).find("offset 9"), std::string::npos);
  EXPECT_NE(message({.training_share = 0}).find("training_share"), std::string::npos);
  EXPECT_NE(message({.fit = probe_fit::least_squares}).find("least squares"), std::string::npos);
  planted<float> wrong = p;
  wrong.sentences.back() += 1;
  EXPECT_THROW(wrong.identify(ctx_, {.folds = 2}), invalid_argument);
  wrong = p;
  wrong.sentences[0] = 0;
  EXPECT_THROW(wrong.identify(ctx_, {.folds = 2}), invalid_argument);
  wrong = p;
  wrong.sentences.clear();
  EXPECT_THROW(wrong.identify(ctx_, {.folds = 1}), invalid_argument);
}

TEST_P(token_identifiability_test, reads_the_sum_of_the_embeddings_and_all_layers) {
  transformer_config config;
  config.layers = 2;
  config.width = 16;
  config.heads = 2;
  config.key_size = config.value_size = 8;
  config.feed_forward = 32;
  config.vocabulary = 40;
  config.positions = 20;
  config.embedding_norm = true;
  transformer<float> model(ctx_, config);
  model.initialise(ctx_, 3);
  const std::vector<token_batch::sequence> texts{{{1, 2, 3, 4, 5}}, {{7}}, {{9, 8, 7, 30, 31, 32, 33}}};
  const token_states<float> states = read_token_states(ctx_, model, texts);
  EXPECT_EQ(states.sentences, (std::vector<std::int64_t>{5, 1, 7}));
  EXPECT_EQ(states.inputs.shape(), (std::vector<std::int64_t>{13, 16}));
  EXPECT_EQ(states.hidden.shape(), (std::vector<std::int64_t>{2, 13, 16}));
  const std::vector<float> values = model.values().to_host(), inputs = states.inputs.to_host(),
                           hidden = states.hidden.to_host();
  const auto table = [&](const char* name) {
    for (const parameter& one : model.parameters()) {
      if (one.name == name) return one.offset;
    }
    return std::int64_t{-1};
  };
  std::int64_t token = 0;
  for (const token_batch::sequence& text : texts) {
    tensor<float> alone(ctx_, {3, 1, std::ssize(text.ids), 16});
    const token_batch batch(ctx_, config, {&text, 1});
    forward(ctx_, model, batch, forward_results<float>{.hidden = alone}).wait_and_throw();
    const std::vector<float> expected = alone.to_host();
    for (std::size_t i = 0; i < text.ids.size(); ++i, ++token) {
      for (std::int64_t c = 0; c < 16; ++c) {
        const float x =
            values[static_cast<std::size_t>(table("embedding.token") + text.ids[i] * 16 + c)] +
            values[static_cast<std::size_t>(table("embedding.position") + static_cast<std::int64_t>(i) * 16 + c)];
        EXPECT_FLOAT_EQ(inputs[static_cast<std::size_t>(token * 16 + c)], x);
        for (std::int64_t l = 0; l < 2; ++l) {
          const std::int64_t length = std::ssize(text.ids);
          EXPECT_NEAR(hidden[static_cast<std::size_t>((l * 13 + token) * 16 + c)],
                      expected[static_cast<std::size_t>(((l + 1) * length + static_cast<std::int64_t>(i)) * 16 + c)],
                      1e-5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace nullscope::test
