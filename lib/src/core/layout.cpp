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
  result.group_items = 1;
  result.local_bytes = device.usable_local_bytes();
  return result;
}

lane_layout lane_layout::work_items(const device_properties& device, std::int64_t group_items) {
  lane_layout result;
  result.group_items = std::min(group_items, device.max_work_group_size);
  result.local_bytes = device.usable_local_bytes();
  return result;
}

std::string to_string(const lane_layout& layout) {
  if (layout.has_vectors()) return fmt::format("vectors of {} bytes", layout.vector_bytes);
  return fmt::format("groups of {} work-items", layout.group_items);
}

}  // namespace nullscope
