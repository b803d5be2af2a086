/// The gradient of the bias of attention: sums of d_scores over the pairs of query and key that share a number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// Which pairs (query, key) share a number of the bias.
enum class bias_sharing {
  none,       ///< each pair has its own
  diagonals,  ///< pairs of the same key - query: relative positions
  columns     ///< pairs of the same key
};

/// Sums of one block of d_scores (rows, count), from query row0 and key key0 on.
struct bias_block {
  std::int64_t matrix, chunk, row0, key0;
  int rows, count;
};

/// Sums of each matrix, `entries` numbers, which start at zero. Entry of (query, key): query * keys + key, or
/// key - query + queries - 1, or key. If pairs share numbers, each chunk of the keys has sums of its own, so that no
/// two work-groups add to the same number.
template <class T>
struct bias_gradient {
  T* sums;  // (matrices, tables, entries); null: not wanted
  bias_sharing sharing;
  std::int64_t tables, entries;  // tables: chunks if pairs share numbers, otherwise 1
  std::int64_t queries, keys;

  bool is_wanted() const { return sums != nullptr; }

  std::int64_t row_stride() const {
    return sharing == bias_sharing::none ? keys : sharing == bias_sharing::diagonals ? -1 : 0;
  }

  /// Adds a block that is in local memory; work-item `id` of Shape::work_items. The order of every sum is fixed.
  template <class Shape>
  void add(int id, const bias_block& b, const T* d_scores) const {
    const std::int64_t first = sharing == bias_sharing::diagonals ? queries - 1 : 0;
    T* const to = sums + (b.matrix * tables + b.chunk % tables) * entries + first + b.row0 * row_stride() + b.key0;
    if (Shape::work_items == 1 || sharing == bias_sharing::none) {
      for (int i = id / Shape::lanes; i < b.rows; i += Shape::workers) {
        T* const of_row = to + i * row_stride();
        for (int j = id % Shape::lanes; j < b.count; j += Shape::lanes) {
          of_row[j] += d_scores[i * Shape::score_stride + j];
        }
      }
      return;
    }
    // One work-item per number: it walks along the pairs that share it.
    const bool is_diagonal = sharing == bias_sharing::diagonals;
    const int before = is_diagonal ? b.rows - 1 : 0;  // diagonals that begin left of the block
    for (int line = id - before; line < b.count; line += Shape::work_items) {
      const int end = is_diagonal ? std::min(b.rows, b.count - line) : b.rows;
      T sum = 0;
      for (int i = is_diagonal ? std::max(0, -line) : 0; i < end; ++i) {
        sum += d_scores[i * Shape::score_stride + line + (is_diagonal ? i : 0)];
      }
      to[line] += sum;
    }
  }
};

/// d_bias = the sums of all chunks, and of all batch entries and heads that share their numbers. One work-item per
/// number.
template <class T>
struct add_bias_sums {
  static constexpr const char* source = __FILE__;

  bias_gradient<T> from;
  view<T, 4> d_bias;            // (batch, heads, queries, keys), strides may alias
  std::int64_t batches, heads;  // that have numbers of their own: 1, or as in d_bias
  std::int64_t numbers() const { return batches * heads * from.entries; }

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t id = static_cast<std::int64_t>(item.get_global_linear_id());
    if (id >= numbers()) return;
    const std::int64_t entry = id % from.entries, head = id / from.entries % heads, batch = id / from.entries / heads;
    T sum = 0;
    for (std::int64_t b = batch; b < d_bias.extent[0]; b += batches) {
      for (std::int64_t h = head; h < d_bias.extent[1]; h += heads) {
        const T* tables = from.sums + (b * d_bias.extent[1] + h) * from.tables * from.entries + entry;
        for (std::int64_t t = 0; t < from.tables; ++t) sum += tables[t * from.entries];
      }
    }
    std::int64_t query = 0, key = entry;
    if (from.sharing == bias_sharing::none) {
      query = entry / from.keys;
      key = entry % from.keys;
    } else if (from.sharing == bias_sharing::diagonals) {
      query = std::max<std::int64_t>(from.queries - 1 - entry, 0);
      key = entry - (from.queries - 1) + query;
    }
    d_bias(batch, head, query, key) = sum;
  }
};

}  // namespace nullscope::kernels
