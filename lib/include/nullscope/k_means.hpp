/// k-means: representatives of a data set, for instance of texts by their embeddings.
///
///   const k_means_result found = k_means(ctx, x, {.clusters = 100});   // x (n, d)
///   found.representatives                                              // the member nearest to each centroid
///
/// Starts from k-means++ and alternates assignment (products of matrices on the device) and means (on the host, in
/// double). The sum of squared distances never rises. Depends on x, options and device alone.
#pragma once

#include <cstdint>
#include <nullscope/context.hpp>
#include <nullscope/tensor.hpp>
#include <vector>

namespace nullscope {

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
