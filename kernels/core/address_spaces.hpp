/// Says where a pointer of a kernel points to: what the loads and stores of a matrix engine need to know. For DPC++
/// only.
#pragma once

#include <sycl/sycl.hpp>

namespace nullscope::kernels {

template <class T>
auto in_global(T* p) {
  return sycl::address_space_cast<sycl::access::address_space::global_space, sycl::access::decorated::no>(p);
}

template <class T>
auto in_local(T* p) {
  return sycl::address_space_cast<sycl::access::address_space::local_space, sycl::access::decorated::no>(p);
}

}  // namespace nullscope::kernels
