/// Sums and maxima down the columns of a batch of matrices, where columns are neighbours in memory.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"
#include "kernels/linalg/row_reduce.hpp"

namespace nullscope::kernels {

/// out (batch, columns) = the reduction of x (batch, rows, columns) down each column; the last stride of x is 1. A
/// group takes a strip of columns down all rows. A group of one work-item takes several packs side by side; a larger
/// one takes 32 columns, and each work-item every (Items / 32)-th row of one of them.
template <class T, reduction Kind, int W, int Items>
struct column_reduce {
  static_assert(Kind != reduction::norm, "a norm may need a second pass over its column");
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using number = number_of<T>;
  using numbers = pack<number, W>;

  static constexpr int across = Items < 32 ? 1 : 32;  // work-items side by side
  static constexpr int slices = Items / across;
  static constexpr int packs = W > 1 ? 8 : 1;
  static constexpr int strip = across * packs * W;  // columns
  static constexpr std::size_t local_bytes = slices > 1 ? Items * sizeof(number) : 0;
  static constexpr number identity = identity_of<Kind, number>;

  view<const T, 3> x;
  view<number, 2> out;

  static constexpr std::int64_t strips(std::int64_t columns) { return (columns + strip - 1) / strip; }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local);
    const std::int64_t count = strips(x.extent[2]);
    const std::int64_t batch = members.number() / count;
    const std::int64_t first = (members.number() - batch * count) * strip;
    if constexpr (W > 1) {
      if (first + strip <= x.extent[2]) {
        whole_strip(batch, first);
      } else {
        for (std::int64_t column = first; column < x.extent[2]; column += W) one_pack(batch, column);
      }
    } else {
      one_lane(members, reinterpret_cast<number*>(local), batch, first + members.rank() % across);
    }
  }

  static numbers combine(numbers element, numbers total) { return add_element<Kind>(element, total); }

  void whole_strip(std::int64_t batch, std::int64_t first) const {
    numbers total[packs];
    for (numbers& t : total) t = numbers(identity);
    const T* from = &x(batch, 0, first);
    for (std::int64_t i = 0; i < x.extent[1]; ++i, from += x.stride[1]) {
      for (int p = 0; p < packs; ++p) total[p] = combine(load<W>(from + p * W), total[p]);
    }
    for (int p = 0; p < packs; ++p) keep(batch, first + p * W, total[p], W);
  }

  void one_pack(std::int64_t batch, std::int64_t column) const {
    const std::int64_t lanes = sycl::min(std::int64_t{W}, x.extent[2] - column);
    numbers total(identity);
    for (std::int64_t i = 0; i < x.extent[1]; ++i) {
      const T* from = &x(batch, i, column);
      total = combine(lanes == W ? load<W>(from) : load_tail<W>(from, lanes, identity), total);
    }
    keep(batch, column, total, static_cast<int>(lanes));
  }

  /// Each slice of the group combines its rows; the first slice then combines the slices.
  void one_lane(const group<Items>& members, number* partial, std::int64_t batch, std::int64_t column) const {
    numbers total(identity);
    if (column < x.extent[2]) {
      for (std::int64_t i = members.rank() / across; i < x.extent[1]; i += slices) {
        total = combine(load<1>(&x(batch, i, column)), total);
      }
    }
    if constexpr (slices > 1) {
      partial[members.rank()] = total.lanes;
      members.barrier();
      if (members.rank() >= across) return;
      for (int slice = 1; slice < slices; ++slice) {
        total = merge_totals<Kind>(numbers(partial[slice * across + members.rank()]), total);
      }
    }
    if (column < x.extent[2]) keep(batch, column, total, 1);
  }

  void keep(std::int64_t batch, std::int64_t column, numbers total, int lanes) const {
    for (int lane = 0; lane < lanes; ++lane) out(batch, column + lane) = total[lane];
  }
};

}  // namespace nullscope::kernels
