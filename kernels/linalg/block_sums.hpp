/// Sums and sums of squares down the columns of a batch of matrices, per block of rows: short sums lose few digits, and
/// long matrices keep all work-groups busy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// x (batch, rows, columns) -> sums (batch, blocks, 2, columns): for each block of `rows_per_block` rows the sum of
/// each column and of its squares. One group per block; its work-items take packs of columns.
template <class T, int W, int Items>
struct block_sums {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr std::int64_t rows_per_block = 256;
  using numbers = pack<T, W>;

  view<const T, 3> x;
  view<T, 4> sums;

  static constexpr std::int64_t blocks(std::int64_t rows) { return (rows + rows_per_block - 1) / rows_per_block; }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local);
    const std::int64_t count = blocks(x.extent[1]);
    const std::int64_t batch = members.number() / count, block = members.number() % count,
                       first = block * rows_per_block;
    const std::int64_t last = std::min(first + rows_per_block, x.extent[1]);
    const row<T, W> sum_to{&sums(batch, block, 0, 0), 1}, square_to{&sums(batch, block, 1, 0), 1};
    walk<W, 1>(members, x.extent[2], [&](int, std::int64_t column, auto lanes) {
      numbers sum(0), squares(0);
      for (std::int64_t i = first; i < last; ++i) {
        const numbers element = row_of<W>(x, {batch, i}).load(column, lanes);
        sum += element;
        squares = fma(element, element, squares);
      }
      sum_to.store(column, sum, lanes);
      square_to.store(column, squares, lanes);
    });
  }
};

}  // namespace nullscope::kernels
