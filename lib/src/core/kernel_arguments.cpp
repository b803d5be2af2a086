#include "lib/src/core/kernel_arguments.hpp"

#ifndef NULLSCOPE_SINGLE_SOURCE

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nullscope/core/errors.hpp>
#include <string_view>

namespace nullscope::detail {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + kernel_arguments::alignment - 1) / kernel_arguments::alignment * kernel_arguments::alignment;
}

bool is_complete(const sycl::event& event) {
  return event.get_info<sycl::info::event::command_execution_status>() == sycl::info::event_command_status::complete;
}

}  // namespace

bool passes_address(const sycl::device& device) {
  if (const char* chosen = std::getenv("NULLSCOPE_KERNEL_ARGUMENTS")) {
    const std::string_view how = chosen;
    if (how == "address" || how == "value") return how == "address";
    throw invalid_argument(fmt::format("NULLSCOPE_KERNEL_ARGUMENTS is \"{}\"; it can be address or value", how));
  }
  const sycl::backend backend = device.get_backend();
  return backend == sycl::backend::ext_oneapi_cuda || backend == sycl::backend::ext_oneapi_hip;
}

kernel_arguments::~kernel_arguments() {
  for (block& one : blocks_) {
    try {
      one.last_use.wait();
    } catch (const sycl::exception&) {  // its event tells the caller
    }
    sycl::free(one.on_host, queue_);
    sycl::free(one.on_device, queue_);
  }
}

/// A block of at least so many bytes that no operation uses, or a new one of twice the size.
std::size_t kernel_arguments::free_block(std::size_t bytes) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].bytes >= bytes && is_complete(blocks_[i].last_use)) return i;
  }
  const std::size_t size = std::max<std::size_t>(2 * bytes, std::size_t{1} << 14);
  block made{sycl::aligned_alloc_host<std::byte>(alignment, size, queue_),
             sycl::aligned_alloc_device<std::byte>(alignment, size, queue_), size, sycl::event()};
  if (made.on_host == nullptr || made.on_device == nullptr) {
    sycl::free(made.on_host, queue_);
    sycl::free(made.on_device, queue_);
    throw device_bad_alloc(fmt::format("{} bytes for the arguments of kernels cannot be allocated", size));
  }
  blocks_.push_back(made);
  return blocks_.size() - 1;
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
