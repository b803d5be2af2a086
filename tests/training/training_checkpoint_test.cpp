/// What is kept of a training run: checkpoints to the bit, and folders of trained models.
#include <nullscope/model/model_folder.hpp>
#include <nullscope/training/text_classifier.hpp>

#include <cmath>
#include <fstream>

#include "tests/cli/command.hpp"
#include "tests/training/training_support.hpp"

namespace nullscope {
namespace {

using test::everything;
using test::message_of;
using test::temporary_folder;
using test::toy_config;
using test::toy_examples;
using test::with_dropout;

class training_checkpoint_test : public test::training_fixture {};

TEST_P(training_checkpoint_test, ResumesToTheBit) {
  const temporary_folder folder;
  const std::vector<training_example> examples = toy_examples(40);
  const data_split split = split_examples(40, 1);
  training_run_options options{.epochs = 3, .batch = 4, .identity = "toy"};
  trainer<float> whole = toy_trainer(everything(), with_dropout());
  const training_history expected = train(whole, examples, split, options);

  options.checkpoint = folder / "checkpoint.safetensors";
  options.resume = true;
  training_history history;
  for (int interruptions = 0;; ++interruptions) {
    ASSERT_LT(interruptions, 100);
    std::int64_t calls = 0;
    options.go_on = [&](const training_progress& progress) {
      EXPECT_LE(progress.batch, progress.batches);
      return ++calls < 2;  // at the end of an epoch, or at the next tick
    };
    trainer<float> part = toy_trainer(everything(), with_dropout());
    history = train(part, examples, split, options);
    if (history.was_interrupted) continue;
    EXPECT_GE(interruptions, 1);
    EXPECT_EQ(parameters(part), parameters(whole));
    break;
  }
  ASSERT_EQ(history.epochs.size(), expected.epochs.size());
  EXPECT_EQ(history.best_epoch, expected.best_epoch);
  for (std::size_t i = 0; i < history.epochs.size(); ++i) {
    EXPECT_EQ(history.epochs[i].training_loss, expected.epochs[i].training_loss);
    EXPECT_EQ(history.epochs[i].validation_loss, expected.epochs[i].validation_loss);
    EXPECT_EQ(history.epochs[i].steps, expected.epochs[i].steps);
  }

  // In the middle of an epoch, with steps of a trainer alone.
  trainer<float> first = toy_trainer(everything(), with_dropout()), second = toy_trainer(everything(), with_dropout());
  for (int i = 0; i < 3; ++i) first.step(examples);
  first.save(folder / "middle.safetensors", "a note");
  EXPECT_EQ(second.load(folder / "middle.safetensors"), "a note");
  EXPECT_EQ(second.steps(), 3);
  for (trainer<float>* training : {&first, &second}) training->step(examples);
  EXPECT_EQ(parameters(first), parameters(second));
}

TEST_P(training_checkpoint_test, RefusesCheckpointsOfOtherRuns) {
  const temporary_folder folder;
  const std::vector<training_example> examples = toy_examples(20);
  const data_split split = split_examples(20, 1);
  training_run_options options{
      .epochs = 1, .batch = 8, .checkpoint = folder / "c", .checkpoint_seconds = 0, .identity = "a"};
  trainer<float> training = toy_trainer({});
  train(training, examples, split, options);
  options.resume = true;
  options.identity = "b";
  EXPECT_NE(message_of<file_error>([&] { train(training, examples, split, options); }).find("other settings"),
            std::string::npos);
  trainer<float> other_rate = toy_trainer({.learning_rate = 1});
  EXPECT_THROW(other_rate.load(folder / "c"), file_error);
  trainer<float> other_model = toy_trainer({}, with_dropout());
  EXPECT_THROW(other_model.load(folder / "c"), file_error);
  std::ofstream(folder / "broken") << "nothing";
  EXPECT_THROW(training.load(folder / "broken"), file_error);
  EXPECT_THROW(training.load(folder / "missing"), file_error);
  options.checkpoint = folder / "no/such/folder/c";
  EXPECT_THROW(train(training, examples, split, options), file_error);
}

TEST_P(training_checkpoint_test, StopsAtALossThatIsNotFiniteAndKeepsTheCheckpoint) {
  const temporary_folder folder;
  const std::vector<training_example> examples = toy_examples(20);
  trainer<float> training = toy_trainer({.learning_rate = std::numeric_limits<float>::max()});
  training.save(folder / "c", "before");
  const std::string before = test::content_of(folder / "c");
  for (int i = 0; i < 5; ++i) training.step(examples);
  training_sums sums;
  const std::string message = message_of<computation_error>([&] { training.add_sums(sums); });
  EXPECT_NE(message.find("the loss of step 2 is"), std::string::npos) << message;
  EXPECT_THROW(training.save(folder / "c", "after"), computation_error);
  EXPECT_EQ(test::content_of(folder / "c"), before);
}

TEST_P(training_checkpoint_test, ATrainedClassifierIsTheSameFromItsFolder) {
  const temporary_folder folder;
  const std::vector<std::string> texts{"good film", "a good one", "bad film", "so bad", "good", "bad bad"};
  word_counter counter;
  for (const std::string& text : texts) counter.add(text);
  const text_encoder encoder(counter.vocabulary());
  transformer_config config = toy_config();
  config.vocabulary = encoder.vocabulary_size();
  config.classes = 2;
  std::vector<training_example> examples;
  std::vector<text_input> inputs;
  for (const std::string& text : texts) {
    inputs.push_back({text});
    examples.push_back(example_of(config, encoder, inputs.back(), 8));
    examples.back().labels = {text.find("good") == std::string::npos ? 0 : 1};
  }
  trainer<float> training = toy_trainer({.learning_rate = 1e-2}, config);
  for (int i = 0; i < 60; ++i) training.step(examples);
  training.wait();
  save_classifier(ctx_, training.model(), encoder, {"no", "yes"}, folder / "model");
  EXPECT_THROW(save_classifier(ctx_, training.model(), encoder, {"no"}, folder / "model"), invalid_argument);

  const text_classifier<float> loaded(ctx_, folder / "model");
  EXPECT_EQ(loaded.labels(), (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(loaded.model().values().to_host(), parameters(training));
  const std::vector<text_prediction> answers = loaded.predict(ctx_, inputs, 4);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(answers[i].label, examples[i].labels[0]) << texts[i];
    EXPECT_NEAR(answers[i].probabilities[0] + answers[i].probabilities[1], 1, 1e-12);
    EXPECT_GT(answers[i].probabilities[static_cast<std::size_t>(answers[i].label)], 0.9);
  }
  EXPECT_THROW(loaded.predict(ctx_, std::vector<text_input>{{"a", "pair"}}), invalid_argument);

  // Fine-tuning: another number of classes, all else as it was.
  const transformer<float> tuned = with_new_classifier<float>(ctx_, folder / "model", 5, 1);
  EXPECT_EQ(tuned.config().classes, 5);
  const std::vector<float> before = parameters(training), after = tuned.values().to_host();
  const parameter& last = tuned.parameters().back();
  EXPECT_EQ(last.name, "classifier.bias");
  for (const parameter& p : tuned.parameters()) {
    if (p.name.starts_with("classifier.")) continue;
    for (std::int64_t i = p.offset; i < p.offset + p.size; ++i) {
      ASSERT_EQ(after[static_cast<std::size_t>(i)], before[static_cast<std::size_t>(i)]) << p.name;
    }
  }
  EXPECT_THROW(text_classifier<float>(ctx_, folder / "nothing"), file_error);
}

INSTANTIATE_TEST_SUITE_P(devices, training_checkpoint_test, testing::ValuesIn(devices()), test::device_name);

}  // namespace
}  // namespace nullscope
