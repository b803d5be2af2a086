/// What the attention kernels share: how a work-group is laid out, which keys a query sees, and weights.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/simd/pack_math.hpp"

namespace nullscope::kernels {

/// A work-group of Workers x Lanes work-items. Each worker (its lanes together) computes tiles of Rows queries by Packs
/// packs of W lanes per work-item, and walks along the keys in blocks of KeyBlock.
template <int W, int Rows, int Packs, int Lanes, int Workers, int KeyBlock>
struct attention_tile_shape {
  static constexpr int width = W, rows = Rows, packs = Packs, lanes = Lanes, workers = Workers, key_block = KeyBlock;
  static constexpr int work_items = Lanes * Workers;
  static constexpr int pack_distance = W * Lanes;        // from one pack of a work-item to its next
  static constexpr int columns = Packs * pack_distance;  // of a panel of keys or values
  // Off a power of two, which would collide in the cache. On GPUs the tiles of neighbouring workers, Rows rows apart,
  // begin 16 banks of local memory apart.
  static constexpr int score_stride = KeyBlock + (W == 1 ? 16 / Rows : 16);
  static_assert(KeyBlock % columns == 0);
};

/// A work-group of one work-item, whose lanes are queries: tiles of Rows keys, or columns of values, by Packs packs of
/// W queries, and blocks of KeyBlock keys.
template <int W, int Rows, int Packs, int KeyBlock>
struct attention_query_lanes {
  static constexpr int width = W, rows = Rows, packs = Packs, key_block = KeyBlock;
  static constexpr int queries = Packs * W;  // of a panel
  static_assert(KeyBlock % Rows == 0 && Packs <= 3);
};

/// Which keys a query sees: the first `length` of its batch entry, and with `causal` none after its own position. The
/// last query has the position of the last key.
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

/// The weight of a key: e^x, where x = score - log_sum_exp. Rounding can make x positive; a weight is at most one.
template <class T, int W>
pack<T, W> attention_weight(pack<T, W> x) {
  return exp_of_nonpositive(min(pack<T, W>(T(0)), x));
}

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

}  // namespace nullscope::kernels
