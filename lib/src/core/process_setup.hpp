/// What is known of the SYCL runtime of this process.
#pragma once

#include <filesystem>

namespace nullscope::detail {

/// The folder that the SYCL runtime was loaded from; empty if that cannot be found out.
std::filesystem::path runtime_folder();

}  // namespace nullscope::detail
