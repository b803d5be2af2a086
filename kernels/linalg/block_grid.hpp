/// Which block of which matrix a work-group computes.
#pragma once

#include <cstdint>

namespace nullscope::kernels {

/// Blocks of the matrices of a batch, counted along columns, then rows, then the batch. One dimension, because the
/// second and third dimension of a range end at 65,535 work-groups on NVIDIA GPUs.
struct block_grid {
  std::int64_t rows, columns;  ///< blocks of a matrix

  struct place {
    std::int64_t batch, row, column;
  };

  std::int64_t groups(std::int64_t batch) const { return batch * rows * columns; }

  place of(std::int64_t group) const { return {group / (rows * columns), group / columns % rows, group % columns}; }
};

}  // namespace nullscope::kernels
