/// The structure that a task gives to attention: weights W from the attention of representative inputs, for
/// `structure_norm`.
///
///   structure_accumulator<float> sums(ctx, heads, S, S);
///   for (...) sums.add(ctx, attention_of_some_inputs);             // (inputs, heads, S, S), one streaming pass
///   const auto structure = sums.extract(ctx, {.threshold = 0.4});  // structure.w: (heads, S, S)
///
/// W is the mean attention with its small entries cut, and rows normalised. Memory does not grow with the number of
/// inputs; parts that different devices or processes have summed can be merged.
#pragma once

#include <cstdint>
#include <memory>
#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/tensor.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

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
