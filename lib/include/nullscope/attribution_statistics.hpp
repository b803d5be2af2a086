/// Statistics of Hidden Token Attribution over many texts, as in Brunner et al. 2020 (figures 3, 4, 18 and 26 to 37).
/// Host code that needs no SYCL.
///
///   attribution_statistics all;
///   for (...) all.add(of, {.classes = classes, .separator = 12});
///   all.own(0).median;                                // of layer all.layers()[0]
#pragma once

#include <cstdint>
#include <map>
#include <nullscope/hidden_token_attribution.hpp>
#include <span>
#include <string>
#include <vector>

namespace nullscope {

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
