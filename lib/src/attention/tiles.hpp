/// Attention of bfloat16 on a device's matrix engine.
#pragma once

#include <cstdint>
#include <nullscope/attention/attention.hpp>

namespace nullscope::detail {

/// The layout allows the matrix engine, the device has one with tiles that there is a kernel for, and there is local
/// memory for heads of dk and dv.
bool attention_tiles_serve(const context& ctx, std::int64_t dk, std::int64_t dv);

/// Adds the steps of attention to the operation. Operands are checked and served, out is not empty.
void attention_tiles(operation& op, const attention_operands<bfloat16>& operands,
                     const attention_results<float>& results, const attention_options& options);

}  // namespace nullscope::detail
