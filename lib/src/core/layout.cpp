#include <fmt/format.h>

#include <algorithm>
#include <nullscope/core/context.hpp>

namespace nullscope {
namespace {

/// Whether vectors of two registers work. PoCL's builtin functions get undefined arguments for vectors that are wider
/// than a register (seen with version 6.0).
bool has_long_vectors(const device_properties& device) { return device.backend != "Portable Computing Language"; }

}  // namespace

lane_layout lane_layout::of(const device_properties& device) {
  if (device.kind != device_kind::cpu) return work_items(device);
  return vectors(device, device.has_512_bit_vectors() ? 64 : 32);
}

lane_layout lane_layout::vectors(const device_properties& device, std::int64_t bytes) {
  lane_layout result;
  result.vector_bytes = bytes;
  result.long_vector_bytes = has_long_vectors(device) ? 64 : bytes;
  result.team = 1;
  result.local_bytes = device.usable_local_bytes();
  return result;
}

lane_layout lane_layout::work_items(const device_properties& device, std::int64_t team) {
  lane_layout result;
  result.team = std::min(team, device.max_work_group_size);
  result.local_bytes = device.usable_local_bytes();
  return result;
}

std::string to_string(const lane_layout& layout) {
  if (layout.has_vectors()) return fmt::format("vectors of {} bytes", layout.vector_bytes);
  return fmt::format("teams of {} work-items", layout.team);
}

}  // namespace nullscope
