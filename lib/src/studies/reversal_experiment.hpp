/// The experiment on reversed sequences: a task whose attention has a structure that is known.
///
///   const reversal_result found = run_reversal(ctx);   // trains a small transformer, then looks at its attention
///
/// A transformer of one layer and one head learns to give random sequences back in reverse. Its attention is then close
/// to the antidiagonal: token i of the output reads token S - 1 - i. The weights W of the structure-aware norm are
/// extracted from many inputs, and matrices that differ from the attention of one input are compared in the plain and
/// in the structure-aware norm. Tokens enter by an embedding, which is a linear layer on one-hot vectors.
#pragma once

#include <cstdint>
#include <functional>
#include <nullscope/core/context.hpp>
#include <string>
#include <vector>

namespace nullscope {

struct reversal_options {
  std::int64_t tokens = 20;      ///< S, at least 2
  std::int64_t vocabulary = 10;  ///< at least 2
  std::int64_t width = 64, key_size = 32;
  std::int64_t value_size = 8;  ///< fewer than S - 1, so that the null space of [T, 1] has a dimension
  std::int64_t batch = 128, most_steps = 4000;
  double learning_rate = 2e-3;
  double accuracy = 0.999;    ///< of tokens never seen in training: training ends above it
  std::int64_t inputs = 100;  ///< for W
  double cut = 0.4;           ///< for the distances
  double background = 0.01;   ///< weight of the entries where W is 0, so that all weights are positive
  std::uint64_t seed = 1;
  std::function<void(std::int64_t step, double accuracy)> progress = {};
};

/// W at one threshold.
struct reversal_structure {
  double threshold;
  std::vector<float> w;    ///< (S, S)
  std::int64_t emptied;    ///< rows without an entry
  double on_antidiagonal;  ///< share of the sum of W that is on the antidiagonal; 0 if W is 0
};

/// A matrix B against the attention A of one input.
struct reversal_distance {
  std::string name;
  double plain;          ///< mean |a_ij - b_ij|
  double structure;      ///< |A - B|_S
  double output_change;  ///< |(A - B) T|_F / |A T|_F
};

struct reversal_result {
  std::int64_t steps = 0;
  double accuracy = 0;                         ///< of 1000 sequences that were not used in training
  std::vector<float> attention;                ///< (S, S) of one of them
  std::vector<reversal_structure> structures;  ///< for thresholds 0, 0.1, ..., 1
  std::vector<reversal_distance> distances;
};

/// Trains, analyses and waits. The same options give the same result on the same device. Throws invalid_argument if the
/// options cannot be.
reversal_result run_reversal(context& ctx, const reversal_options& options = {});

}  // namespace nullscope
