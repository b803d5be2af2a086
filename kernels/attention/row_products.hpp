/// Scalar products of the rows of two arrays.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/blas/row.hpp"

namespace nullscope::kernels {

/// out (batch * heads * rows) = sum over columns of x y, x and y (batch, heads, rows, columns). One team per
/// row, `rows_per_group` rows one after the other.
template <class T, int W, int Items>
struct attention_row_products {
  static constexpr const char* source = __FILE__;
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 4> x, y;
  T* out;
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    team<Items> members(item, local);
    const std::int64_t first = static_cast<std::int64_t>(item.get_group(0)) * rows_per_group;
    const std::int64_t last = std::min(first + rows_per_group, x.extent[0] * x.extent[1] * x.extent[2]);
    for (std::int64_t i = first; i < last; ++i) {
      const row<const T, W> x_row = row_at(x, i), y_row = row_at(y, i);
      pack<T, W> sum(T(0));
      walk<W, 1>(members, x.extent[3],
                 [&](int, std::int64_t c, auto lanes) { sum = fma(x_row.load(c, lanes), y_row.load(c, lanes), sum); });
      const T total = members.sum(sum);
      if (members.rank() == 0) out[i] = total;
    }
  }

 private:
  static row<const T, W> row_at(const view<const T, 4>& x, std::int64_t i) {
    const std::int64_t r = i % x.extent[2], matrix = i / x.extent[2];
    const std::int64_t offset =
        matrix / x.extent[1] * x.stride[0] + matrix % x.extent[1] * x.stride[1] + r * x.stride[2];
    return {x.data + offset, x.stride[3]};
  }
};

}  // namespace nullscope::kernels
