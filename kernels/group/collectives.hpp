/// How the work-items of a sub-group hand numbers to each other: the one place that knows what a tool chain offers.
/// Sub-groups are neighbouring work-items, and their size is a power of two.
#pragma once

#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// For `Lanes` of a group: the size of the sub-groups is found out when the kernel runs.
inline constexpr int asks_for_lanes = 0;

/// How many neighbouring work-items shuffle; 1: numbers go through local memory.
#if defined(NULLSCOPE_NO_SHUFFLES)  // CPUs: a shuffle would go through memory too, only not under our control
inline constexpr int default_lanes = 1;
#elif defined(__ADAPTIVECPP__) && !(ACPP_VERSION_MAJOR >= 25 || HIPSYCL_VERSION_MAJOR >= 25)
inline constexpr int default_lanes = 1;  // its generic target has no shuffles
#elif defined(__NVPTX__)
inline constexpr int default_lanes = 32;
#elif defined(__AMDGCN_WAVEFRONT_SIZE__)
inline constexpr int default_lanes = __AMDGCN_WAVEFRONT_SIZE__;
#else
inline constexpr int default_lanes = asks_for_lanes;
#endif

/// What the work-items of a sub-group have written is visible to all of them. For kernels of matrix engines, which work
/// by sub-groups.

inline void sub_group_barrier(const sycl::sub_group& sub_group) { sycl::group_barrier(sub_group); }

namespace detail {

/// The size of the sub-groups; 1 if they cannot be used, because a work-item of the work-group may be in a smaller one.
inline int lanes_of_sub_group(const sycl::nd_item<1>& item) {
  const int all = static_cast<int>(item.get_local_range(0));
  const int size = static_cast<int>(item.get_sub_group().get_max_local_range()[0]);
  return (size & (size - 1)) == 0 && all % size == 0 ? size : 1;
}

/// x of the work-item whose place in the sub-group differs from this one's in the bits of `mask`.
template <class T>
T shuffled_by_xor(const sycl::nd_item<1>& item, T x, int mask) {
  return sycl::permute_group_by_xor(item.get_sub_group(), x, static_cast<unsigned>(mask));
}

/// x of the work-item of the sub-group that comes `distance` after this one, or before it if that is negative.
template <class T>
T shuffled_from(const sycl::nd_item<1>& item, T x, int distance) {
  const auto sub_group = item.get_sub_group();
  const int place = static_cast<int>(sub_group.get_local_linear_id()) + distance;
  return sycl::select_from_group(sub_group, x, sycl::id<1>(static_cast<std::size_t>(place)));
}

}  // namespace detail
}  // namespace nullscope::kernels
