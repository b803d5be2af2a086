/// What the attention kernels share: how a work-group is laid out, its local memory, and which keys a query sees.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

#include "pack.hpp"
#include "work_group.hpp"

namespace nullscope::kernels {

/// A work-group of Workers x Lanes work-items; each worker (its lanes together) computes tiles of Rows queries by
/// Packs packs of W lanes a work-item, and walks along the keys in blocks of KeyBlock.
template <int W, int Rows, int Packs, int Lanes, int Workers, int KeyBlock>
struct attention_tile_shape {
  static constexpr int width = W, rows = Rows, packs = Packs, lanes = Lanes, workers = Workers, key_block = KeyBlock;
  static constexpr int work_items = Lanes * Workers;
  static constexpr int pack_distance = W * Lanes;        // from one pack of a work-item to its next
  static constexpr int columns = Packs * pack_distance;  // of a panel of keys or values
  static constexpr int score_stride = KeyBlock + 16;     // off a power of two, which would collide in the cache
  static_assert(KeyBlock % columns == 0);
};

/// Which keys a query sees: the first `length` of its batch entry, and with `causal` none after itself, the last query
/// being the last key's.
struct attention_visibility {
  const std::int64_t* lengths;  // (batch); null: all keys
  bool causal;
  std::int64_t causal_shift;  // keys - queries

  std::int64_t keys_of(std::int64_t batch, std::int64_t query, std::int64_t keys) const {
    std::int64_t visible = lengths != nullptr ? std::min(lengths[batch], keys) : keys;
    if (causal) visible = std::min(visible, query + causal_shift + 1);
    return std::max<std::int64_t>(visible, 0);
  }

  /// The first query that may see this key.
  std::int64_t first_query_of(std::int64_t key) const {
    return causal ? std::max<std::int64_t>(key - causal_shift, 0) : 0;
  }
};

/// x in the first `count` lanes (none if it is negative), 0 in the others.
template <class T, int W>
pack<T, W> first_lanes_of(pack<T, W> x, std::int64_t count) {
  if constexpr (W == 1) {
    return count > 0 ? x : pack<T, 1>(T(0));
  } else {
    pack<T, W> number;  // of the lane, to compare with
    for (int l = 0; l < W; ++l) number.set(l, static_cast<T>(l));
    const T limit = static_cast<T>(std::clamp<std::int64_t>(count, 0, W));
    return where_less(number, pack<T, W>(limit), x, pack<T, W>(T(0)));
  }
}

/// The local memory of a work-group that takes `panels` panels of queries.
template <class T, class Shape>
struct attention_local {
  std::int64_t dk, out_stride;
  T* scores;          // (workers, rows, score_stride)
  T* outs;            // (panels * rows, out_stride)
  T *sum, *squares;   // (2, panels * rows, lanes, width): before and after a block, in turn
  T* queries;         // (panels, dk, rows)
  T* partial;         // (panels * rows, lanes)
  T* offset;          // (panels * rows)
  int* objection;     // of any work-item, see all_agree
  std::int64_t rows;  // of all panels

  static std::int64_t padded_columns(std::int64_t columns) {
    return (columns + Shape::columns - 1) / Shape::columns * Shape::columns;
  }

  attention_local(std::byte* local, std::int64_t panels, std::int64_t key_width, std::int64_t dv)
      : dk(key_width), out_stride(padded_columns(dv)) {
    rows = panels * Shape::rows;
    scores = reinterpret_cast<T*>(local);
    outs = scores + Shape::workers * Shape::rows * Shape::score_stride;
    sum = outs + rows * out_stride;
    squares = sum + 2 * rows * Shape::pack_distance;
    queries = squares + 2 * rows * Shape::pack_distance;
    partial = queries + rows * dk;
    offset = partial + rows * Shape::lanes;
    objection = reinterpret_cast<int*>(offset + rows);
  }

  static std::int64_t bytes(std::int64_t panels, std::int64_t dk, std::int64_t dv) {
    const std::int64_t of_row = padded_columns(dv) + dk + 4 * Shape::pack_distance + Shape::lanes + 1;
    return static_cast<std::int64_t>(sizeof(T)) * Shape::rows *
               (Shape::workers * Shape::score_stride + panels * of_row) +
           static_cast<std::int64_t>(sizeof(int));
  }

  /// Whether all work-items of the group say yes. Every one must come here, and `forget` before the next time. (Not
  /// every SYCL has reductions over a work-group for each device.)
  bool all_agree(const sycl::nd_item<1>& item, bool mine) const {
    if constexpr (Shape::work_items == 1) {
      return mine;
    } else {
      using flag = sycl::atomic_ref<int, sycl::memory_order::relaxed, sycl::memory_scope::work_group>;
      if (!mine) flag(*objection).store(1);
      barrier<false>(item);
      return flag(*objection).load() == 0;
    }
  }

  /// Between two barriers, after all have seen what `all_agree` said.
  void forget(int id) const {
    if (Shape::work_items > 1 && id == 0) *objection = 0;
  }

  /// Of the sums of row r and a lane.
  std::int64_t place(int turn, std::int64_t r, int lane) const {
    return (turn * rows + r) * Shape::pack_distance + lane * Shape::width;
  }
  T* query_panel(std::int64_t panel) const { return queries + panel * dk * Shape::rows; }
  T* out_panel(std::int64_t panel) const { return outs + panel * Shape::rows * out_stride; }
};

}  // namespace nullscope::kernels
