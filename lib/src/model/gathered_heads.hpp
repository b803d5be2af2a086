/// The heads of all layers of one sequence side by side, as the functions of effective attention take them.
#pragma once

#include <cstdint>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/model/transformer.hpp>

namespace nullscope::detail {

/// Head h of layer l is number l * heads + h. Holds one sequence of up to `tokens` tokens, which the next one
/// overwrites.
template <class T>
class gathered_heads {
 public:
  /// The model must outlive this.
  gathered_heads(context& ctx, const transformer<T>& model, std::int64_t tokens);

  std::int64_t tokens() const { return tokens_; }

  /// Copies the first `count` tokens of a sequence from the record that a forward pass filled (keep::heads), as part of
  /// an open operation. h stands for the output projections: (d_v, min(d_v, d)), with the same range and singular
  /// values of T = v h.
  attention_heads<T> gather(context& ctx, forward_record<T>& record, std::int64_t sequence, std::int64_t count);

  /// The log_sum_exp (layers * heads, count) of the scores, in the same way.
  view<const T, 2> gather_log_sum_exp(context& ctx, forward_record<T>& record, std::int64_t sequence,
                                      std::int64_t count);

 private:
  const transformer<T>& model_;
  std::int64_t tokens_;
  tensor<T> q_, k_, v_;    // (layers * heads, S, ...)
  tensor<T> log_sum_exp_;  // (layers * heads, S)
  tensor<T> h_;            // (layers * heads, d_v, min(d_v, d))
  tensor<T> bias_;         // (layers * heads, 2 S - 1), if the model has relative positions
};

}  // namespace nullscope::detail
