/// What a lane is on a device: how kernels spread their work. A context chooses the layout once, by its device; tests
/// pass others, so that the layouts of GPUs run on a CPU too.
#pragma once

#include <cstdint>
#include <nullscope/device.hpp>
#include <string>

namespace nullscope {

/// With vectors (CPUs) a work-group is one work-item, and its lanes are the elements of a vector register. Without
/// (GPUs) a lane is a work-item, and a team of them shares a row, a tile or a matrix.
struct lane_layout {
  std::int64_t vector_bytes = 0;       ///< 32 or 64; 0: a lane is a work-item
  std::int64_t long_vector_bytes = 0;  ///< of kernels whose steps wait for one another: may be two registers; 32 or 64
  std::int64_t team = 256;             ///< work-items of the largest team; 1 with vectors
  std::int64_t short_row = 1024;       ///< rows of up to so many elements get a team of at most 32 work-items
  std::int64_t local_bytes = 0;        ///< local memory that one work-group may use
  std::int64_t streams_from = 16 << 20;  ///< CPUs: results of so many bytes are written past the caches
  bool matrix_engine = true;             ///< bfloat16 may take the device's matrix engine, if it has one

  bool has_vectors() const { return vector_bytes > 0; }
  bool operator==(const lane_layout&) const = default;

  /// The layout for a device: vectors on a CPU, work-items on everything else.
  static lane_layout of(const device_properties& device);

  /// For tests: vectors of 32 or 64 bytes, or teams of work-items, with the local memory of this device.
  static lane_layout vectors(const device_properties& device, std::int64_t bytes);
  static lane_layout work_items(const device_properties& device, std::int64_t team = 256);
};

/// "vectors of 64 bytes", "teams of 256 work-items"
std::string to_string(const lane_layout& layout);

}  // namespace nullscope
