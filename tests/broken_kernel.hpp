/// Kernels that cannot be compiled; the host never looks inside their operator().
#pragma once

#include <cstddef>
#include <sycl/sycl.hpp>

namespace nullscope::test {

template <class T>
struct broken_kernel {
  static constexpr const char* source = "broken_kernel.hpp";
  static constexpr int dimensions = 1;

  T* x;

  void operator()(sycl::nd_item<1>, std::byte*) const { T::this_member_does_not_exist(x); }
};

/// A kernel whose header nobody added.
template <class T>
struct unknown_source {
  static constexpr const char* source = "no_such_header.hpp";
  static constexpr int dimensions = 1;

  T* x;

  void operator()(sycl::nd_item<1>, std::byte*) const {}
};

}  // namespace nullscope::test
