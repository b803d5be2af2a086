#include "lib/src/core/kernel_arguments.hpp"

#ifndef NULLSCOPE_SINGLE_SOURCE

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nullscope/core/errors.hpp>
#include <optional>
#include <string_view>
#include <utility>

namespace nullscope::detail {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + kernel_arguments::alignment - 1) / kernel_arguments::alignment * kernel_arguments::alignment;
}

bool is_complete(const sycl::event& event) {
  return event.get_info<sycl::info::event::command_execution_status>() == sycl::info::event_command_status::complete;
}

/// NULLSCOPE_KERNEL_ARGUMENTS, if it is set.
std::optional<bool> address_chosen_by_user() {
  const char* const chosen = std::getenv("NULLSCOPE_KERNEL_ARGUMENTS");
  if (chosen == nullptr) return std::nullopt;
  const std::string_view how = chosen;
  if (how == "address" || how == "value") return how == "address";
  throw invalid_argument(fmt::format("NULLSCOPE_KERNEL_ARGUMENTS is \"{}\"; it can be address or value", how));
}

}  // namespace

bool passes_address(const sycl::device& device) {
  static const std::optional<bool> chosen = address_chosen_by_user();
  const sycl::backend backend = device.get_backend();
  return chosen.value_or(backend == sycl::backend::ext_oneapi_cuda || backend == sycl::backend::ext_oneapi_hip);
}

kernel_arguments::~kernel_arguments() {
  for (block& one : blocks_) {
    try {
      one.last_use.wait();
    } catch (const sycl::exception&) {  // its event tells the caller
    }
    release(one);
  }
}

void kernel_arguments::release(const block& one) {
  sycl::free(one.on_host, queue_);
  sycl::free(one.on_device, queue_);
}

kernel_arguments::block kernel_arguments::make_block(std::size_t bytes) {
  constexpr std::size_t least = std::size_t{1} << 14;
  const std::size_t size = std::max(2 * bytes, least);
  block made{sycl::aligned_alloc_host<std::byte>(alignment, size, queue_),
             sycl::aligned_alloc_device<std::byte>(alignment, size, queue_), size, sycl::event()};
  if (made.on_host == nullptr || made.on_device == nullptr) {
    release(made);
    throw device_bad_alloc(fmt::format("{} bytes for the arguments of kernels cannot be allocated", size));
  }
  return made;
}

/// The blocks form a ring: the one after the last that was taken has been in use longest, and becomes free first.
std::size_t kernel_arguments::free_block(std::size_t bytes) {
  std::size_t place = last_ + 1 < blocks_.size() ? last_ + 1 : 0;
  const bool is_free = !blocks_.empty() && is_complete(blocks_[place].last_use);
  if (!is_free) {
    const block made = make_block(bytes);
    place = blocks_.empty() ? 0 : last_ + 1;
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(place), made);
  } else if (blocks_[place].bytes < bytes) {
    const block made = make_block(bytes);
    release(std::exchange(blocks_[place], made));
  }
  last_ = place;
  return place;
}

kernel_arguments::sent_functors kernel_arguments::send(std::span<const std::span<const std::byte>> functors) {
  std::size_t bytes = 0;
  for (const auto& one : functors) bytes += aligned(one.size());
  sent_functors sent;
  sent.block = free_block(bytes);
  const block& to = blocks_[sent.block];
  std::size_t at = 0;
  for (const auto& one : functors) {
    std::memcpy(to.on_host + at, one.data(), one.size());
    sent.addresses.push_back(to.on_device + at);
    at += aligned(one.size());
  }
  sent.copied.push_back(queue_.memcpy(to.on_device, to.on_host, bytes));
  return sent;
}

}  // namespace nullscope::detail

#endif
