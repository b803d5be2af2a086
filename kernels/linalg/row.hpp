/// How a group works along a row.
#pragma once

#include "kernels/group/group.hpp"
#include "kernels/simd/pack_x86.hpp"

namespace nullscope::kernels {

/// Which lanes of a pack are inside the row: all, or the first `count`.
struct all_lanes {};
struct first_lanes {
  std::int64_t count;
};

/// One row of a view. With more than one lane the elements must be neighbours (stride 1); with one lane any stride
/// works. A row that streams is written past the caches; its address is a multiple of the bytes of a pack.
template <class T, int W, bool Streams = false>
struct row {
  using number = number_of<T>;

  T* data;
  std::int64_t stride;

  /// The part that begins at `column`.
  row from(std::int64_t column) const { return {data + column * stride, stride}; }

  pack<number, W> load(std::int64_t column, all_lanes, number = {}) const {
    if constexpr (W == 1) {
      return kernels::load<1>(data + column * stride);
    } else {
      return kernels::load<W>(data + column);
    }
  }
  /// Lanes beyond the end get `fill`.
  pack<number, W> load(std::int64_t column, first_lanes lanes, number fill = {}) const {
    return load_tail<W>(data + column, lanes.count, fill);
  }

  /// Prefetches what is `distance` elements ahead of `column`, on a CPU, for whole packs.
  void fetch(std::int64_t column, std::int64_t distance, all_lanes) const {
    if constexpr (W > 1) kernels::fetch(data + column + distance);
  }
  void fetch(std::int64_t, std::int64_t, first_lanes) const {}

  void store(std::int64_t column, pack<number, W> x, all_lanes) const {
    if constexpr (W == 1) {
      kernels::store(data + column * stride, x);
    } else if constexpr (Streams) {
      kernels::stream(data + column, x);
    } else {
      kernels::store(data + column, x);
    }
  }
  void store(std::int64_t column, pack<number, W> x, first_lanes lanes) const {
    store_tail(data + column, x, lanes.count);
  }
};

struct row_index {
  std::int64_t batch, row;
};

/// The row of a view (batch, rows, columns) that is `below` rows below row i.
template <int W, bool Streams = false, class View>
auto row_of(const View& x, row_index i, std::int64_t below = 0) {
  return row<typename View::element, W, Streams>{x.data + i.batch * x.stride[0] + (i.row + below) * x.stride[1],
                                                 x.stride[2]};
}

/// The rows of block number `block` of a view (batch, rows, columns), one after the other; `size` rows per block.
class row_range {
 public:
  template <class View>
  row_range(const View& x, std::int64_t block, std::int64_t size) : rows_(x.extent[1]) {
    const std::int64_t first = block * size;
    left_ = sycl::min(size, x.extent[0] * rows_ - first);
    index_.batch = first / rows_;
    index_.row = first - index_.batch * rows_;
  }

  bool empty() const { return left_ <= 0; }
  /// Whether there are `count` more rows, all of the same matrix.
  bool has(int count) const { return left_ >= count && index_.row + count <= rows_; }
  row_index current() const { return index_; }
  void advance(int count) {
    left_ -= count;
    index_.row += count;
    if (index_.row == rows_) {
      index_.row = 0;
      ++index_.batch;
    }
  }

 private:
  std::int64_t rows_, left_;
  row_index index_;
};

/// How many elements ahead of its loads a kernel prefetches that takes Rows rows of x at once: a whole number of steps,
/// far enough for memory to answer in time. If rows are so long that the next ones would leave the caches again, the
/// distance stays within the row.
template <int Rows, class View>
std::int64_t fetch_distance(const View& x) {
  constexpr std::int64_t bytes = sizeof(typename View::element), least = 16384 / bytes, most = 262144 / bytes;
  const std::int64_t step = Rows * x.stride[1], size = step < 0 ? -step : step;
  if (size == 0 || size > most) return least;
  return (least + size - 1) / size * step;
}

/// Calls call(0), ..., call(Count - 1) with compile-time constants, so that the arrays they index stay in registers; a
/// loop may leave them in memory.
template <int Count, class Call>
void unrolled(Call call) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (call(std::integral_constant<int, I>{}), ...); }
  (std::make_integer_sequence<int, Count>{});
}

/// Calls visit(slot, column, lanes) for the packs of a row that belong to this work-item. `slot` cycles through 0 to
/// Slots - 1, so that sums can use several registers and do not wait for one another.
template <int W, int Slots, int Items, class Visit>
void walk(const group<Items>& members, std::int64_t columns, Visit visit) {
  constexpr std::int64_t step = W * Items;
  constexpr std::integral_constant<int, 0> first_slot;
  std::int64_t column = std::int64_t{members.rank()} * W;
  for (; column + (Slots - 1) * step + W <= columns; column += Slots * step) {
    unrolled<Slots>([&](auto slot) { visit(slot, column + slot * step, all_lanes{}); });
  }
  if constexpr (Slots > 1) {
    for (; column + W <= columns; column += step) visit(first_slot, column, all_lanes{});
  }
  if constexpr (W > 1) {
    if (column < columns) visit(first_slot, column, first_lanes{columns - column});
  }
}

/// Whether a pack fills a register of AVX-512.
template <class T, int W>
inline constexpr bool fills_512_bits = W > 1 && W * sizeof(number_of<T>) >= 64;

/// How many parts of a row a kernel writes at the same time. Four with AVX-512, whose CPUs prefetch within several
/// pages at a time. Otherwise one: AMD's CPUs write past the caches to few places at a time.
template <class T, int W>
inline constexpr int places_written = fills_512_bits<T, W> ? 4 : 1;

/// Calls visit(column, lanes) for the packs of a row that belong to this work-item: in `parts` parts of the row side by
/// side, or, with one part, `packs_per_round` packs at a time.
template <int W, int parts, int packs_per_round, int Items, class Visit>
void walk_in_parts(const group<Items>& members, std::int64_t columns, Visit visit) {
  const std::int64_t part = parts == 1 ? 0 : columns / (parts * W) * W;
  for (std::int64_t column = 0; column < part; column += W) {
    unrolled<parts>([&](auto i) { visit(i * part + column, all_lanes{}); });
  }
  walk<W, parts == 1 ? packs_per_round : 1>(
      members, columns - parts * part,
      [&](auto, std::int64_t column, auto lanes) { visit(parts * part + column, lanes); });
}

/// How many registers the sum of a row uses. One is enough for several rows at once and for packs of 512 bits; one row
/// in packs of 256 bits would wait for its additions. With one lane, a single register would add too many numbers for
/// its precision.
template <class T, int W, int Rows>
inline constexpr int sum_slots = W == 1 || (Rows == 1 && !fills_512_bits<T, W>) ? 4 : 1;

/// Merges the slots of a sum in pairs.
template <class Pack, int Slots, class Merge>
Pack merge_slots(const Pack (&total)[Slots], Merge merge) {
  if constexpr (Slots == 1) {
    return total[0];
  } else {
    return merge(merge(total[0], total[1]), merge(total[2], total[3]));
  }
}

/// result[r] = the reduction of row r, for Rows rows at a time: total = add(value(r, column, lanes), total), starting
/// from `identity`, then `merge` of all totals. For lanes beyond the end, value must return what does not change a
/// total.
template <class T, int W, int Rows, int Items, class Value, class Add, class Merge>
void reduce_rows(group<Items>& members, std::int64_t columns, T identity, Value value, Add add, Merge merge,
                 T (&result)[Rows]) {
  constexpr int slots = sum_slots<T, W, Rows>;
  pack<T, W> total[Rows][slots];
  for (auto& of_row : total) {
    for (pack<T, W>& slot : of_row) slot = pack<T, W>(identity);
  }
  walk<W, slots>(members, columns, [&](auto slot, std::int64_t column, auto lanes) {
    unrolled<Rows>([&](auto r) { total[r][slot] = add(value(r, column, lanes), total[r][slot]); });
  });
  unrolled<Rows>([&](auto r) { result[r] = members.reduce(merge_slots(total[r], merge), merge); });
}

}  // namespace nullscope::kernels
