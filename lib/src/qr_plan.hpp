/// How a QR is cut into chunks and blocks; private to the library and its tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope::detail {

/// What the dispatch decides; a test may decide otherwise.
struct qr_choices {
  bool team;                    // lanes are work-items (a GPU), otherwise a pack of one work-item (a CPU)
  std::int64_t parallel;        // work-groups that run at the same time
  std::int64_t chunks = 0;      // of a matrix, half as many on each level above; 0: by the size of the batch
  std::int64_t block_rows = 0;  // 0: what fits the first-level cache
};

qr_choices default_qr_choices(const sycl::queue& queue);

/// In bytes.
template <class T>
std::int64_t qr_scratchpad_size(const sycl::queue& queue, const qr_choices& choices, std::int64_t batch,
                                std::int64_t rows, std::int64_t columns, bool with_q);

/// `nullscope::qr` after its checks.
template <class T>
sycl::event qr(sycl::queue& queue, const qr_choices& choices, const view<const T, 3>& a, const view<T, 3>& q,
               const view<T, 3>& r, std::byte* scratchpad, const std::vector<sycl::event>& dependencies);

}  // namespace nullscope::detail
