/// A kernel of your own: a functor in a header that the run-time compiler can read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

/// x[i] = max(x[i], slope * x[i]), one element per work-item.
template <class T>
struct leaky_relu {
  static constexpr const char* source = __FILE__;

  T* x;  // (size)
  std::int64_t size;
  T slope;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const auto i = static_cast<std::int64_t>(item.get_global_linear_id());
    if (i < size) x[i] = sycl::fmax(x[i], slope * x[i]);
  }
};
