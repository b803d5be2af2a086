/// The norm as a block of a layer: it adds up what reaches it, and may leave the biases of the next product.
#pragma once

#include <nullscope/model/transformer.hpp>

#include "lib/src/model/pass.hpp"
#include "lib/src/model/weights.hpp"

namespace nullscope::detail {

/// What the blocks before a norm leave for it to add up: x + residual + bias. Of a hidden state that stands in an array
/// already, x alone.
template <class T>
struct pending_sum {
  view<const T, 2> x, residual = {};
  view<const T, 1> bias = {};
};

/// The biases of a layer's q, k and v, and the rows where a norm may put them on its way: those of the array of q, k
/// and v, to which the product is then added. Absent in a narrow layer, and without biases.
template <class T>
struct prepared_bias {
  view<const T, 1> bias = {};
  view<T, 2> rows = {};  // (rows, 2 h d_k + h d_v)

  bool is_absent() const { return rows.is_absent(); }
};

template <class T>
struct norm_results {
  view<T, 2> y;         // (rows, d)
  view<T, 2> sum = {};  // (rows, d): may be a part of the sum; absent: not kept
  norm_statistics<T> statistics = {};
  prepared_bias<T> next = {};
};

/// y = norm(x + residual + bias)
template <class T>
void norm_block(const pass<T>& p, const norm_weights<const T>& weights, const pending_sum<T>& from,
                const norm_results<T>& to);

template <class T>
struct norm_gradients {
  view<T, 2> d_sum;                  // (rows, d)
  view<const T, 2> d_residual = {};  // (rows, d): what reaches the sum by another way; added
  view<T, 1> d_bias = {};            // (d): column sums of d_sum; added to
};

/// From d_y (rows, d). Gradients of gamma and beta are added to `gradients` (absent: not computed).
template <class T>
void norm_block_backward(const pass<T>& p, const norm_weights<const T>& weights, const norm_weights<T>& gradients,
                         const view<T, 2>& sum, const norm_statistics<T>& statistics, const view<T, 2>& d_y,
                         const norm_gradients<T>& to);

}  // namespace nullscope::detail
