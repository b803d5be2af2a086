/// The structure-aware norm of attention matrices: entries that a task relies on count more than others.
///
///   |A|_S = 1 / (rows columns) sum_ij w_ij |a_ij|,   distance: |A - B|_S,   w_ij >= 0
///
/// It is a norm if all weights are positive, and a seminorm if some are zero: then |A|_S = 0 does not mean A = 0.
/// `check_structure_weights` says which. Weights of one give the plain norm: the mean absolute value of the entries.
///
///   structure_norm(ctx, {.a = a, .weights = w}, out);             // norms
///   structure_norm(ctx, {.a = a, .weights = w, .b = b}, out);     // distances
///
/// Functions on views do not read the weights on the host: a negative weight or NaN makes the result of its matrix NaN.
/// Any strides; neighbouring columns (last stride 1) are the fast case. Throws invalid_argument (shapes, strides, null
/// pointers) and unsupported_device (double without fp64).
#pragma once

#include <cstdint>
#include <memory>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

template <class T>
struct structure_norm_operands {
  view<const T, 3> a;        ///< (batch, rows, columns)
  view<const T, 3> weights;  ///< (batch or 1, rows, columns)
  view<const T, 3> b = {};   ///< (batch, rows, columns); default: zero
};

/// out (batch) = |a - b|_S; 0 for matrices without entries.
sycl::event structure_norm(context& ctx, const structure_norm_operands<float>& operands, view<float, 1> out,
                           const events& dependencies = {});
sycl::event structure_norm(context& ctx, const structure_norm_operands<double>& operands, view<double, 1> out,
                           const events& dependencies = {});

/// Attention that is not stored: strips of rows are computed, summed and forgotten.
template <class T>
struct streamed_structure_operands {
  attention_factors<T> a;       ///< (heads, ...); p and u may be absent if only the raw attention is asked for
  view<const T, 3> weights;     ///< (heads or 1, queries, keys)
  attention_factors<T> b = {};  ///< of the same shape; default: zero
};

struct streamed_structure_options {
  attention_matrix matrix = attention_matrix::raw;  ///< null_part: the distance of raw and effective attention
  double scale = 0;                                 ///< of the scores; 0: 1 / sqrt(d_k)
  bool causal = false;
  std::int64_t rows = 0;  ///< of a strip, for all heads; 0: as many as fit into a few megabytes, at least one
};

/// out (heads) = |A - B|_S. Workspace: one strip (heads, rows, keys), two with b.
sycl::event structure_norm(context& ctx, const streamed_structure_operands<float>& operands, view<float, 1> out,
                           const streamed_structure_options& options = {}, const events& dependencies = {});
sycl::event structure_norm(context& ctx, const streamed_structure_operands<double>& operands, view<double, 1> out,
                           const streamed_structure_options& options = {}, const events& dependencies = {});

enum class structure_norm_kind {
  norm,     ///< all weights are positive
  seminorm  ///< some are zero
};

/// Waits. Throws invalid_argument, naming the entry, if a weight is negative, infinite or NaN.
template <class T>
structure_norm_kind check_structure_weights(const tensor<T>& weights);

// The structure that a task gives to attention: weights W from the attention of representative inputs, for
// `structure_norm`.
//
//   structure_accumulator<float> sums(ctx, heads, S, S);
//   for (...) sums.add(ctx, attention_of_some_inputs);             // (inputs, heads, S, S), one streaming pass
//   const auto structure = sums.extract(ctx, {.threshold = 0.4});  // structure.w: (heads, S, S)
//
// W is the mean attention with its small entries cut, and rows normalised. Memory does not grow with the number of
// inputs; parts that different devices or processes have summed can be merged.

/// What becomes of a row all of whose entries are cut to zero.
enum class empty_rows {
  zeros,
  uniform  ///< 1 / columns
};

struct cut_options {
  std::int64_t inputs = 1;  ///< how many matrices were summed: the threshold is compared with their mean
  double threshold = 0.4;   ///< l: an entry m of the mean stays if m >= l, and becomes h(m) otherwise
  double factor = 0;        ///< h(m) = max(factor m, 0), from 0 to below 1
  empty_rows empty = empty_rows::zeros;
};

template <class T>
struct structure_results {
  view<T, 3> w;                        ///< (heads, rows, columns): rows sum to 1, or are empty; may be the sum itself
  view<std::int32_t, 2> emptied = {};  ///< optional, (heads, rows): 1 where the cut left nothing, else 0
};

/// W from the sum (heads, rows, columns) of attention matrices. Negative entries, which effective attention has, count
/// as below the threshold and become 0. NaN makes its own row NaN. Throws invalid_argument (shapes, strides, null
/// pointers, options out of range) and unsupported_device (double without fp64).
sycl::event extract_structure(context& ctx, view<const float, 3> sum, const structure_results<float>& results,
                              const cut_options& options, const events& dependencies = {});
sycl::event extract_structure(context& ctx, view<const double, 3> sum, const structure_results<double>& results,
                              const cut_options& options, const events& dependencies = {});

template <class T>
struct attention_structure {
  tensor<T> w;                        ///< (heads, rows, columns)
  std::vector<std::int64_t> emptied;  ///< (heads): how many rows the cut emptied
};

/// Sums of attention matrices of all heads over inputs. Calls run in order, also on an out-of-order queue.
template <class T>
class structure_accumulator {
 public:
  structure_accumulator(context& ctx, std::int64_t heads, std::int64_t queries, std::int64_t keys);

  std::int64_t inputs() const { return inputs_; }

  /// (heads, queries, keys); complete when the events of all calls are.
  const tensor<T>& sum() const { return sum_; }

  /// Adds a (inputs, heads, rows, columns), with at most as many rows and columns as the sum has: what is shorter adds
  /// to the upper left part, so that padding counts as zero. Throws invalid_argument; nothing has been added then.
  sycl::event add(context& ctx, view<const T, 4> a, const events& dependencies = {});

  /// Adds what another one has summed. Throws invalid_argument if its shape differs.
  sycl::event merge(context& ctx, const structure_accumulator& other, const events& dependencies = {});

  /// W of all inputs so far; options.inputs does not count. Waits. Throws invalid_argument if nothing has been added.
  attention_structure<T> extract(context& ctx, cut_options options = {}) const;

  /// The mean of all inputs so far. Waits.
  tensor<T> mean(context& ctx) const;

 private:
  tensor<T> sum_;
  std::int64_t inputs_ = 0;
  std::shared_ptr<sycl::event> last_ = std::make_shared<sycl::event>();  // of the calls so far
};

}  // namespace nullscope
