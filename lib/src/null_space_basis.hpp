/// The explicit null-space basis with a choice that a test may make otherwise.
#pragma once

#include <cstddef>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope::detail {

/// `nullscope::null_space_basis` after its checks; `team`: lanes are work-items (a GPU), otherwise a pack of one (a
/// CPU).
template <class T>
sycl::event null_space_basis(sycl::queue& queue, bool team, const view<const T, 3>& u,
                             const view<const std::int64_t, 1>& rank, const view<T, 3>& null_basis,
                             std::byte* scratchpad, const std::vector<sycl::event>& dependencies);

}  // namespace nullscope::detail
