/// The bias of attention by relative positions: from weights per bucket of distances to a table, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// Where the buckets of distances begin. Half of them are for keys up to the query, half for those after it.
struct distance_buckets {
  static constexpr int most = 128;  // per half
  std::int32_t first[most];         // smallest distance of a bucket; never decreases
  std::int32_t count;               // of one half

  std::int64_t bucket(std::int64_t key_minus_query) const {
    const std::int64_t distance = key_minus_query < 0 ? -key_minus_query : key_minus_query;
    int b = count - 1;
    while (b > 0 && first[b] > distance) --b;
    return key_minus_query > 0 ? count + b : b;
  }
};

/// table (heads, 2 S - 1): one work-item per number.
template <class T>
struct relative_bias_table {
  static constexpr const char* source = __FILE__;

  view<const T, 2> weights;  // (buckets, heads)
  view<T, 2> table;
  distance_buckets buckets;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t id = static_cast<std::int64_t>(item.get_global_linear_id());
    if (id >= table.size()) return;
    const std::int64_t head = id / table.extent[1], entry = id % table.extent[1];
    table(head, entry) = weights(buckets.bucket(entry - table.extent[1] / 2), head);
  }
};

/// d_weights (buckets, heads) += d_table, summed over the distances of a bucket: one work-item per number.
template <class T>
struct relative_bias_gradient {
  static constexpr const char* source = __FILE__;

  view<const T, 2> d_table;
  view<T, 2> d_weights;
  distance_buckets buckets;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t id = static_cast<std::int64_t>(item.get_global_linear_id());
    if (id >= d_weights.size()) return;
    const std::int64_t bucket = id / d_weights.extent[1], head = id % d_weights.extent[1];
    const std::int64_t middle = d_table.extent[1] / 2;
    const bool is_after = bucket >= buckets.count;
    const std::int64_t in_half = is_after ? bucket - buckets.count : bucket;
    const bool is_last = in_half + 1 == buckets.count;
    const std::int64_t first = buckets.first[in_half], last = is_last ? middle + 1 : buckets.first[in_half + 1];
    T sum = 0;
    for (std::int64_t distance = is_after && first == 0 ? 1 : first; distance < last && distance <= middle;
         ++distance) {
      sum += d_table(head, is_after ? middle + distance : middle - distance);
    }
    d_weights(bucket, head) += sum;
  }
};

}  // namespace nullscope::kernels
