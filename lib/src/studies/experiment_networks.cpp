/// The networks of the synthetic experiments, and their training.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/model/layers.hpp>
#include <nullscope/training/training.hpp>

#include "lib/src/core/ranges.hpp"
#include "lib/src/studies/synthetic_experiments.hpp"
#include "lib/src/training/optimizer_state.hpp"
#include "lib/src/training/training_loop.hpp"

namespace nullscope {
namespace {

constexpr std::int64_t longest_sequence = 31;  // [CLS] and 30 words

transformer_config config_of(const experiment_network& network, std::int64_t words) {
  const bool is_decoder = network.kind == network_kind::decoder;
  transformer_config config;
  config.layers = network.layers, config.width = network.width, config.heads = network.heads;
  config.key_size = config.value_size = network.width / network.heads;
  config.feed_forward = 2 * network.width;
  config.vocabulary = words + word_model::first_word;
  config.positions = longest_sequence;
  config.function = activation::gelu;
  config.classes = 2;
  config.embedding_norm = !is_decoder;
  config.order = is_decoder ? norm_order::pre : norm_order::post;
  config.causal = is_decoder;
  config.pool = is_decoder ? pooling::last : pooling::first;
  return config;
}

explained_model train_transformer(context& ctx, const experiment_network& network, std::int64_t words,
                                  std::span<const labelled_sequence> data, const experiment_training& training) {
  const transformer_config config = config_of(network, words);
  std::vector<training_example> examples;
  for (const labelled_sequence& one : data) {
    training_example& example = examples.emplace_back();
    example.sequence.ids = one.ids;
    example.labels = {one.label};
  }
  data_split split;  // nothing is chosen by validation, but a run has one
  for (std::int64_t i = 0; i < std::ssize(examples); ++i) split.training.push_back(i);
  split.validation = {0};
  training_run_options run;
  run.epochs = 1, run.batch = training.batch, run.seed = training.seed;
  if (training.progress) {
    run.go_on = [&](const training_progress& now) {
      if (now.batches > 0) training.progress(static_cast<double>(now.batch) / static_cast<double>(now.batches));
      return true;
    };
  }
  transformer<float> start(ctx, config);
  start.initialise(ctx, training.seed, transformer<float>::initialisation::bert);
  trainer<float> steps(ctx, std::move(start),
                       {.learning_rate = training.learning_rate,
                        .schedule = learning_schedule::linear,
                        .total_steps = steps_of_run(std::ssize(examples), run),
                        .seed = training.seed});
  train(steps, examples, split, run);
  steps.wait();
  const auto model = std::make_shared<transformer<float>>(ctx, config);
  model->values().copy_from(steps.model().values().to_host());
  explained_model result = explained_transformer(ctx, *model);
  result.logits = [model, ask = result.logits](std::span<const token_sequence> sequences) { return ask(sequences); };
  result.gradients = [model, ask = result.gradients](const gradient_request& request) { return ask(request); };
  return result;
}

/// logits = relu(counts w1^T + b1) w2^T + b2, with counts (rows, words), w1 (hidden, words), w2 (2, hidden).
class count_network {
 public:
  count_network(context& ctx, std::int64_t words, std::int64_t hidden, std::uint64_t seed)
      : ctx_(ctx), words_(words), hidden_(hidden), numbers_(ctx, {(words + 1 + 2) * hidden + 2}) {
    const std::int64_t first = words * hidden, second = 2 * hidden;
    const auto fill = [&](std::int64_t from, std::int64_t count, std::int64_t inputs, std::uint64_t stream) {
      const double limit = 1 / std::sqrt(static_cast<double>(inputs));
      fill_uniform(ctx, contiguous(numbers_.data() + from, count), {seed, stream}, {.low = -limit, .high = limit});
    };
    operation op(ctx, "train_network");
    fill(0, first + hidden, words, 31);
    fill(first + hidden, second + 2, hidden, 32);
    op.submit_and_wait();
  }

  /// The counts of the words (sequences, words), on the device. Throws invalid_argument if an id is out of range.
  tensor<float> counts_of(std::span<const token_sequence> sequences) const {
    std::vector<float> counts(sequences.size() * static_cast<std::size_t>(words_));
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      for (const std::int32_t id : sequences[i]) {
        if (id == word_model::class_word) continue;
        if (id < word_model::first_word || id >= word_model::first_word + words_) {
          throw invalid_argument(fmt::format("train_network: id {} of a vocabulary of {} words", id, words_));
        }
        ++counts[i * static_cast<std::size_t>(words_) + static_cast<std::size_t>(id - word_model::first_word)];
      }
    }
    return tensor<float>(ctx_, {static_cast<std::int64_t>(sequences.size()), words_}, counts);
  }

  std::vector<double> logits(std::span<const token_sequence> sequences) const {
    if (sequences.empty()) return {};
    const tensor<float> counts = counts_of(sequences);
    const std::int64_t rows = counts.shape()[0];
    tensor<float> between(ctx_, {rows, hidden_}), result(ctx_, {rows, 2});
    const layer_views<const float> at = layers(numbers_.data());
    operation op(ctx_, "train_network");
    linear(ctx_, {counts, at.w1, at.b1}, {.y = between}, {activation::relu});
    linear(ctx_, {between, at.w2, at.b2}, {.y = result});
    op.submit_and_wait();
    const std::vector<float> found = result.to_host();
    return {found.begin(), found.end()};
  }

  /// One pass over the rows, in their order.
  void train(const tensor<float>& counts, const tensor<std::int32_t>& labels, const experiment_training& training) {
    const std::int64_t rows = counts.shape()[0], steps = detail::ceil_div(rows, training.batch);
    const training_options options{
        .learning_rate = training.learning_rate, .schedule = learning_schedule::linear, .total_steps = steps};
    detail::optimizer_state<float> optimizer(ctx_, numbers_.size());
    step_memory memory(ctx_, std::min(training.batch, rows), hidden_);
    const detail::training_loop loop{
        .begin_epoch = [&](std::int64_t) { return steps; },
        .train =
            [&](const detail::loop_position& at) {
              const std::int64_t from = at.batch * training.batch, count = std::min(training.batch, rows - from);
              operation op(ctx_, "train_network");
              compute_gradient(slice(view<const float, 2>(counts), 0, from, count),
                               slice(view<const std::int32_t, 1>(labels), 0, from, count), memory.first(count),
                               layers(optimizer.gradient.data()));
              optimizer.update(ctx_, numbers_, 0, options, at.batch + 1);
              op.submit_and_wait();
              return std::int64_t{1};
            },
        .report =
            [&](const detail::loop_position& at) {
              if (training.progress) training.progress(static_cast<double>(at.batch) / static_cast<double>(steps));
              return true;
            }};
    detail::loop_position at;
    detail::run_epochs(loop, 1, at);
  }

 private:
  template <class T>
  struct layer_views {
    view<T, 2> w1;
    view<T, 1> b1;
    view<T, 2> w2;
    view<T, 1> b2;
  };

  /// What a step keeps of a batch, each (rows, hidden) or (rows, 2).
  struct step_views {
    view<float, 2> before, between, pull, result, d_result;
  };
  struct step_memory {
    tensor<float> before, between, pull, result, d_result;

    step_memory(context& ctx, std::int64_t batch, std::int64_t hidden)
        : before(ctx, {batch, hidden}),
          between(ctx, {batch, hidden}),
          pull(ctx, {batch, hidden}),
          result(ctx, {batch, 2}),
          d_result(ctx, {batch, 2}) {}

    step_views first(std::int64_t rows) {
      const auto part = [&](tensor<float>& all) { return slice(view<float, 2>(all), 0, 0, rows); };
      return {part(before), part(between), part(pull), part(result), part(d_result)};
    }
  };

  /// d = the gradient of the mean loss of these rows.
  void compute_gradient(const view<const float, 2>& x, const view<const std::int32_t, 1>& labels, const step_views& at,
                        const layer_views<float>& d) {
    const layer_views<const float> w = layers(static_cast<const float*>(numbers_.data()));
    linear(ctx_, {x, w.w1, w.b1}, {.y = at.between, .pre_activation = at.before}, {activation::relu});
    linear(ctx_, {at.between, w.w2, w.b2}, {.y = at.result});
    cross_entropy(ctx_, {at.result, labels}, {.d_logits = at.d_result});
    linear_backward(ctx_, {at.between, w.w2, at.d_result}, {at.pull, d.w2, d.b2}, {.accumulate = false});
    activation_backward(ctx_, {at.before, at.pull}, {at.pull, d.b1},
                        {.function = activation::relu, .accumulate = false});
    linear_backward(ctx_, {x, w.w1, at.pull}, {.d_w = d.w1}, {.accumulate = false});
  }

  template <class T>
  layer_views<T> layers(T* numbers) const {
    T* const b1 = numbers + words_ * hidden_;
    T* const w2 = b1 + hidden_;
    return {contiguous(numbers, hidden_, words_), contiguous(b1, hidden_), contiguous(w2, 2, hidden_),
            contiguous(w2 + 2 * hidden_, 2)};
  }

  context& ctx_;
  std::int64_t words_, hidden_;
  tensor<float> numbers_;  // w1, b1, w2, b2
};

explained_model train_fully_connected(context& ctx, std::int64_t hidden, std::int64_t words,
                                      std::span<const labelled_sequence> data, const experiment_training& training) {
  const auto network = std::make_shared<count_network>(ctx, words, hidden, training.seed);
  std::vector<token_sequence> sequences;
  std::vector<std::int32_t> labels;
  for (const labelled_sequence& one : data) {
    sequences.push_back(one.ids);
    labels.push_back(one.label);
  }
  network->train(network->counts_of(sequences), tensor<std::int32_t>(ctx, {std::ssize(labels)}, labels), training);
  return {.classes = 2,
          .logits = [network](std::span<const token_sequence> asked) { return network->logits(asked); },
          .noise = 1e-5};
}

}  // namespace

std::string experiment_network::name() const {
  if (kind == network_kind::fully_connected) return fmt::format("fully connected, {}", width);
  const char* const what = kind == network_kind::decoder ? "decoder" : "encoder";
  return fmt::format("{}, {} layer{}", what, layers, layers == 1 ? "" : "s");
}

explained_model train_network(context& ctx, const experiment_network& network, std::int64_t words,
                              std::span<const labelled_sequence> data, const experiment_training& training) {
  if (data.empty() || words < 1 || training.batch < 1 || network.width < 1 || network.layers < 1) {
    throw invalid_argument(fmt::format("train_network: {} sequences of {} words, batches of {}, width {}, {} layers",
                                       data.size(), words, training.batch, network.width, network.layers));
  }
  if (network.kind == network_kind::fully_connected) {
    return train_fully_connected(ctx, network.width, words, data, training);
  }
  if (network.heads < 1 || network.width % network.heads != 0) {
    throw invalid_argument(
        fmt::format("train_network: width {} is not a multiple of {} heads", network.width, network.heads));
  }
  return train_transformer(ctx, network, words, data, training);
}

}  // namespace nullscope
