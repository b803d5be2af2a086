#include "lib/cli/train/train_setup.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/model_folder.hpp>

#include "lib/cli/commands.hpp"

namespace nullscope::cli {
namespace {

/// FNV-1a over all texts and labels.
std::uint64_t hash_of(const std::vector<labelled_text>& texts, std::uint64_t hash) {
  const auto add = [&](const std::string& text) {
    for (const char c : text + '\0') hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  };
  for (const labelled_text& text : texts) {
    add(text.input.text);
    add(text.input.pair.value_or(""));
    add(text.label);
  }
  return hash;
}

word_vocabulary words_of(const training_texts& texts, std::int64_t minimum_count) {
  word_counter counter;
  for (const std::int64_t i : texts.split.training) {
    const text_input& input = texts.data[static_cast<std::size_t>(i)].input;
    counter.add(input.text);
    if (input.pair) counter.add(*input.pair);
  }
  return counter.vocabulary({.minimum_count = minimum_count});
}

transformer_config new_config(const train_command& command, std::int64_t vocabulary, std::int64_t classes) {
  transformer_config config;
  config.layers = command.layers.value_or(1);
  config.width = command.width.value_or(512);
  config.heads = command.heads.value_or(8);
  const bool adds = command.heads_are == "added";
  const bool divides = config.width % config.heads == 0;
  if (!divides && !(adds && command.key_size)) {
    throw usage_error(fmt::format("--heads {} does not divide --width {}", config.heads, config.width));
  }
  config.key_size = command.key_size.value_or(config.width / config.heads);
  config.merge = adds ? head_merge::added : head_merge::concatenated;
  config.value_size = adds ? config.width : config.width / config.heads;
  config.feed_forward = command.feed_forward.value_or(4 * config.width);
  config.positions = command.max_length.value_or(512);
  config.causal = command.decoder;
  config.pool = command.decoder ? pooling::last : pooling::first;
  config.dropout = command.dropout.value_or(0);
  config.pairs = !command.columns.pair.empty();
  config.vocabulary = vocabulary;
  config.classes = classes;
  return config;
}

}  // namespace

training_texts::training_texts(const train_command& command)
    : data(read_labelled_texts(command.data, command.columns)) {
  labels = labels_of(data);
  if (labels.size() < 2) {
    throw file_error(
        fmt::format("{}: all labels are \"{}\"; there is nothing to learn", command.data.string(), labels.front()));
  }
  split_shares shares;
  if (!command.test.empty()) {
    test = read_labelled_texts(command.test, command.columns);
    shares = {.training = 0.7, .validation = 0.3};
  }
  try {
    split = split_examples(std::ssize(data), command.seed, shares);
  } catch (const invalid_argument& failure) {
    throw file_error(fmt::format("{}: {}", command.data.string(), failure.what()));
  }
}

std::uint64_t training_texts::fingerprint() const { return hash_of(test, hash_of(data, 0xcbf29ce484222325)); }

starting_point start_of(const train_command& command, context& ctx, const training_texts& texts) {
  const std::int64_t classes = std::ssize(texts.labels);
  if (command.from.empty()) {
    text_encoder encoder(words_of(texts, command.min_count));
    transformer<float> model(ctx, new_config(command, encoder.vocabulary_size(), classes));
    model.initialise(ctx, command.seed);
    return {std::move(encoder), std::move(model), "nullscope"};
  }
  const std::filesystem::path folder =
      resolve_model(command.from, [](std::string_view text) { fmt::print(stderr, "{}\n", text); });
  text_encoder encoder(folder);
  if (!command.columns.pair.empty() && !encoder.joins_pairs() && !describe_model(folder).config.pairs) {
    throw usage_error(fmt::format("--pair-column: {} reads one text", command.from));
  }
  return {std::move(encoder), with_new_classifier<float>(ctx, folder, classes, command.seed, command.dropout),
          describe_model(folder).family};
}

}  // namespace nullscope::cli
