/// The rows of the tables of kernels: what their sources include.
#pragma once

#include <nullscope/core/kernel.hpp>
#include <sycl/sycl.hpp>
#include <vector>

#include "tests/gpu/checker/checker.hpp"

namespace nullscope::races {

using kernel_table = std::vector<checked_kernel>;

template <class Kernel>
void call_kernel(const std::byte* functor, const item_place& place, std::byte* local) {
  (*reinterpret_cast<const Kernel*>(functor))(sycl::nd_item<1>(place), local);
}

template <class... Kernels>
kernel_table rows() {
  return {{nullscope::detail::type_name<Kernels>(), sizeof(Kernels), nullscope::detail::sub_group_size_of<Kernels>(),
           call_kernel<Kernels>}...};
}

}  // namespace nullscope::races
