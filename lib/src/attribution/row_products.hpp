/// Steps of attribution that go row by row: Jacobians of layer norms, and rows divided by their norms.
#pragma once

#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>

namespace nullscope::detail {

/// A layer norm as the forward pass saw it.
template <class T>
struct norm_at_tokens {
  view<const T, 2> sum;                      ///< (tokens, d)
  view<const T, 1> gamma;                    ///< (d)
  view<const T, 1> mean, inverse_deviation;  ///< (tokens)

  /// The tokens b * stride + first of it, for b from 0 to count - 1.
  norm_at_tokens at(std::int64_t first, std::int64_t stride, std::int64_t count) const {
    norm_at_tokens result = *this;
    const auto pick = [&](auto& x) {
      x.data += first * x.stride[0];
      x.stride[0] *= stride;
      x.extent[0] = count;
    };
    pick(result.sum);
    pick(result.mean);
    pick(result.inverse_deviation);
    return result;
  }
};

/// y (tokens, vectors, d) = J x, or J^T x, with the Jacobian J of the norm at each token. y may be x.
template <class T>
void norm_product(context& ctx, const norm_at_tokens<T>& norm, const view<const T, 3>& x, const view<T, 3>& y);
template <class T>
void norm_transposed_product(context& ctx, const norm_at_tokens<T>& norm, const view<const T, 3>& x,
                             const view<T, 3>& y);

/// norm (batch, rows) = |x| of each row; x /= norm.
template <class T>
void normalise_rows(context& ctx, const view<T, 3>& x, const view<T, 2>& norm);

}  // namespace nullscope::detail
