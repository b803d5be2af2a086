/// Attention of bfloat16 on a device's matrix engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/attention.hpp>
#include <vector>

namespace nullscope::detail {

/// The device has tiles that there is a kernel for, and local memory for heads of dk and dv.
bool attention_tiles_serve(const sycl::device& device, std::int64_t dk, std::int64_t dv);

/// Bytes for the packed k and v.
std::int64_t attention_tiles_scratchpad_size(const view<const bfloat16, 4>& k, const view<const bfloat16, 4>& v);

/// Takes validated operands that are served, out not empty.
sycl::event attention_tiles(sycl::queue& queue, const view<const bfloat16, 4>& q, const view<const bfloat16, 4>& k,
                            const view<const bfloat16, 4>& v, const view<float, 4>& out,
                            const attention_row_results<float>& row_results, std::byte* scratchpad,
                            const attention_options& options, const std::vector<sycl::event>& dependencies);

}  // namespace nullscope::detail
