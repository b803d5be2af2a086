/// A kernel whose header nobody adds.
#pragma once

#include <cstddef>
#include <sycl/sycl.hpp>

namespace nullscope::test {

template <class T>
struct unknown_source {
  static constexpr const char* source = __FILE__;

  T* x;

  void operator()(sycl::nd_item<1>, std::byte*) const {}
};

}  // namespace nullscope::test
