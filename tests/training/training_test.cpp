/// Training: toy tasks are learnt, runs are the same to the bit, and two ranks do what one does.
#include <nullscope/training/training.hpp>

#include <barrier>
#include <cmath>
#include <thread>

#include "tests/training/training_support.hpp"

namespace nullscope {
namespace {

using test::everything;
using test::message_of;
using test::toy_config;
using test::toy_examples;
using test::with_dropout;

class training_test : public test::training_fixture {};

TEST_P(training_test, LearnsAToyTask) {
  const std::vector<training_example> examples = toy_examples(400);
  trainer<float> training = toy_trainer({.learning_rate = 3e-3});
  const data_split split = split_examples(400, 1);
  const training_history history = train(training, examples, split, {.epochs = 60, .batch = 20});
  ASSERT_EQ(history.epochs.size(), 60u);
  EXPECT_GT(history.epochs.front().training_loss, 0.5);
  EXPECT_LT(history.epochs.back().training_loss, 0.02);
  EXPECT_EQ(history.epochs.back().training_accuracy, 1);
  EXPECT_EQ(history.epochs.back().steps, steps_of_run(280, {.epochs = 60, .batch = 20}));
  EXPECT_GT(training.evaluate(pick(examples, split.test)).accuracy(), 0.9);

  // The model is that of the best epoch, and evaluation does not depend on the batches.
  const epoch_record& best = history.epochs[static_cast<std::size_t>(history.best_epoch - 1)];
  for (const epoch_record& epoch : history.epochs) EXPECT_LE(epoch.validation_accuracy, best.validation_accuracy);
  const std::vector<training_example> validation = pick(examples, split.validation);
  for (const std::int64_t batch : {1, 7, 256}) {
    const training_sums sums = evaluate(ctx_, training.model(), validation, batch);
    EXPECT_EQ(sums.count, 60);
    EXPECT_EQ(sums.accuracy(), best.validation_accuracy);
    EXPECT_NEAR(sums.mean_loss(), best.validation_loss, 1e-5);
  }
}

TEST_P(training_test, LearnsLabelsOfTokens) {
  transformer_config config = toy_config();
  config.classes = 0;
  config.language_model = true;
  std::vector<training_example> examples = toy_examples(64);
  for (training_example& example : examples) {  // the sequence backwards; the first token does not count
    example.labels.assign(example.sequence.ids.rbegin(), example.sequence.ids.rend());
    example.labels[0] = -1;
  }
  trainer<float> training = toy_trainer({.learning_rate = 3e-3}, config);
  training_sums sums;
  for (int i = 0; i < 400; ++i) {
    training.step(examples);
    if (i == 0) training.add_sums(sums);
  }
  const double first = sums.mean_loss();
  std::int64_t labels = 0;
  for (const training_example& example : examples) labels += std::ssize(example.labels) - 1;
  EXPECT_EQ(sums.count, labels);
  const training_sums last = training.evaluate(examples, 16);
  EXPECT_EQ(last.count, labels);
  EXPECT_LT(last.mean_loss(), 0.1 * first);
  EXPECT_GT(last.accuracy(), 0.95);
}

TEST_P(training_test, IsTheSameToTheBitWheneverItsLossIsAskedFor) {
  const std::vector<training_example> examples = toy_examples(30);
  std::vector<std::vector<float>> results;
  std::vector<double> losses;
  for (const int every : {1, 3, 100}) {
    trainer<float> training = toy_trainer(everything(), with_dropout());
    training_sums sums;
    for (int i = 0; i < 10; ++i) {
      training.step(std::span(examples).subspan(static_cast<std::size_t>(3 * i), 3));
      if (i % every == 0) training.add_sums(sums);
    }
    training.add_sums(sums);
    EXPECT_EQ(sums.count, 30);
    results.push_back(parameters(training));
    losses.push_back(sums.loss);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
  trainer<float> other = toy_trainer({.learning_rate = 5e-3}, with_dropout());
  other.step(examples);
  EXPECT_NE(parameters(other), results[0]);
}

TEST_P(training_test, StopsEarly) {
  const std::vector<training_example> examples = toy_examples(40);
  trainer<float> training = toy_trainer({.learning_rate = 0});
  std::int64_t reported = 0;
  const training_history history =
      train(training, examples, split_examples(40, 1),
            {.epochs = 10, .batch = 16, .patience = 2, .after_epoch = [&](const training_history& so_far) {
               reported = std::ssize(so_far.epochs);
             }});
  EXPECT_EQ(history.best_epoch, 1);
  EXPECT_EQ(history.epochs.size(), 3u);
  EXPECT_EQ(reported, 3);
}

/// Sums of several threads, in the order of the ranks.
class thread_sums {
 public:
  explicit thread_sums(std::int64_t count) : parts_(static_cast<std::size_t>(count)), barrier_(count) {}

  void sum(std::int64_t rank, std::span<float> numbers) {
    parts_[static_cast<std::size_t>(rank)] = numbers;
    barrier_.arrive_and_wait();
    std::vector<float> total(numbers.size(), 0.0f);
    for (const std::span<float> part : parts_) {
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += part[i];
    }
    barrier_.arrive_and_wait();
    std::ranges::copy(total, numbers.begin());
    barrier_.arrive_and_wait();
  }

 private:
  std::vector<std::span<float>> parts_;
  std::barrier<> barrier_;
};

TEST_P(training_test, SeveralRanksDoWhatOneDoes) {
  const std::vector<training_example> examples = toy_examples(33);
  const data_split split = split_examples(33, 1);
  // Adam divides by the size of a gradient: with a small epsilon, rounding would decide where gradients are 0.
  training_options options{.learning_rate = 1e-2, .epsilon = 1e-2, .largest_norm = 1};
  const training_run_options run{.epochs = 2, .batch = 5};
  trainer<float> one(ctx_, model(toy_config()), options);
  const training_history expected = train(one, examples, split, run);
  const std::vector<float> wanted = parameters(one);
  for (const std::int64_t count : {2, 7}) {  // more ranks than examples in a batch
    std::vector<std::vector<float>> results(static_cast<std::size_t>(count));
    std::vector<training_history> histories(static_cast<std::size_t>(count));
    thread_sums sums(count);
    std::vector<std::thread> threads;
    for (std::int64_t rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        context ctx(GetParam());
        transformer<float> made(ctx, toy_config());
        made.initialise(ctx, 1);
        trainer<float> training(ctx, std::move(made), options,
                                {rank, count, [&, rank](std::span<float> numbers) { sums.sum(rank, numbers); }});
        histories[static_cast<std::size_t>(rank)] = train(training, examples, split, run);
        results[static_cast<std::size_t>(rank)] = parameters(training);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::int64_t rank = 0; rank < count; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      EXPECT_EQ(results[r], results[0]);
      ASSERT_EQ(histories[r].epochs.size(), 2u);
      EXPECT_NEAR(histories[r].epochs[1].training_loss, expected.epochs[1].training_loss, 1e-5);
      EXPECT_EQ(histories[r].epochs[1].validation_accuracy, expected.epochs[1].validation_accuracy);
    }
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      difference += std::pow(double(results[0][i]) - double(wanted[i]), 2);
      norm += std::pow(double(wanted[i]), 2);
    }
    EXPECT_LT(std::sqrt(difference / norm), 30 * std::numeric_limits<float>::epsilon());
  }
}

// Such a rank has only Adam to do, which reads the gradient that the sums of the next step overwrite.
TEST_P(training_test, a_rank_without_labels_waits_for_its_last_step) {
  transformer_config config = toy_config();
  config.vocabulary = 20'000;  // Adam takes long
  config.width = 64;
  const std::vector<training_example> examples = toy_examples(1);
  const auto trained = [&](context& ctx, std::int64_t rank) {
    transformer<float> made(ctx, config);
    made.initialise(ctx, 1);
    std::int64_t step = 0;
    const auto sum = [&](std::span<float> numbers) {  // what both ranks get: other gradients at every step
      const double sign = ++step % 2 == 0 ? -1 : 1;
      for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<float>(sign * static_cast<double>(i % 7));
    };
    trainer<float> training(ctx, std::move(made), {}, {rank, 2, sum});
    for (int i = 0; i < 12; ++i) training.step(examples);
    return parameters(training);
  };
  context in_order(GetParam()), out_of_order{sycl::queue(GetParam())};
  const std::vector<float> expected = trained(in_order, 1);  // the last rank has the only example
  EXPECT_EQ(trained(out_of_order, 0), expected);
}

TEST_P(training_test, RefusesWhatItCannotTrain) {
  transformer_config headless = toy_config();
  headless.classes = 0;
  EXPECT_THROW(toy_trainer({}, headless), invalid_argument);
  EXPECT_THROW(toy_trainer({.learning_rate = -1}), invalid_argument);
  EXPECT_THROW(toy_trainer({.beta1 = 1}), invalid_argument);
  EXPECT_THROW(toy_trainer({.schedule = learning_schedule::linear}), invalid_argument);
  EXPECT_THROW(trainer<float>(ctx_, model(toy_config()), {}, {2, 2, [](std::span<float>) {}}), invalid_argument);
  EXPECT_THROW(trainer<float>(ctx_, model(toy_config()), {}, {0, 2, {}}), invalid_argument);
  trainer<float> training = toy_trainer({});
  EXPECT_THROW(training.step({}), invalid_argument);
  std::vector<training_example> wrong = toy_examples(2);
  wrong[1].labels[0] = 3;
  EXPECT_THROW(training.step(wrong), invalid_argument);
  EXPECT_THROW(training.restore_best(), invalid_argument);
  EXPECT_THROW(train(training, toy_examples(2), {{0, 1}, {}, {}}), invalid_argument);
  EXPECT_THROW(train(training, toy_examples(2), {{0}, {1}, {}}, {.epochs = 0}), invalid_argument);
  EXPECT_EQ(training.steps(), 0);
}

TEST(LearningRate, WarmsUpAndDecays) {
  training_options options{.learning_rate = 2, .warm_up_steps = 4};
  EXPECT_EQ(learning_rate_at(options, 1), 0.5);
  EXPECT_EQ(learning_rate_at(options, 4), 2);
  EXPECT_EQ(learning_rate_at(options, 1000), 2);
  options.schedule = learning_schedule::linear;
  options.total_steps = 8;
  EXPECT_EQ(learning_rate_at(options, 4), 2);
  EXPECT_EQ(learning_rate_at(options, 5), 2);
  EXPECT_EQ(learning_rate_at(options, 7), 1);
  EXPECT_EQ(learning_rate_at(options, 8), 0.5);
  EXPECT_EQ(learning_rate_at(options, 9), 0);
}

INSTANTIATE_TEST_SUITE_P(devices, training_test, testing::ValuesIn(devices()), test::device_name);

}  // namespace
}  // namespace nullscope
