/// Barriers of kernels whose work-group is one work-item on CPUs, and several elsewhere. One that is
/// alone waits for nobody, and compilers that cut a kernel at its barriers have nothing to cut.
#pragma once

#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// All work-items of the group meet here.
///
/// In a loop there must be one that every turn passes, outside of branches and inner loops, if there are any in those:
/// AdaptiveCpp (as of October 2024) on a CPU otherwise takes what the loop computed in its last turn for this one.
template <bool OneWorkItem>
void barrier([[maybe_unused]] const sycl::nd_item<1>& item) {
  if constexpr (!OneWorkItem) sycl::group_barrier(item.get_group());
}

}  // namespace nullscope::kernels
