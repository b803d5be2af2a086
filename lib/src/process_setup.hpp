#pragma once

#include <string>

namespace nullscope {

/// Where precompiled headers of the run-time compiler are kept; empty if the user has no cache folder that can be
/// written.
std::string precompiled_header_folder();

}  // namespace nullscope
