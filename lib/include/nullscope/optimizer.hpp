/// Adam, AdamW and gradient clipping on flat arrays of parameters.
#pragma once

#include <cstdint>
#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

template <class T>
struct adam_operands {
  view<const T, 1> gradient;  ///< (n)
  view<const T, 1> gradient_scale =
      {};  ///< (1), on the device, times the gradient: what `clip_scale` gives; default: 1
};

/// Read and overwritten.
template <class T>
struct adam_state {
  view<T, 1> parameters;     ///< (n)
  view<T, 1> first, second;  ///< (n): running means of the gradient and of its square, zero at the start
};

struct adam_options {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = true;  ///< AdamW: the decay acts on the parameters; otherwise it is added to the gradient
  std::int64_t step = 1;  ///< counted from 1; for the bias correction
};

/// m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
/// p -= learning_rate (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon). One launch, whatever n is.
sycl::event adam(context& ctx, const adam_operands<float>& operands, const adam_state<float>& state,
                 const adam_options& options = {}, const events& dependencies = {});
sycl::event adam(context& ctx, const adam_operands<double>& operands, const adam_state<double>& state,
                 const adam_options& options = {}, const events& dependencies = {});

/// norm (1) = |gradient|, scale (1) = min(1, largest_norm / norm), 1 if largest_norm is 0. A gradient that holds NaN or
/// infinity gives NaN for both.
template <class T>
struct clip_results {
  view<T, 1> norm, scale;
};
sycl::event clip_scale(context& ctx, view<const float, 1> gradient, const clip_results<float>& results,
                       double largest_norm, const events& dependencies = {});
sycl::event clip_scale(context& ctx, view<const double, 1> gradient, const clip_results<double>& results,
                       double largest_norm, const events& dependencies = {});

}  // namespace nullscope
