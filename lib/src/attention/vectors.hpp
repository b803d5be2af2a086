/// Attention on a CPU, over its vectors.
#pragma once

#include <cstdint>
#include <nullscope/attention/attention.hpp>

namespace nullscope::detail {

/// The layout has vectors, and local memory for heads of dk and dv with sums in T.
template <class T>
bool attention_vectors_serve(const context& ctx, std::int64_t dk, std::int64_t dv);

/// Adds the steps of attention to the operation. Operands are checked and served, out is not empty.
template <class In, class T>
void attention_vectors(operation& op, const attention_operands<In>& operands, const attention_results<T>& results,
                       const attention_options& options);

}  // namespace nullscope::detail
