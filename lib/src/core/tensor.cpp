#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/tensor.hpp>

#include "lib/src/core/context_state.hpp"

namespace nullscope::detail {

std::int64_t element_count(std::span<const std::int64_t> shape, std::size_t element_bytes) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t limit = most / static_cast<std::int64_t>(element_bytes);
  std::int64_t count = 1;
  bool is_empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) throw invalid_argument(fmt::format("tensor: shape {} has a negative extent", shape));
    if (extent == 0) {
      is_empty = true;
    } else if (count > limit / extent) {
      throw invalid_argument(fmt::format("tensor: shape {} is too large for 64-bit sizes", shape));
    } else {
      count *= extent;
    }
  }
  return is_empty ? 0 : count;
}

void* allocate(const sycl::queue& queue, std::int64_t bytes, sycl::usm::alloc kind) {
  constexpr std::size_t alignment = 64;
  const std::size_t rounded = (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment;  // as C asks
  void* memory = nullptr;
  std::string reason = "the device has not enough memory";
  try {
    memory = sycl::aligned_alloc(alignment, rounded, queue, kind);
  } catch (const sycl::exception& failure) {
    reason = failure.what();
  }
  if (memory == nullptr) {
    throw device_bad_alloc(fmt::format("cannot allocate {} bytes on {}: {}", bytes,
                                       queue.get_device().get_info<sycl::info::device::name>(), reason));
  }
  return memory;
}

void copy(sycl::queue& queue, const void* from, void* to, std::int64_t bytes) {
  queue.memcpy(to, from, static_cast<std::size_t>(bytes)).wait_and_throw();
}

void copy_to_host(sycl::queue& queue, const void* from, void* to, std::int64_t bytes) {
  check_no_open_operation(queue.get_context());
  copy(queue, from, to, bytes);
}

void wrong_rank(std::span<const std::int64_t> shape, int rank) {
  throw invalid_argument(
      fmt::format("tensor: shape {} has {} dimensions, a view of {} was asked for", shape, shape.size(), rank));
}

void wrong_host_size(std::span<const std::int64_t> shape, std::size_t host_size) {
  throw invalid_argument(fmt::format("tensor: shape {} does not hold {} elements of host memory", shape, host_size));
}

}  // namespace nullscope::detail
