#include "lib/src/core/workspace.hpp"

#include <algorithm>
#include <nullscope/errors.hpp>
#include <nullscope/tensor.hpp>
#include <utility>

namespace nullscope::detail {
namespace {

/// An address that differs from null and from others, as a stand-in where nothing is computed.
std::byte* unusable(std::int64_t offset) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(workspace::alignment + offset));
}

}  // namespace

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
    blocks_.push_back({static_cast<std::byte*>(allocate(queue_, size, kind_)), size});
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

void workspace::consolidate() {
  const std::int64_t bytes = allocated_bytes();
  free_blocks();
  blocks_.push_back({static_cast<std::byte*>(allocate(queue_, bytes, kind_)), bytes});
}

std::int64_t workspace::allocated_bytes() const {
  std::int64_t sum = 0;
  for (const block& b : blocks_) sum += b.bytes;
  return sum;
}

void workspace::free_blocks() {
  for (const block& b : blocks_) sycl::free(b.memory, queue_);
  blocks_.clear();
}

}  // namespace nullscope::detail
