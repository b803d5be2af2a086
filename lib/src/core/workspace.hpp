/// Temporary memory of a context: a stack that operations take from and give back, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <sycl/sycl.hpp>
#include <utility>
#include <vector>

namespace nullscope::detail {

/// Where blocks of memory come from: a device, or what a test puts in its place.
struct block_source {
  std::function<std::byte*(std::int64_t bytes)> allocate;  // throws device_bad_alloc
  std::function<void(std::byte*)> free;
  std::int64_t largest;  // bytes that can be allocated at once, as far as is known

  static block_source of_device(const sycl::queue& queue, sycl::usm::alloc kind);
};

/// Memory is one block, or several after it had to grow; `consolidate` makes them one again, or as few as the largest
/// allocation of the device allows. What is taken stays where it is until it is released.
class workspace {
 public:
  static constexpr std::int64_t alignment = 64;  // bytes, of everything that is taken

  explicit workspace(block_source source) : source_(std::move(source)) {}
  ~workspace() { free_blocks(); }
  workspace(const workspace&) = delete;
  workspace& operator=(const workspace&) = delete;

  /// Bytes that lie at an aligned address. If they are not there, an address that must not be used, and is_exceeded().
  /// Throws device_bad_alloc.
  std::byte* take(std::int64_t bytes);

  /// What is taken now; `release` gives back what was taken since.
  std::size_t mark() const { return taken_.size(); }
  void release(std::size_t mark);

  /// Until the next call: take from this memory only; an empty span: from blocks that are allocated on demand.
  void use(std::span<std::byte> memory);

  /// Only count: addresses must not be used.
  void count_only(bool counts) { counts_only_ = counts; }

  /// Begins to watch `peak_bytes` and `is_exceeded`. Nothing may be taken.
  void reset_peak();
  std::int64_t peak_bytes() const { return peak_ == 0 ? 0 : peak_ + alignment; }  // wherever the memory begins
  bool is_exceeded() const { return is_exceeded_; }
  bool was_used() const { return peak_ > 0; }

  /// Neighbouring blocks that can be one become one. Nothing may be taken, and no kernel may use them. Memory that the
  /// device then refuses is allocated on demand again.
  bool is_scattered() const;
  void consolidate();

  std::int64_t allocated_bytes() const;
  void free_blocks();

 private:
  struct block {
    std::byte* memory;
    std::int64_t bytes;
  };
  struct part {
    std::size_t block;
    std::int64_t end, bytes;  // where it ends in its block; its size
  };

  std::byte* take_from_blocks(std::int64_t bytes);
  std::byte* take_from_user(std::int64_t bytes);

  block_source source_;
  std::vector<block> blocks_;
  std::vector<part> taken_;
  std::span<std::byte> user_;
  bool counts_only_ = false, is_exceeded_ = false;
  std::int64_t used_ = 0, peak_ = 0;
};

}  // namespace nullscope::detail
