/// The operations that a transformer is made of, with their backward passes. Matrices are (rows, columns) with one row
/// per token; a batch of sequences is one matrix of batch * S rows.
///
/// Gradients d_x are dL / dx. Gradients of parameters (d_w, d_bias, d_gamma, d_beta, tables) are added to what is there
/// if `accumulate` is set, and overwrite it otherwise. All sums have a fixed order: the same input gives the same bits.
///
/// Float and double; `linear` also from bfloat16, with bias and results in float. Errors as context.hpp says:
/// invalid_argument names the operand and its shape.
#pragma once

#include <cstdint>
#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/random.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

/// What follows a linear layer.
enum class activation { none, relu, gelu, gelu_tanh, tanh };

/// y = f(x w^T + bias), or f(y + x w^T + bias) if `accumulate` is set
template <class T>
struct linear_operands {
  view<const T, 2> x;                      ///< (rows, in)
  view<const T, 2> w;                      ///< (out, in)
  view<const product_of<T>, 1> bias = {};  ///< (out); default: none
};
template <class T>
struct linear_results {
  view<T, 2> y;                    ///< (rows, out)
  view<T, 2> pre_activation = {};  ///< (rows, out): x w^T + bias, which `activation_backward` needs
};
struct linear_options {
  activation function = activation::none;
  bool accumulate = false;
};
sycl::event linear(context& ctx, const linear_operands<float>& operands, const linear_results<float>& results,
                   const linear_options& options = {}, const events& dependencies = {});
sycl::event linear(context& ctx, const linear_operands<double>& operands, const linear_results<double>& results,
                   const linear_options& options = {}, const events& dependencies = {});
sycl::event linear(context& ctx, const linear_operands<bfloat16>& operands, const linear_results<float>& results,
                   const linear_options& options = {}, const events& dependencies = {});

/// Gradients of a linear layer from d_y, the gradient of x w^T + bias.
template <class T>
struct linear_backward_operands {
  view<const T, 2> x;    ///< (rows, in)
  view<const T, 2> w;    ///< (out, in)
  view<const T, 2> d_y;  ///< (rows, out)
};
template <class T>
struct linear_gradients {
  view<T, 2> d_x = {};     ///< (rows, in) = d_y w; overwritten, or added to if accumulate_x
  view<T, 2> d_w = {};     ///< (out, in) = d_y^T x
  view<T, 1> d_bias = {};  ///< (out): column sums of d_y
};
struct linear_backward_options {
  bool accumulate = true;     ///< d_w and d_bias
  bool accumulate_x = false;  ///< d_x
};
sycl::event linear_backward(context& ctx, const linear_backward_operands<float>& operands,
                            const linear_gradients<float>& gradients, const linear_backward_options& options = {},
                            const events& dependencies = {});
sycl::event linear_backward(context& ctx, const linear_backward_operands<double>& operands,
                            const linear_gradients<double>& gradients, const linear_backward_options& options = {},
                            const events& dependencies = {});

/// d_x = d_y f'(x), element by element; x is the pre-activation. d_x may be d_y. With d_bias, also the column sums of
/// d_x.
template <class T>
struct activation_backward_operands {
  view<const T, 2> x, d_y;  ///< (rows, columns)
};
template <class T>
struct activation_gradients {
  view<T, 2> d_x;          ///< (rows, columns)
  view<T, 1> d_bias = {};  ///< (columns)
};
struct activation_backward_options {
  activation function = activation::gelu;
  bool accumulate = true;  ///< d_bias
};
sycl::event activation_backward(context& ctx, const activation_backward_operands<float>& operands,
                                const activation_gradients<float>& gradients,
                                const activation_backward_options& options, const events& dependencies = {});
sycl::event activation_backward(context& ctx, const activation_backward_operands<double>& operands,
                                const activation_gradients<double>& gradients,
                                const activation_backward_options& options, const events& dependencies = {});

/// sum = x + bias + residual, y = layer_norm(sum) gamma + beta. The bias is that of the linear layer which made x:
/// added here, it costs no pass of its own.
template <class T>
struct layer_norm_residual_operands {
  view<const T, 2> x;                 ///< (rows, columns)
  view<const T, 2> residual = {};     ///< (rows, columns)
  view<const T, 1> gamma, beta = {};  ///< (columns)
  view<const T, 1> bias = {};         ///< (columns); default: none
  view<const T, 1> next_bias = {};    ///< (n): see `next`
};
template <class T>
struct layer_norm_residual_results {
  view<T, 2> y;                                  ///< (rows, columns)
  view<T, 2> sum = {};                           ///< (rows, columns); may be x or residual
  view<T, 1> mean = {}, inverse_deviation = {};  ///< (rows), for the backward pass

  /// (rows, n): each row becomes next_bias. A product of y that is added to it (`linear` with `accumulate`) has its
  /// bias without a pass of its own.
  view<T, 2> next = {};
};
struct layer_norm_residual_options {
  double epsilon = 1e-5;
};
sycl::event layer_norm_residual(context& ctx, const layer_norm_residual_operands<float>& operands,
                                const layer_norm_residual_results<float>& results,
                                const layer_norm_residual_options& options = {}, const events& dependencies = {});
sycl::event layer_norm_residual(context& ctx, const layer_norm_residual_operands<double>& operands,
                                const layer_norm_residual_results<double>& results,
                                const layer_norm_residual_options& options = {}, const events& dependencies = {});

/// d_sum = J^T d_y + d_residual, where J is the Jacobian of the layer norm at `sum`. d_residual is what reaches `sum`
/// by another way (pre-LN), if there is one.
template <class T>
struct layer_norm_backward_operands {
  view<const T, 2> sum;                      ///< (rows, columns)
  view<const T, 1> gamma;                    ///< (columns)
  view<const T, 1> mean, inverse_deviation;  ///< (rows)
  view<const T, 2> d_y;                      ///< (rows, columns)
  view<const T, 2> d_residual = {};          ///< (rows, columns)
};
template <class T>
struct layer_norm_gradients {
  view<T, 2> d_sum;                      ///< (rows, columns); may be d_y or d_residual
  view<T, 1> d_gamma = {}, d_beta = {};  ///< (columns)
  view<T, 1> d_bias = {};                ///< (columns): column sums of d_sum, the gradient of a bias inside `sum`
};
struct layer_norm_backward_options {
  bool accumulate = true;  ///< d_gamma, d_beta and d_bias
};
sycl::event layer_norm_backward(context& ctx, const layer_norm_backward_operands<float>& operands,
                                const layer_norm_gradients<float>& gradients,
                                const layer_norm_backward_options& options = {}, const events& dependencies = {});
sycl::event layer_norm_backward(context& ctx, const layer_norm_backward_operands<double>& operands,
                                const layer_norm_gradients<double>& gradients,
                                const layer_norm_backward_options& options = {}, const events& dependencies = {});

/// x[b S + i] = token[ids[b, i]] + position[first_position + i] + segment[segments[b, i]].
/// Ids must be in range: they are checked where they come from the host (`token_batch`), not here; an id out of range
/// gives a row of NaN.
template <class T>
struct embedding_operands {
  view<const std::int32_t, 2> ids;            ///< (batch, S)
  view<const T, 2> token;                     ///< (vocabulary, d)
  view<const T, 2> position = {};             ///< (positions, d)
  view<const T, 2> segment = {};              ///< (segments, d)
  view<const std::int32_t, 2> segments = {};  ///< (batch, S); default: all 0
};
struct embedding_options {
  std::int64_t first_position = 0;  ///< MPNet and RoBERTa begin at 2
};
sycl::event embedding(context& ctx, const embedding_operands<float>& operands, view<float, 2> x,
                      const embedding_options& options = {}, const events& dependencies = {});
sycl::event embedding(context& ctx, const embedding_operands<double>& operands, view<double, 2> x,
                      const embedding_options& options = {}, const events& dependencies = {});

/// Gradients of the tables from d_x (batch * S, d). Rows beyond lengths[b] of a sequence do not count.
template <class T>
struct embedding_backward_operands {
  view<const std::int32_t, 2> ids;            ///< (batch, S)
  view<const T, 2> d_x;                       ///< (batch * S, d)
  view<const std::int32_t, 2> segments = {};  ///< (batch, S)
  view<const std::int64_t, 1> lengths = {};   ///< (batch)
};
template <class T>
struct embedding_gradients {
  view<T, 2> d_token = {}, d_position = {}, d_segment = {};
};
struct embedding_backward_options {
  std::int64_t first_position = 0;
  bool accumulate = true;
};
sycl::event embedding_backward(context& ctx, const embedding_backward_operands<float>& operands,
                               const embedding_gradients<float>& gradients,
                               const embedding_backward_options& options = {}, const events& dependencies = {});
sycl::event embedding_backward(context& ctx, const embedding_backward_operands<double>& operands,
                               const embedding_gradients<double>& gradients,
                               const embedding_backward_options& options = {}, const events& dependencies = {});

/// y = x / (1 - probability) where a uniform number of `stream` is at least `probability`, else 0. Element (i, j) takes
/// number i * columns + j, so that the backward pass is the same call with the gradients. y may be x.
struct dropout_options {
  double probability = 0;  ///< from 0 to below 1
  random_stream stream = {};
};
sycl::event dropout(context& ctx, view<const float, 2> x, view<float, 2> y, const dropout_options& options,
                    const events& dependencies = {});
sycl::event dropout(context& ctx, view<const double, 2> x, view<double, 2> y, const dropout_options& options,
                    const events& dependencies = {});

/// Softmax cross-entropy of rows with labels. A negative label leaves its row out of all sums; its gradient is 0.
template <class T>
struct cross_entropy_operands {
  view<const T, 2> logits;             ///< (rows, classes)
  view<const std::int32_t, 1> labels;  ///< (rows)
};
template <class T>
struct cross_entropy_results {
  view<T, 1> loss = {};                   ///< (1): mean of -log p(label) over the rows that count
  view<std::int64_t, 1> correct = {};     ///< (1): rows whose largest logit is the label's
  view<T, 1> row_loss = {};               ///< (rows): -log p(label), 0 where a row does not count
  view<T, 2> d_logits = {};               ///< (rows, classes): gradient of the mean; may be logits
  view<std::int32_t, 1> prediction = {};  ///< (rows): the class with the largest logit, the first of equals
};
sycl::event cross_entropy(context& ctx, const cross_entropy_operands<float>& operands,
                          const cross_entropy_results<float>& results, const events& dependencies = {});
sycl::event cross_entropy(context& ctx, const cross_entropy_operands<double>& operands,
                          const cross_entropy_results<double>& results, const events& dependencies = {});

/// Gradient of a softmax: d_x = y (d_y - sum_j d_y_j y_j) along each row; d_x may be d_y.
template <class T>
struct softmax_backward_operands {
  view<const T, 3> y, d_y;  ///< (batch, rows, columns)
};
sycl::event softmax_backward(context& ctx, const softmax_backward_operands<float>& operands, view<float, 3> d_x,
                             const events& dependencies = {});
sycl::event softmax_backward(context& ctx, const softmax_backward_operands<double>& operands, view<double, 3> d_x,
                             const events& dependencies = {});

}  // namespace nullscope
