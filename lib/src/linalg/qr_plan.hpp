/// How a QR is split into chunks and blocks; private to the library and its tests.
#pragma once

#include <cstdint>
#include <nullscope/linalg/qr.hpp>

namespace nullscope::detail {

/// What the dispatch decides; tests decide otherwise.
struct qr_choices {
  std::int64_t parallel;        // work-groups that run at the same time
  std::int64_t chunks = 0;      // per matrix, half as many on each level above; 0: by the size of the batch
  std::int64_t block_rows = 0;  // 0: what fits the first-level cache
};

qr_choices default_qr_choices(const context& ctx);

/// `nullscope::qr` after its checks; a is not empty.
sycl::event qr(context& ctx, const qr_choices& choices, view<const float, 3> a, const qr_results<float>& results);
sycl::event qr(context& ctx, const qr_choices& choices, view<const double, 3> a, const qr_results<double>& results);

}  // namespace nullscope::detail
