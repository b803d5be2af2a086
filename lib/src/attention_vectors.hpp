/// Attention on a CPU, over its vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/attention.hpp>
#include <vector>

namespace nullscope::detail {

/// The queue's device is a CPU (or tests ask for this layout) that has local memory for heads of dk and dv with sums in
/// T.
template <class T>
bool attention_vectors_serve(const sycl::queue& queue, std::int64_t dk, std::int64_t dv);

/// Bytes for copies of k and v; none of those that can be used as they are.
template <class In>
std::int64_t attention_vectors_scratchpad_size(const view<const In, 4>& k, const view<const In, 4>& v);

/// Takes validated operands that are served, out not empty.
template <class In, class T>
sycl::event attention_vectors(sycl::queue& queue, const view<const In, 4>& q, const view<const In, 4>& k,
                              const view<const In, 4>& v, const view<T, 4>& out,
                              const attention_row_results<T>& row_results, std::byte* scratchpad,
                              const attention_options& options, const std::vector<sycl::event>& dependencies);

}  // namespace nullscope::detail
