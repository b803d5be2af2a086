/// The synthetic experiments of Leemann et al. 2024: networks are trained on sequences whose labels follow a known
/// model of the words, and surrogates are fitted to what they have learnt.
#pragma once

#include <cstdint>
#include <functional>
#include <nullscope/core/context.hpp>
#include <nullscope/explain/explanations.hpp>
#include <nullscope/explain/slalom.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope {

/// Words with weights and probabilities: ids from first_word on. Sequences begin with [CLS], id class_word.
struct word_model {
  static constexpr std::int32_t class_word = 0, first_word = 1;
  std::vector<std::string> words;
  std::vector<double> weight, probability;
};

/// The ten words of the paper's table 3, from "the" (0) to "perfect" (1.5) and "worst" (-1.5).
const word_model& linear_words();

struct labelled_sequence {
  token_sequence ids;  ///< [CLS] and words
  double log_odds;     ///< of label 1, by the model that made the data
  std::int32_t label;  ///< drawn from it
};

/// Lengths are binomial with n = 30, p = 1/2 (at least 1); the log-odds are the sum of the words' weights.
std::vector<labelled_sequence> linear_data(std::int64_t count, std::uint64_t seed);

/// A SLALOM over `words` words: v normal with deviation 0.4, s = 5 |v|^1.5 plus half a normal number, centred.
slalom_model random_slalom(std::int64_t words, std::uint64_t seed);

/// Words with equal probability, lengths uniform from 1 to `longest`, log-odds by the SLALOM.
std::vector<labelled_sequence> slalom_data(const slalom_model& model, std::int64_t count, std::int64_t longest,
                                           std::uint64_t seed);

enum class network_kind {
  encoder,         ///< a transformer, read at [CLS]
  decoder,         ///< a causal transformer, read at the last token
  fully_connected  ///< two layers with ReLU between them, on the counts of the words
};

/// A network that is trained for an experiment.
struct experiment_network {
  network_kind kind = network_kind::encoder;
  std::int64_t layers = 1, width = 64, heads = 4;  ///< fully connected: only the width, of the hidden layer

  std::string name() const;  ///< "encoder, 2 layers"
};

struct experiment_training {
  std::int64_t batch = 20;
  double learning_rate = 1e-3;
  std::uint64_t seed = 1;
  std::function<void(double share)> progress = {};  ///< of this training, 0 to 1
};

/// Trains a network on the labels, in one pass over the data. `words` is their number, without [CLS]. `ctx` must
/// outlive the result. Throws invalid_argument (no data, ids out of range, a width that the heads do not divide).
explained_model train_network(context& ctx, const experiment_network& network, std::int64_t words,
                              std::span<const labelled_sequence> data, const experiment_training& training);

/// How well surrogates describe a network's log-odds on sequences that they were not fitted to.
struct surrogate_errors {
  double linear = 0, gam = 0, slalom = 0;  ///< mean squared errors
  double accuracy = 0;                     ///< of the network on the labels
  std::vector<double> network, truth;      ///< log-odds of [word], [word, word], ... for the repeated word
  std::vector<double> by_linear, by_gam, by_slalom;
  slalom_model found;
};

struct surrogate_options {
  std::int64_t samples = 10000;  ///< that surrogates are fitted to; as many again are for the errors
  double lasso = 0.01;           ///< of the GAM, which has a weight for each word at each place
  std::int64_t longest = 30;     ///< of the repeated word
  std::string_view repeated = "perfect";
  std::uint64_t seed = 2;
};

/// For a network that was trained on linear_data.
surrogate_errors compare_surrogates(context& ctx, const explained_model& network,
                                    const surrogate_options& options = {});

/// One fit of a SLALOM to a network that learnt from a planted one.
struct recovery_errors {
  double parameters = 0;       ///< mean squared error of values and importances against the planted ones
  std::vector<double> logits;  ///< the same for log-odds, of sequences up to each of the options' lengths
  double seconds = 0;          ///< of the fit alone
  std::int64_t queries = 0;
  slalom_model found;
};

struct recovery_options {
  std::int64_t words = 0;  ///< only the first so many are fitted; 0: all
  std::int64_t samples = 5000, length = 2;
  std::int64_t tested = 200;                 ///< random sequences for the error of the logits
  std::vector<std::int64_t> longest = {30};  ///< of these, once for each number
  std::uint64_t seed = 3;
};

enum class recovery_fit { least_squares, sgd, analytic };

/// Fits a SLALOM to the network's log-odds and compares it with the planted one.
recovery_errors recover_slalom(context& ctx, const explained_model& network, const slalom_model& planted,
                               recovery_fit fit, const recovery_options& options = {});

}  // namespace nullscope
