/// The maps of probes, for many probes of one shape at a time: parameters, outputs, gradients.
#pragma once

#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/probes/token_identifiability.hpp>

namespace nullscope::detail {

/// Where the parameters of one probe lie in its flat array: w (d, d), or w1 (d, h), b1 (h), w2 (h, d), b2 (d).
struct probe_shape {
  probe_map map;
  std::int64_t width, hidden;

  std::int64_t first_weights() const { return width * columns(); }
  std::int64_t second_weights() const { return first_weights() + hidden; }
  std::int64_t second_bias() const { return second_weights() + hidden * width; }
  std::int64_t columns() const { return map == probe_map::mlp ? hidden : width; }
  std::int64_t size() const {
    if (map == probe_map::identity) return 0;
    return map == probe_map::linear ? width * width : second_bias() + width;
  }
};

/// A batch of probes: what goes in, what comes out, and what the gradient needs.
template <class T>
struct probe_activations {
  view<T, 3> e;          ///< (probes, rows, d): sources
  view<T, 3> y;          ///< (probes, rows, d): outputs; their gradient before `probe_gradients`
  view<T, 3> pre, post;  ///< (probes, rows, hidden): MLP, before and after GELU

  /// The first so many probes.
  probe_activations first(std::int64_t probes) const {
    const auto part = [&](const view<T, 3>& x) { return x.is_absent() ? x : slice(x, 0, 0, probes); };
    return {part(e), part(y), part(pre), part(post)};
  }
};

/// y = g(e); parameters (probes, size). For the identity, y should be e itself.
template <class T>
void apply_probes(context& ctx, const probe_shape& shape, const view<const T, 2>& parameters,
                  const probe_activations<T>& x);

/// gradient (probes, size) from y, which holds dL / dy. Overwrites `post`.
template <class T>
void probe_gradients(context& ctx, const probe_shape& shape, const view<const T, 2>& parameters,
                     const probe_activations<T>& x, const view<T, 2>& gradient);

/// Glorot uniform weights and zero biases of one probe (size), as steps of the operation.
template <class T>
void initialise_probe(operation& op, const probe_shape& shape, const view<T, 1>& parameters, std::uint64_t seed,
                      std::uint64_t stream);

}  // namespace nullscope::detail
