/// What the forward kernel of GPUs keeps in local memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

#include "kernels/attention/shape.hpp"
#include "kernels/group/group.hpp"

namespace nullscope::kernels {

/// Of a work-group that takes `panels` panels of queries.
template <class T, class Shape>
struct attention_local {
  static constexpr int gap = 16 / Shape::rows;  // after a row: workers side by side use different banks

  std::int64_t dk, out_columns, out_stride;
  T* scores;          // (workers, rows, score_stride)
  T* outs;            // (panels * rows, out_stride)
  T *sum, *squares;   // (2, panels * rows, lanes): before and after a block, in turn
  T* queries;         // (panels, dk + 1, rows)
  T* partial;         // (panels * rows, lanes)
  T* offset;          // (panels * rows)
  int* objection;     // set by any work-item, see all_agree
  std::int64_t rows;  // of all panels

  static std::int64_t padded_columns(std::int64_t columns) {
    return (columns + Shape::columns - 1) / Shape::columns * Shape::columns;
  }

  attention_local(std::byte* local, std::int64_t panels, std::int64_t key_width, std::int64_t dv)
      : dk(key_width), out_columns(padded_columns(dv)), out_stride(out_columns + gap) {
    rows = panels * Shape::rows;
    scores = reinterpret_cast<T*>(local);
    outs = scores + Shape::workers * Shape::rows * Shape::score_stride;
    sum = outs + rows * out_stride;
    squares = sum + 2 * rows * Shape::lanes;
    queries = squares + 2 * rows * Shape::lanes;
    partial = queries + rows * (dk + 1);
    offset = partial + rows * Shape::lanes;
    objection = reinterpret_cast<int*>(offset + rows);
  }

  static std::int64_t bytes(std::int64_t panels, std::int64_t dk, std::int64_t dv) {
    const std::int64_t of_row = padded_columns(dv) + gap + (dk + 1) + 4 * Shape::lanes + Shape::lanes + 1;
    return static_cast<std::int64_t>(sizeof(T)) * Shape::rows *
               (Shape::workers * Shape::score_stride + panels * of_row) +
           static_cast<std::int64_t>(sizeof(int));
  }

  /// Whether `mine` is true for all work-items of the group. All of them must call it, and `forget` before the next
  /// call. One number of local memory is enough for it.
  bool all_agree(const group<Shape::work_items>& members, bool mine) const {
    using flag = sycl::atomic_ref<int, sycl::memory_order::relaxed, sycl::memory_scope::work_group>;
    if (!mine) flag(*objection).store(1);
    members.barrier();
    return flag(*objection).load() == 0;
  }

  /// Called between two barriers, after all work-items have the answer of `all_agree`.
  void forget(int id) const {
    if (id == 0) *objection = 0;
  }

  /// Index of the sums of row r and a lane.
  std::int64_t place(int turn, std::int64_t r, int lane) const { return (turn * rows + r) * Shape::lanes + lane; }
  T* query_panel(std::int64_t panel) const { return queries + panel * (dk + 1) * Shape::rows; }
  T* out_panel(std::int64_t panel) const { return outs + panel * Shape::rows * out_stride; }
};

}  // namespace nullscope::kernels
