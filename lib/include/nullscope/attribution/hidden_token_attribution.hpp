/// Hidden Token Attribution (Brunner et al. 2020, section 5): how much of each input token is in each hidden token.
///
///   c[l, j, i] = |de_j^l / dx_i| / sum_k |de_j^l / dx_k|
///
/// e^l is hidden state l (transformer.hpp), x the sum of token, position and segment embeddings. Tangents are pushed
/// forward through all layers at once, so that all layers cost what the last one costs. What follows attention is one
/// d x d matrix per token and layer, formed once where the number of tangents makes up for it.
///
///   const token_batch batch(ctx, model.config(), sequences);
///   for (const attribution& of : hidden_token_attribution(ctx, model, batch, {.samples = 16})) use(of.contribution);
///
/// Estimates. With `samples` = k, each token gets k random orthonormal tangents, drawn independently of other tokens.
/// d / k times the sum of their squared lengths is unbiased for the squared Frobenius norm. The norm, and with it c,
/// has a bias of order 1 / k, as a square root of a mean has: |J| is too small by about variance / (8 |J|^3). Standard
/// errors of c follow by the delta method from variances s^2 / k (1 - k / d) of the squared norms.
///
/// Rounded products. With `rounded_products`, the factors of all products with weights or merged Jacobians are rounded
/// to bfloat16, with sums in float, on the matrix engine if the device has one. The forward pass, the norms, the
/// residual stream and the tangents of attention stay in float. Contributions differ by some 2^-8 of their size, less
/// than estimates from a few dozen tangents do.
///
/// Functions on whole models: they allocate, run the forward pass and wait. Memory stays below the budget; results do
/// not depend on how the work is cut to fit it, up to rounding. Throws invalid_argument (options; a budget that does
/// not hold one tangent, with the bytes that it takes), unsupported_device, device_bad_alloc.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nullscope/core/context.hpp>
#include <nullscope/model/transformer.hpp>
#include <span>
#include <string>
#include <vector>

namespace nullscope {

enum class attribution_norm {
  frobenius,
  spectral,  ///< by power iterations, see attribution::residual; not estimated
  sum        ///< |gradient of the sum of the outputs|: what other implementations compute, for comparison
};

/// Whether what follows attention becomes one matrix per token.
enum class jacobian_merging { automatic, never, always };

struct attribution_options {
  attribution_norm norm = attribution_norm::frobenius;
  std::int64_t samples = 0;                ///< tangents per token; 0: all d, exact
  std::uint64_t seed = 0;                  ///< of the random tangents
  std::vector<std::int64_t> numbers = {};  ///< of the sequences: each has tangents of its own; default: 0, 1, ...
  std::vector<std::int64_t> layers = {};   ///< hidden states l, ascending, 1 to the number of layers; default: all
  std::int64_t from = -1;                  ///< x is hidden state `from`; -1: the sum of the embeddings, before any norm
  std::int64_t memory = std::int64_t{2} << 30;  ///< bytes on the device, without the model
  jacobian_merging merging = jacobian_merging::automatic;
  bool rounded_products = false;              ///< see below; float models only
  std::int64_t power_iterations = 50;         ///< of the spectral norm
  std::function<void(double)> progress = {};  ///< called with the share that is complete, 0 to 1
};

/// Of one sequence of S tokens. Arrays are (layers, S, S): row j is the hidden token, column i the input token.
struct attribution {
  std::int64_t tokens = 0;
  std::vector<std::int64_t> layers;
  std::vector<double> contribution;    ///< each row sums to one; NaN if all norms of a row are 0
  std::vector<double> norm;            ///< before normalisation
  std::vector<double> standard_error;  ///< of the contribution; empty unless 2 <= samples
  double residual = 0;  ///< spectral: largest |J^T J v - sigma^2 v| / sigma^2; sigma^2 is that close to an eigenvalue
};

std::vector<attribution> hidden_token_attribution(context& ctx, const transformer<float>& model,
                                                  const token_batch& batch, const attribution_options& options = {});
std::vector<attribution> hidden_token_attribution(context& ctx, const transformer<double>& model,
                                                  const token_batch& batch, const attribution_options& options = {});

/// Throws what hidden_token_attribution would throw for this batch before it computes anything, above all
/// invalid_argument if `memory` is too small. Computes nothing itself.
void check_attribution(context& ctx, const transformer<float>& model, const token_batch& batch,
                       const attribution_options& options = {});
void check_attribution(context& ctx, const transformer<double>& model, const token_batch& batch,
                       const attribution_options& options = {});

/// Flops of the matrix products for one sequence of so many tokens, to tell beforehand how long a run takes. Counts
/// what `merging` chooses if there is enough memory.
double attribution_flops(const transformer_config& config, std::int64_t tokens, const attribution_options& options);

/// Attribution between words: the Jacobian of all tokens of a word with respect to all tokens of another, in the
/// Frobenius norm. words[i] is the word of token i, 0, 1, 2, ...; negative numbers make a token a word of its own.
/// Returns the attribution with words in place of tokens, in the order of their first tokens. Standard errors are not
/// carried over. Throws invalid_argument if there are not as many words as tokens.
attribution aggregate_words(const attribution& of, std::span<const std::int32_t> words);

/// (layers, S): of each layer and hidden token, the standard errors of its contributions as a share of them, both as
/// root mean squares over the input tokens; 0 without contributions. Empty without standard errors.
std::vector<double> relative_errors(const attribution& of);

// Statistics of Hidden Token Attribution over many texts, as in Brunner et al. 2020 (figures 3, 4, 18 and 26 to 37).
// Host code that needs no SYCL.
//
//   attribution_statistics all;
//   for (...) all.add(of, {.classes = classes, .separator = 12});
//   all.own(0).median;                                // of layer all.layers()[0]

/// Of a sample: quartiles are interpolated between neighbours.
struct sample_summary {
  std::int64_t count = 0;
  double mean = 0, low = 0, median = 0, high = 0;  ///< low and high: first and third quartile
};
sample_summary summarise_sample(std::vector<double> values);

/// What is known of a text beside its attribution.
struct attributed_text {
  std::span<const std::string> classes = {};  ///< of each token; default: none
  std::span<const std::string> tags = {};     ///< of each token, for example its part of speech; default: none
  std::int64_t separator = -1;                ///< the token that ends the first text; -1: none
};

class attribution_statistics {
 public:
  /// Groups of distances |i - j|: 1, 2, 3, 4 to 5, 6 to 10, from 11 on.
  static constexpr int distance_groups = 6;
  static const char* name_of_distance(int group);

  /// Throws invalid_argument if the layers are not those of the texts before, or if there are not as many classes or
  /// tags as tokens. Hidden tokens without contributions (NaN) are left out.
  void add(const attribution& of, const attributed_text& about = {});

  std::int64_t texts() const { return texts_; }
  const std::vector<std::int64_t>& layers() const { return layers_; }

  /// Functions of a layer take its place in layers().

  /// c_jj over all tokens.
  sample_summary own(std::size_t layer) const { return summarise_sample(of_layer_[layer].own); }
  std::map<std::string, sample_summary> own_by_class(std::size_t layer) const;
  std::map<std::string, sample_summary> own_by_tag(std::size_t layer) const;

  /// The share of tokens j that are not the largest contributor to e_j.
  double not_largest(std::size_t layer) const;

  /// The mean over all tokens of the mean contribution of the neighbours in the group, left and right.
  double by_distance(std::size_t layer, int group) const;

  /// The same as a share of its sum over all layers; 0 if that is 0.
  double share_of_layers(std::size_t layer, int group) const;

  /// The share of the contributions of all other tokens that comes from i = j + offset. Shares are 0 if no other token
  /// contributes, as to the first token of a causal model.
  std::map<std::int64_t, double> by_offset(std::size_t layer) const;

  /// To the first token: the share of the contributions of all others, by position, and by position relative to the
  /// separator.
  std::map<std::int64_t, double> to_first_token(std::size_t layer) const;
  std::map<std::int64_t, double> to_first_token_around_separator(std::size_t layer) const;

 private:
  struct sums {
    std::vector<double> own;
    std::map<std::string, std::vector<double>> own_by_class, own_by_tag;
    std::int64_t not_largest = 0;
    double distance_sum[distance_groups] = {};
    std::int64_t distance_count[distance_groups] = {};
    std::map<std::int64_t, double> offset, first_token, separator;
  };

  std::int64_t texts_ = 0;
  std::vector<std::int64_t> layers_;
  std::vector<sums> of_layer_;
};

}  // namespace nullscope
