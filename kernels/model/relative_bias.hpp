/// A bias of attention scores that depends on the distance of query and key alone, by buckets (MPNet, T5).
#pragma once

#include <cstdint>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// Buckets of distances: half of them for keys before the query or at it, half for keys after it. Small distances have
/// a bucket each; bucket small + i takes distances from starts[i] on.
struct distance_buckets {
  static constexpr int most = 64;
  std::int32_t half;   // number of buckets in each direction
  std::int32_t small;  // distances below have a bucket each
  std::int32_t starts[most];

  /// Of key position - query position.
  std::int32_t operator()(std::int64_t offset) const {
    const std::int64_t distance = offset < 0 ? -offset : offset;
    std::int32_t bucket = static_cast<std::int32_t>(distance);
    if (distance >= small) {
      bucket = small;
      while (bucket + 1 < half && distance >= starts[bucket + 1 - small]) ++bucket;
    }
    return offset > 0 ? half + bucket : bucket;
  }
};

/// table (heads, 2 S - 1): entry (h, S - 1 + offset) is weights (buckets, heads) of the bucket of `offset`, for offsets
/// from -(S - 1) to S - 1.
template <class T>
struct relative_bias {
  static constexpr const char* source = __FILE__;
  static constexpr int dimensions = 1;

  view<const T, 2> weights;
  view<T, 2> table;
  distance_buckets bucket;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t i = item.get_global_linear_id(), columns = table.extent[1];
    if (i >= table.extent[0] * columns) return;
    const std::int64_t head = i / columns, column = i % columns;
    table(head, column) = weights(bucket(column - (columns - 1) / 2), head);
  }
};

/// d_weights (buckets, heads) += the sum of d_table (heads, 2 S - 1) over the offsets of each bucket. One work-item per
/// weight, so that sums have one order.
template <class T>
struct relative_bias_backward {
  static constexpr const char* source = __FILE__;
  static constexpr int dimensions = 1;

  view<const T, 2> d_table;
  view<T, 2> d_weights;
  distance_buckets bucket;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t i = item.get_global_linear_id(), heads = d_weights.extent[1], columns = d_table.extent[1];
    if (i >= d_weights.extent[0] * heads) return;
    const std::int64_t wanted = i / heads, head = i % heads;
    T sum = 0;
    for (std::int64_t column = 0; column < columns; ++column) {
      if (bucket(column - (columns - 1) / 2) == wanted) sum += d_table(head, column);
    }
    d_weights(wanted, head) += sum;
  }
};

}  // namespace nullscope::kernels
