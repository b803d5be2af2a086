/// From PTX as it is written to code that runs.
#pragma once

#include "tests/gpu/ptx/module.hpp"

namespace nullscope::ptx {

/// The kernel with everything that it calls. The module's text must outlive it. Throws failure, with the instruction.
kernel_code build_kernel(const module& from, std::string_view kernel);

}  // namespace nullscope::ptx
