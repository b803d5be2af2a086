/// Where this user's programs keep what they can make or fetch again.
#pragma once

#include <filesystem>
#include <optional>

namespace nullscope::detail {

/// XDG_CACHE_HOME/nullscope, otherwise HOME/.cache/nullscope; nothing if neither variable names an absolute path.
std::optional<std::filesystem::path> user_cache_folder();

}  // namespace nullscope::detail
