/// Attention between classes of tokens: how much queries of one class attend to keys of another, in raw and effective
/// attention, and how spread out it is. Matrices are formed tile by tile, in bounded memory.
///
/// A class is a number per token; which class is which is the caller's business ([CLS], [SEP], punctuation, ...).
/// Classes that are negative, or not below the number of classes, count nowhere.
///
/// Overwrites the results. Deterministic. Throws invalid_argument (shapes, strides, null pointers) or
/// unsupported_device (double without fp64); see context.hpp.
#pragma once

#include <cstdint>
#include <nullscope/context.hpp>
#include <nullscope/effective_attention.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/view.hpp>

namespace nullscope {

/// The class of each query and of each key, on the device.
struct class_views {
  view<const std::int32_t, 1> queries, keys;
};

/// Any matrices, such as those of `attention_part` or `attention_rollout`.
template <class T>
struct class_sum_operands {
  view<const T, 3> x;  ///< (batch, queries, keys)
  class_views classes;
};

/// sums (batch, classes, classes): entry (a, b) is the sum of x_ij over queries i of class a and keys j of class b.
/// Cost: 2 queries keys classes flops per matrix.
sycl::event class_sums(context& ctx, const class_sum_operands<float>& operands, view<float, 3> sums,
                       const events& dependencies = {});
sycl::event class_sums(context& ctx, const class_sum_operands<double>& operands, view<double, 3> sums,
                       const events& dependencies = {});

/// q, k, and what `effective_attention` or `effective_attention_by_rows` made of them.
template <class T>
struct attention_class_operands {
  attention_factors<T> factors;
  class_views classes;
};

template <class T>
struct attention_class_results {
  view<T, 3> raw;           ///< (heads, classes, classes): sums of A, as above
  view<T, 3> effective;     ///< the same of A_perp; that of A_par is the difference
  view<T, 2> entropy = {};  ///< (heads, queries), optional: of the rows of A, in nats
};

struct attention_class_options {
  double scale = 0;      ///< as for `effective_attention`
  bool causal = false;   ///< as for `effective_attention`
  bool by_rows = false;  ///< as for `attention_part`

  /// Workspace for tiles of A and A_perp, about; at least one row of each head.
  std::int64_t tile_bytes = 64 << 20;
};

/// Cost: that of `attention_part` for all of A and A_perp, and of their class sums.
sycl::event attention_classes(context& ctx, const attention_class_operands<float>& operands,
                              const attention_class_results<float>& results,
                              const attention_class_options& options = {}, const events& dependencies = {});
sycl::event attention_classes(context& ctx, const attention_class_operands<double>& operands,
                              const attention_class_results<double>& results,
                              const attention_class_options& options = {}, const events& dependencies = {});

}  // namespace nullscope
