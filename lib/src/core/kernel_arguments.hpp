/// How kernels get their functors: by value, or as an address of a copy on the device.
///
/// DPC++'s run-time compiler for NVIDIA and AMD crashes on structs that are passed by value, and NVIDIA's kernels take
/// at most 4 KB of arguments. There, all functors of an operation are copied to the device at once, before its first
/// step.
#pragma once

#ifndef NULLSCOPE_SINGLE_SOURCE

#include <cstddef>
#include <cstdint>
#include <span>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope::detail {

/// Whether kernels of this device get the address of their functor. NULLSCOPE_KERNEL_ARGUMENTS=address or =value
/// decides instead, for all devices of the process, if it is set when the first context is made.
bool passes_address(const sycl::device& device);

/// Copies of functors on a device. One operation uses a block at a time; blocks are used again when the operation that
/// used them before is complete.
class kernel_arguments {
 public:
  static constexpr std::size_t alignment = 64;  // bytes, of every functor

  explicit kernel_arguments(sycl::queue queue) : queue_(std::move(queue)) {}
  ~kernel_arguments();  ///< waits for the operations that use the blocks
  kernel_arguments(const kernel_arguments&) = delete;
  kernel_arguments& operator=(const kernel_arguments&) = delete;

  struct sent_functors {
    std::vector<const std::byte*> addresses;  ///< on the device, in the order of the functors; empty: nothing was sent
    std::vector<sycl::event> copied;          ///< kernels wait for it
    std::size_t block = 0;                    ///< for `use_until`
  };

  /// Begins to copy the functors. Throws device_bad_alloc.
  sent_functors send(std::span<const std::span<const std::byte>> functors);

  /// The block is free again when `last` is complete.
  void use_until(std::size_t block, const sycl::event& last) { blocks_[block].last_use = last; }

 private:
  struct block {
    std::byte *on_host, *on_device;
    std::size_t bytes;
    sycl::event last_use;
  };

  block make_block(std::size_t bytes);
  void release(const block& one);
  std::size_t free_block(std::size_t bytes);

  sycl::queue queue_;
  std::vector<block> blocks_;
  std::size_t last_ = 0;  // the block that was taken last
};

}  // namespace nullscope::detail

#endif
