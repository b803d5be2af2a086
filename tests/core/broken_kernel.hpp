/// Kernels that do not compile for a device. The host compiler never instantiates their operator().
#pragma once

#include <cstddef>
#include <sycl/sycl.hpp>

namespace nullscope::test {

template <class T>
struct broken_kernel {
  static constexpr const char* source = __FILE__;

  T* x;

  void operator()(sycl::nd_item<1>, std::byte*) const { T::this_member_does_not_exist(x); }
};

/// Larger on the device than on the host: its bytes must not cross.
struct two_layouts {
  static constexpr const char* source = __FILE__;

  int* x;
#ifdef __SYCL_DEVICE_ONLY__
  int more[2];
#endif

  void operator()(sycl::nd_item<1>, std::byte*) const { *x = 1; }
};

/// As large on the device as on the host, but aligned differently.
struct two_alignments {
  static constexpr const char* source = __FILE__;

#ifdef __SYCL_DEVICE_ONLY__
  alignas(16)
#endif
      int* x;
  int* y;

  void operator()(sycl::nd_item<1>, std::byte*) const { *x = 1; }
};

}  // namespace nullscope::test
