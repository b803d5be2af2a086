/// What the forward kernel of CPUs keeps in local memory.
#pragma once

#include <cstdint>

namespace nullscope::kernels {

/// `Queries` queries of a head, from `row` on, one per column.
template <class T, int W, int Queries>
struct attention_panel {
  T* weights;                 // (keys of a block, Queries): scores, then exponentials; shared by all panels
  T* queries;                 // (dk, Queries)
  T* outs;                    // (dv, Queries), with space for whole packs of dv
  T *offset, *sum, *squares;  // (Queries)
  std::int64_t batch, head, row;

  attention_panel(T* shared, T* own, std::int64_t dk, std::int64_t dv, std::int64_t batch_entry,
                  std::int64_t head_number, std::int64_t first_row)
      : weights(shared), queries(own), batch(batch_entry), head(head_number), row(first_row) {
    outs = queries + dk * Queries;
    offset = outs + whole_packs(dv) * Queries;
    sum = offset + Queries;
    squares = sum + Queries;
  }

  static std::int64_t whole_packs(std::int64_t columns) { return (columns + W - 1) / W * W; }

  /// Rows of what each panel has for itself.
  static std::int64_t rows(std::int64_t dk, std::int64_t dv) { return dk + whole_packs(dv) + 3; }
};

}  // namespace nullscope::kernels
