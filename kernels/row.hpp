/// How a team walks along a row.
#pragma once

#include "pack.hpp"
#include "team.hpp"

namespace nullscope::kernels {

/// Which lanes of a pack lie inside the row: all, or the first `count`.
struct all_lanes {};
struct first_lanes {
  std::int64_t count;
};

/// One row of a view. With more than one lane the elements must be neighbours (stride 1); one lane takes any stride. A
/// row that streams is written past the caches, and begins at a multiple of the bytes of a pack.
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
  /// `fill` stands in the lanes beyond the end.
  pack<number, W> load(std::int64_t column, first_lanes lanes, number fill = {}) const {
    return load_tail<W>(data + column, lanes.count, fill);
  }

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

/// One row of a view (batch, rows, columns).
template <int W, bool Streams = false, class View>
auto row_of(const View& x, row_index i) {
  return row<typename View::element, W, Streams>{x.data + i.batch * x.stride[0] + i.row * x.stride[1], x.stride[2]};
}

/// The rows of block number `block` of a view (batch, rows, columns), `size` rows a block, one after the other.
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
  row_index current() const { return index_; }
  void advance() {
    --left_;
    if (++index_.row == rows_) {
      index_.row = 0;
      ++index_.batch;
    }
  }

 private:
  std::int64_t rows_, left_;
  row_index index_;
};

/// Calls visit(slot, column, lanes) for the packs of a row that are this work-item's. `slot` counts from 0 to Slots -
/// 1, so that sums can run in several registers and need not wait for one another.
template <int W, int Slots, int Items, class Visit>
void walk(const team<Items>& members, std::int64_t columns, Visit visit) {
  constexpr std::int64_t step = W * Items;
  std::int64_t column = members.rank() * W;
  for (; column + (Slots - 1) * step + W <= columns; column += Slots * step) {
    for (int slot = 0; slot < Slots; ++slot) visit(slot, column + slot * step, all_lanes{});
  }
  for (; column + W <= columns; column += step) visit(0, column, all_lanes{});
  if constexpr (W > 1) {
    if (column < columns) visit(0, column, first_lanes{columns - column});
  }
}

/// Combines `value(column, lanes)` over the row, from `identity`, which is also what value gives for lanes beyond the
/// end.
template <class T, int W, int Items, class Value, class Combine>
T reduce_row(team<Items>& members, std::int64_t columns, T identity, Value value, Combine combine) {
  constexpr int slots = 4;
  pack<T, W> total[slots] = {identity, identity, identity, identity};
  walk<W, slots>(members, columns, [&](int slot, std::int64_t column, auto lanes) {
    total[slot] = combine(value(column, lanes), total[slot]);
  });
  return members.reduce(combine(combine(total[0], total[1]), combine(total[2], total[3])), combine);
}

}  // namespace nullscope::kernels
