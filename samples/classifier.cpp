/// Trains a classifier of sentences from scratch, saves it, loads it and uses it.
///
///   classifier <folder for the model>
#include <cstdio>
#include <nullscope/core/device.hpp>
#include <nullscope/training/text_classifier.hpp>
#include <nullscope/training/training.hpp>

using namespace nullscope;

namespace {

/// Sentences about the weather (class 0) and about food (class 1).
std::vector<std::pair<std::string, std::int32_t>> sentences() {
  std::vector<std::pair<std::string, std::int32_t>> result;
  for (const char* when : {"Today", "In the morning", "On Sunday", "Tomorrow", "At noon"}) {
    for (const char* sky : {"the sun shines", "it rains", "the wind is cold", "clouds pass by"}) {
      result.emplace_back(std::string(when) + " " + sky + ".", 0);
    }
    for (const char* meal : {"we eat soup", "she bakes bread", "the cheese is good", "he cooks rice"}) {
      result.emplace_back(std::string(when) + " " + meal + ".", 1);
    }
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::printf("usage: classifier <folder for the model>\n"), 2;
  context ctx(select_device());

  // A vocabulary of the words that occur, and a small transformer: one layer, two heads with d_k = 4.
  word_counter counter;
  for (const auto& [text, label] : sentences()) counter.add(text);
  const text_encoder encoder(counter.vocabulary());
  transformer_config config;
  config.width = 32;
  config.heads = 2;
  config.key_size = 4;
  config.value_size = 16;
  config.feed_forward = 64;
  config.positions = 16;
  config.vocabulary = encoder.vocabulary_size();
  config.classes = 2;
  transformer<float> model(ctx, config);
  model.initialise(ctx, 1);

  std::vector<training_example> examples;
  for (const auto& [text, label] : sentences()) {
    examples.push_back(example_of(config, encoder, {text}, config.positions));
    examples.back().labels = {label};
  }
  const data_split split = split_examples(std::ssize(examples), 1);
  trainer<float> training(ctx, std::move(model), {.learning_rate = 0.003});
  const training_history history = train(training, examples, split, {.epochs = 20, .batch = 8});
  std::printf("loss %.3f -> %.3f\n", history.epochs.front().training_loss, history.epochs.back().training_loss);
  std::printf("test accuracy %.2f\n", training.evaluate(pick(examples, split.test)).accuracy());
  save_classifier(ctx, training.model(), encoder, {"weather", "food"}, argv[1]);

  const text_classifier<float> classifier(ctx, argv[1]);
  const std::vector<text_input> texts{{"Tomorrow she cooks soup."}, {"On Sunday the clouds rain."}};
  const std::vector<text_prediction> answers = classifier.predict(ctx, texts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto label = static_cast<std::size_t>(answers[i].label);
    std::printf("%s -> %s (%.3f)\n", texts[i].text.c_str(), classifier.labels()[label].c_str(),
                answers[i].probabilities[label]);
  }
}
