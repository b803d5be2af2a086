/// The tokens that probes learn from and are tested on: states on the device, lists of tokens, and the kernels that
/// read them.
#pragma once

#include <cstdint>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/probes/token_identifiability.hpp>
#include <span>
#include <vector>

#include "kernels/probes/state_rows.hpp"

namespace nullscope::detail {

using token_list = std::vector<std::int32_t>;

/// Lists of tokens and which probe reads which of them, on the device.
class device_lists {
 public:
  device_lists(context& ctx, const std::vector<token_list>& lists, const std::vector<kernels::probe_choice>& of_probe,
               std::int64_t offset);

  /// Of the longest list.
  std::int64_t longest() const { return lists_.longest; }
  kernels::probe_lists from(std::int64_t first) const {
    kernels::probe_lists part = lists_;
    part.first = first;
    return part;
  }

 private:
  tensor<std::int32_t> tokens_, counts_;
  tensor<kernels::probe_choice> of_probe_;
  kernels::probe_lists lists_;
};

template <class T>
class probe_data {
 public:
  /// Shapes have been checked. Lengths of the states are computed for the inputs, and for all planes if `all_planes`.
  probe_data(context& ctx, const tensor<T>& inputs, const tensor<T>& hidden, std::span<const std::int64_t> sentences,
             bool all_planes);

  std::int64_t width() const { return states_.width; }
  std::int64_t layers() const { return layers_; }

  /// The tokens of these sentences that have a neighbour at `offset`.
  token_list tokens_of(std::span<const std::int64_t> sentences, std::int64_t offset) const;

  /// e (probes, rows, d): the sources, zeros behind the end of a list.
  void gather(operation& op, const kernels::probe_lists& lists, const view<T, 3>& e) const;

  /// loss (probes, rows) of y against the targets; y becomes the gradient of the mean loss if `with_gradient`.
  void loss(operation& op, const kernels::probe_lists& lists, probe_distance distance, const view<T, 3>& y,
            const view<T, 2>& loss, bool with_gradient) const;

  /// correct (probes, rows): 1 where the nearest token of the sentence is the right one.
  void nearest(operation& op, const kernels::probe_lists& lists, probe_distance distance, const view<const T, 3>& y,
               const view<std::int32_t, 2>& correct) const;

 private:
  kernels::state_rows<T> states_;
  std::int64_t layers_;
  std::vector<std::int64_t> first_token_;  // of each sentence, and the end
  tensor<std::int32_t> begin_, end_;       // (tokens): of the sentence of each token
  tensor<T> norms_;                        // (planes, tokens)
};

}  // namespace nullscope::detail
