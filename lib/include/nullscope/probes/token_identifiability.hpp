/// Token identifiability (Brunner et al. 2020, section 4): can a hidden token still be recognised as its input token?
///
///   token i of layer l is identified if g(e_i^l) is nearest to x_i among the inputs x of its sentence
///
/// x is the sum of the embeddings before any norm. g is the identity, a matrix without bias, or an MLP with one hidden
/// layer of GELU and biases, and learns from other sentences to be near x. All layers and folds train side by side, as
/// batches of products.
///
///   const token_states<float> states = read_token_states(ctx, model, sequences);
///   for (const identification& one : token_identifiability(ctx, states.inputs, states.hidden, states.sentences,
///                                                          {.map = probe_map::linear, .folds = 10}))
///     std::printf("layer %ld, fold %ld: %.3f\n", one.tested_on, one.fold, one.rate());
///
/// Functions that allocate and wait. The same seed and options give the same bits on the same device.
#pragma once

#include <cstdint>
#include <functional>
#include <nullscope/core/context.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/model/transformer.hpp>
#include <nullscope/training/training.hpp>
#include <optional>
#include <span>
#include <vector>

namespace nullscope {

enum class probe_map { identity, linear, mlp };
enum class probe_distance {
  cosine,  ///< 1 - y x / (|y| |x|)
  l2       ///< |y - x|, squared as a loss
};
enum class probe_fit {
  adam,
  least_squares  ///< exact, by QR: the linear map with L2 as its loss
};

/// Adam as in the paper's appendix B.1: Glorot uniform weights, zero biases, beta 0.9 and 0.999.
struct probe_training {
  double learning_rate = 1e-4;
  std::vector<double> rate_search = {};  ///< if not empty: each probe takes the rate with the lowest validation loss
  std::int64_t batch = 256;
  std::int64_t patience = 20;       ///< epochs without a lower validation loss, after which a probe stops
  std::int64_t most_epochs = 1000;  ///< a probe also stops here; it keeps the parameters of its best epoch
  std::int64_t hidden_units = 1000;
};

struct probe_progress {
  std::int64_t group = 0, groups = 1;     ///< probes that train side by side, as far as the memory allows
  std::int64_t epoch = 0;                 ///< of this group, from 1
  std::int64_t step = 0, steps = 0;       ///< of this epoch
  std::int64_t training = 0, probes = 0;  ///< probes of the group that still train, and all
};

struct identifiability_options {
  probe_map map = probe_map::linear;
  probe_distance distance = probe_distance::cosine;  ///< by which the nearest input is found
  std::optional<probe_distance> loss = {};           ///< default: the same distance
  probe_fit fit = probe_fit::adam;
  probe_training training = {};

  std::vector<std::int64_t> layers = {};  ///< to train on, from 1; default: all
  bool across_layers = false;             ///< test each probe on all layers, not only on its own
  bool on_training = false;               ///< also test on the sentences of the training
  bool steps = false;         ///< from one layer to the one before: the tokens to find are those of layer l - 1
  std::int64_t offset = 0;    ///< find token i + offset; tokens without such a neighbour do not count
  double training_share = 1;  ///< of the sentences of the training, above 0

  std::int64_t folds = 10;
  std::vector<std::int64_t> chosen_folds = {};  ///< only these, from 0; default: all
  std::uint64_t seed = 1;
  std::int64_t memory = std::int64_t{2} << 30;               ///< bytes on the device for probes and their batches
  std::function<void(const probe_progress&)> progress = {};  ///< called a few times per epoch
};

/// How many tokens of a fold were identified by a probe.
struct identification {
  std::int64_t trained_on = 0, tested_on = 0;  ///< layers; the same for the identity
  std::int64_t fold = 0;
  bool on_training = false;  ///< tested on the sentences of the training
  std::int64_t tokens = 0, correct = 0;
  double learning_rate = 0, validation_loss = 0;  ///< of a probe that was trained
  std::int64_t epochs = 0;

  double rate() const { return static_cast<double>(correct) / static_cast<double>(tokens); }
};

/// The sentences of one fold. Sentences are shuffled once and put in a circle; the test takes 15 % from fold / folds of
/// the circle on, the validation the next 15 %, each at least one sentence, the training the rest. Throws
/// invalid_argument with fewer than 3 sentences, with more folds than sentences, or if there is no such fold.
data_split fold_sentences(std::int64_t sentences, std::int64_t fold, std::int64_t folds, std::uint64_t seed);

/// inputs (tokens, d), hidden (layers, tokens, d): the tokens of all sentences, one sentence after the other;
/// sentences[s] is the number of tokens of sentence s. Results are ordered by fold, then layer trained on, then layer
/// tested on, then test before training. Equal states count as the same token. Throws invalid_argument (shapes,
/// sentences, options) and computation_error if a loss is not finite, with the layers whose probes failed.
template <class T>
std::vector<identification> token_identifiability(context& ctx, const tensor<T>& inputs, const tensor<T>& hidden,
                                                  std::span<const std::int64_t> sentences,
                                                  const identifiability_options& options = {});

/// What `token_identifiability` takes.
template <class T>
struct token_states {
  tensor<T> inputs;  ///< (tokens, d): the sum of the embeddings, before any norm
  tensor<T> hidden;  ///< (layers, tokens, d): the output of each layer
  std::vector<std::int64_t> sentences;
};

/// The states of a model that reads sequences, without padding; short ones share a batch.
template <class T>
token_states<T> read_token_states(context& ctx, const transformer<T>& model,
                                  std::span<const token_batch::sequence> sequences,
                                  const std::function<void(double)>& progress = {});

}  // namespace nullscope
