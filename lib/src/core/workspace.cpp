#include "lib/src/core/workspace.hpp"

#include <algorithm>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/tensor.hpp>
#include <utility>

namespace nullscope::detail {
namespace {

/// An address that differs from null and from others, as a stand-in where nothing is computed.
std::byte* unusable(std::int64_t offset) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(workspace::alignment + offset));
}

}  // namespace

block_source block_source::of_device(const sycl::queue& queue, sycl::usm::alloc kind) {
  return {[=](std::int64_t bytes) { return static_cast<std::byte*>(detail::allocate(queue, bytes, kind)); },
          [=](std::byte* memory) { sycl::free(memory, queue); }, properties(queue.get_device()).max_allocation_bytes};
}

std::byte* workspace::take(std::int64_t bytes) {
  bytes = (bytes + alignment - 1) / alignment * alignment;
  std::byte* result = nullptr;
  if (counts_only_) {
    result = unusable(used_);
    taken_.push_back({0, 0, bytes});
  } else {
    result = user_.empty() ? take_from_blocks(bytes) : take_from_user(bytes);
  }
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return result;
}

std::byte* workspace::take_from_user(std::int64_t bytes) {
  const auto begin = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(user_.data()) & (alignment - 1));
  taken_.push_back({0, 0, bytes});
  if (std::cmp_less_equal(begin + used_ + bytes, user_.size())) return user_.data() + begin + used_;
  is_exceeded_ = true;
  return unusable(used_);
}

std::byte* workspace::take_from_blocks(std::int64_t bytes) {
  std::size_t index = taken_.empty() ? 0 : taken_.back().block;
  std::int64_t begin = taken_.empty() ? 0 : taken_.back().end;
  while (index < blocks_.size() && begin + bytes > blocks_[index].bytes) {
    ++index;
    begin = 0;
  }
  if (index == blocks_.size()) {
    constexpr std::int64_t least = 64 << 10;
    const std::int64_t size = std::max(bytes, least);
    blocks_.push_back({source_.allocate(size), size});
  }
  taken_.push_back({index, begin + bytes, bytes});
  return blocks_[index].memory + begin;
}

void workspace::release(std::size_t mark) {
  while (taken_.size() > mark) {
    used_ -= taken_.back().bytes;
    taken_.pop_back();
  }
}

void workspace::use(std::span<std::byte> memory) { user_ = memory; }

void workspace::reset_peak() {
  peak_ = 0;
  is_exceeded_ = false;
}

bool workspace::is_scattered() const {
  for (std::size_t i = 1; i < blocks_.size(); ++i) {
    if (blocks_[i - 1].bytes + blocks_[i].bytes <= source_.largest) return true;
  }
  return false;
}

/// What was taken from the old blocks fits into the new ones: each part begins where it did in its block, or before.
void workspace::consolidate() {
  const std::vector<block> old = std::exchange(blocks_, {});
  for (std::size_t begin = 0, end = 0; begin < old.size(); begin = end) {
    std::int64_t bytes = old[begin].bytes;
    for (end = begin + 1; end < old.size() && bytes + old[end].bytes <= source_.largest; ++end) bytes += old[end].bytes;
    if (end == begin + 1) {
      blocks_.push_back(old[begin]);
      continue;
    }
    for (std::size_t i = begin; i < end; ++i) source_.free(old[i].memory);
    try {
      blocks_.push_back({source_.allocate(bytes), bytes});
    } catch (const device_bad_alloc&) {
      source_.largest = bytes - 1;
    }
  }
}

std::int64_t workspace::allocated_bytes() const {
  std::int64_t sum = 0;
  for (const block& b : blocks_) sum += b.bytes;
  return sum;
}

void workspace::free_blocks() {
  for (const block& b : blocks_) source_.free(b.memory);
  blocks_.clear();
}

}  // namespace nullscope::detail
