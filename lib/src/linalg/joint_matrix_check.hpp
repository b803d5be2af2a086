/// Whether a device's matrix engine multiplies right, found out before it is used: compilers and drivers of some
/// devices list tiles that they load wrongly, or do not have. Known: DPC++ loads row-major tiles of a transposed on AMD
/// MI200, and lists none for MI300.
#pragma once

#include <functional>
#include <nullscope/core/context.hpp>

#include "lib/src/linalg/gemm_paths.hpp"

namespace nullscope::detail {

/// A way to multiply.
using product_way = std::function<void(operation& op, const gemm_call<bfloat16, float>& call)>;

/// Whether a product of small integers by `multiply`, in a context of its own on the same device, is exact. A way that
/// throws is not right.
bool multiplies_right(const context& like, const product_way& multiply);

/// The properties of the context's device without the tiles of its matrix engine that multiply wrongly. Tried once for
/// each device, then remembered.
const device_properties& tested_properties(const context& ctx);

}  // namespace nullscope::detail
