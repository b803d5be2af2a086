#include "team_shape.hpp"

#include <atomic>

namespace nullscope::detail {
namespace {

constexpr int by_device = -1;
std::atomic<int> forced_shape = by_device;

/// The shape, or what is next to it for elements that are no neighbours, or shall not be written past the caches.
team_shape possible(team_shape shape, bool neighbours, bool streams) {
  if (!streams && shape == team_shape::streaming_512) shape = team_shape::vector_512;
  if (!streams && shape == team_shape::streaming_256) shape = team_shape::vector_256;
  return neighbours || shape >= team_shape::scalar ? shape : team_shape::scalar;
}

}  // namespace

void force_team_shape(std::optional<team_shape> shape) { forced_shape = shape ? static_cast<int>(*shape) : by_device; }

team_shape choose_team_shape(const sycl::queue& queue, std::int64_t columns, bool neighbours,
                             std::int64_t streamable_bytes, std::int64_t streams_from) {
  if (const int forced = forced_shape; forced != by_device) {
    return possible(static_cast<team_shape>(forced), neighbours, streamable_bytes > 0);
  }
  const device_properties& device = properties(queue.get_device());
  if (device.kind == device_kind::gpu) return columns <= 1024 ? team_shape::group_32 : team_shape::group_256;
  return possible(device.has_512_bit_vectors() ? team_shape::streaming_512 : team_shape::streaming_256, neighbours,
                  streamable_bytes >= streams_from);
}

std::int64_t rows_per_group(const sycl::queue& queue, team_shape shape, std::int64_t rows, std::int64_t row_bytes) {
  if (shape == team_shape::group_32 || shape == team_shape::group_256) return 1;
  constexpr std::int64_t group_bytes = 256 * 1024, at_once = 4;  // at_once: rows that kernels take together, at most
  const std::int64_t by_bytes = group_bytes / std::max<std::int64_t>(row_bytes, 1);
  const std::int64_t by_cores = rows / (4 * properties(queue.get_device()).compute_units);
  const std::int64_t count = std::max<std::int64_t>(1, std::min(by_bytes, by_cores));
  return count < at_once ? count : count / at_once * at_once;
}

}  // namespace nullscope::detail
