/// What attention_backward reads, made from operands with any strides in one launch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/attention/shape.hpp"
#include "kernels/linalg/row.hpp"
#include "kernels/linalg/to_panels.hpp"

namespace nullscope::kernels {

/// Seven sets of panels of q, k, v (batch, heads, tokens, d) and d_out, and products (batch * heads, queries) = row
/// sums of out * d_out. The work of a matrix is cut into blocks, numbered matrix by matrix; a work-group takes
/// `blocks_per_group` of them, one after the other, on a CPU, and one on a GPU.
template <class In, class T, class Shape>
struct attention_backward_operands {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Shape::lanes == 1;
  static constexpr int rows_per_block = 32;  // of products
  static constexpr int narrow_width = Shape::width == 1 ? 1 : Shape::rows % 4 == 0 ? 4 : 2;
  template <class From>
  using narrow = to_panels<From, T, narrow_width, Shape::lanes, Shape::rows>;
  template <class From>
  using wide = to_panels<From, T, Shape::width, Shape::lanes, Shape::columns>;

  narrow<In> q_columns;
  narrow<T> d_out_columns;
  wide<In> q_rows;
  wide<T> d_out_rows;
  wide<In> k_columns, v_columns, k_rows;
  view<const T, 4> out;
  T* products;
  std::int64_t matrices, blocks_per_group;

  std::int64_t blocks_of_products() const { return (out.extent[2] + rows_per_block - 1) / rows_per_block; }
  std::int64_t blocks_of_matrix() const {
    return q_columns.groups_of_matrix() + d_out_columns.groups_of_matrix() + q_rows.groups_of_matrix() +
           d_out_rows.groups_of_matrix() + k_columns.groups_of_matrix() + v_columns.groups_of_matrix() +
           k_rows.groups_of_matrix() + blocks_of_products();
  }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Shape::lanes> members(item, local);
    if constexpr (one_work_item) {
      const std::int64_t first = members.number() * blocks_per_group;
      const std::int64_t end = std::min(first + blocks_per_group, matrices * blocks_of_matrix());
      for (std::int64_t i = first; i < end; ++i) one_block(members, i);
    } else {
      one_block(members, members.number());
    }
  }

 private:
  void one_block(group<Shape::lanes>& members, std::int64_t index) const {
    const std::int64_t matrix = index / blocks_of_matrix();
    std::int64_t rest = index % blocks_of_matrix();  // among the blocks from the next part on
    const auto copy = [&](const auto& part) {
      const std::int64_t blocks = part.groups_of_matrix();
      if (rest >= 0 && rest < blocks) part.copy(matrix * blocks + rest, members.rank());
      rest -= blocks;
    };
    copy(q_columns);
    copy(q_rows);
    copy(k_columns);
    copy(k_rows);
    copy(v_columns);
    copy(d_out_columns);
    copy(d_out_rows);
    if (rest < 0) return;
    const std::int64_t first = rest * rows_per_block, last = std::min(first + rows_per_block, out.extent[2]);
    const view<const T, 4>& d_out = d_out_rows.x;
    if (Shape::width > 1 && out.stride[3] == 1 && d_out.stride[3] == 1) {
      multiply_rows<Shape::width>(members, matrix, first, last);
    } else {
      multiply_rows<1>(members, matrix, first, last);
    }
  }

  template <int W>
  void multiply_rows(group<Shape::lanes>& members, std::int64_t matrix, std::int64_t first, std::int64_t last) const {
    for (std::int64_t i = first; i < last; ++i) {
      const row<const T, W> x = row_at<W>(out, matrix, i), y = row_at<W>(d_out_rows.x, matrix, i);
      pack<T, W> sum(T(0));
      walk<W, 1>(members, out.extent[3],
                 [&](auto, std::int64_t c, auto lanes) { sum = fma(x.load(c, lanes), y.load(c, lanes), sum); });
      const T total = members.sum(sum);
      if (members.rank() == 0) products[matrix * out.extent[2] + i] = total;
    }
  }

  template <int W>
  static row<const T, W> row_at(const view<const T, 4>& x, std::int64_t matrix, std::int64_t i) {
    const std::int64_t offset =
        matrix / x.extent[1] * x.stride[0] + matrix % x.extent[1] * x.stride[1] + i * x.stride[2];
    return {x.data + offset, x.stride[3]};
  }
};

}  // namespace nullscope::kernels
