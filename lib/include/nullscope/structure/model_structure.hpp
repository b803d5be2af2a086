/// The structure of attention in a whole model: what `structure_accumulator` and `task_subspace` collect, for all heads
/// of all layers, in one pass over the inputs.
///
///   model_structure<float> structure(ctx, model, 128);
///   for (...) structure.add(ctx, sequences);                               // up to 128 tokens each
///   const auto w = structure.attention().extract(ctx, {.threshold = 0.4});  // (layers * heads, 128, 128)
///   const auto r = structure.subspace().basis(ctx);
///
/// Head h of layer l, both from 0, is number l * heads + h. A sequence with fewer tokens counts as padded with zeros.
/// Memory does not grow with the number of inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/context.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/model/transformer.hpp>
#include <nullscope/structure/structure_norm.hpp>
#include <nullscope/structure/task_subspace.hpp>
#include <span>
#include <vector>

namespace nullscope {

namespace detail {
template <class T>
class gathered_heads;
}

struct model_structure_options {
  bool effective = false;  ///< sum effective instead of raw attention
};

/// What an input is added to.
struct structure_parts {
  bool attention = true;  ///< the sum of attention, from which W comes
  bool subspace = true;   ///< the subspace R
};

/// How far the attention of one input is from a reference, for each head.
template <class T>
struct structure_distances {
  std::vector<T> plain;      ///< (layers * heads): mean absolute difference of the entries
  std::vector<T> structure;  ///< (layers * heads): in the structure-aware norm
};

template <class T>
class model_structure {
 public:
  /// The model must outlive this. Throws invalid_argument if it cannot read that many tokens.
  model_structure(context& ctx, const transformer<T>& model, std::int64_t tokens,
                  const model_structure_options& options = {});
  ~model_structure();

  std::int64_t heads() const { return heads_; }  ///< layers * heads of a layer
  std::int64_t tokens() const { return tokens_; }
  const structure_accumulator<T>& attention() const { return attention_; }
  const task_subspace<T>& subspace() const { return subspace_; }

  /// Reads the sequences as one batch, and adds each of them to these parts. Waits. Throws invalid_argument (what
  /// token_batch refuses; a sequence that is longer than `tokens`); nothing has been added then.
  void add(context& ctx, std::span<const token_batch::sequence> sequences, const structure_parts& parts = {});

  /// Distances of the attention of each sequence from `reference` (heads(), S, S), such as attention().mean(ctx), with
  /// `weights` of the same shape. Waits. Throws as `add`, and as `structure_norm`.
  std::vector<structure_distances<T>> distances(context& ctx, std::span<const token_batch::sequence> sequences,
                                                const tensor<T>& reference, const tensor<T>& weights);

  /// For each sequence and head the dimension of R intersected with ker(T'), of `task_subspace.hpp`; `basis` (heads(),
  /// S, k) is that of R. Waits. Throws as `add`, and computation_error if T of a head is not finite.
  std::vector<std::vector<std::int64_t>> switched_off_dimensions(context& ctx,
                                                                 std::span<const token_batch::sequence> sequences,
                                                                 const tensor<T>& basis);

 private:
  /// Calls visit(op, heads, i) for each sequence, within one operation, and waits.
  template <class Visit>
  void for_each(context& ctx, const char* function, std::span<const token_batch::sequence> sequences, Visit visit);
  view<const T, 3> dense_attention(operation& op, const attention_heads<T>& heads);

  const transformer<T>& model_;
  std::int64_t tokens_, heads_;
  model_structure_options options_;
  std::unique_ptr<detail::gathered_heads<T>> gathered_;  // of one sequence
  view<const T, 2> log_sum_exp_;                         // of the same, (heads, its tokens)
  structure_accumulator<T> attention_;
  task_subspace<T> subspace_;
};

// k-means: representatives of a data set, for instance of texts by their embeddings.
//
//   const k_means_result found = k_means(ctx, x, {.clusters = 100});   // x (n, d)
//   found.representatives                                              // the member nearest to each centroid
//
// Starts from k-means++ and alternates assignment (products of matrices on the device) and means (on the host, in
// double). The sum of squared distances never rises. Depends on x, options and device alone.

struct k_means_options {
  std::int64_t clusters = 8;           ///< from 1 to n
  std::int64_t most_iterations = 100;  ///< at least 1
  std::uint64_t seed = 1;
};

struct k_means_result {
  std::vector<double> centroids;              ///< (clusters, d)
  std::vector<std::int32_t> assignment;       ///< (n): the cluster of each member
  std::vector<std::int64_t> sizes;            ///< (clusters)
  std::vector<std::int64_t> representatives;  ///< (clusters): the member nearest to the centroid; -1: an empty cluster
  std::vector<double> inertia;  ///< of each iteration: sum of squared distances to the centroids, never rising
  double within = 0;            ///< the last one: sum of squares within clusters
  double between = 0;           ///< sum over clusters of size |centroid - mean|^2; within + between is that of all
  bool has_converged = false;   ///< the last iteration changed no assignment
};

/// x (n, d), n and d at least 1. Waits. Cost: 2 n d k flops per iteration. Throws invalid_argument (shape, options) and
/// computation_error if x holds NaN or infinity, with the rows that do.
template <class T>
k_means_result k_means(context& ctx, const tensor<T>& x, const k_means_options& options = {});

}  // namespace nullscope
