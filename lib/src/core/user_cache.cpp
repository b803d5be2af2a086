#include "lib/src/core/user_cache.hpp"

#include <cstdlib>

namespace nullscope::detail {

std::optional<std::filesystem::path> user_cache_folder() {
  namespace fs = std::filesystem;
  const auto absolute = [](const char* variable) -> std::optional<fs::path> {
    const char* text = std::getenv(variable);  // the XDG specification: an empty or relative one is ignored
    return text != nullptr && fs::path(text).is_absolute() ? std::optional<fs::path>(text) : std::nullopt;
  };
  if (const auto cache = absolute("XDG_CACHE_HOME")) return *cache / "nullscope";
  if (const auto home = absolute("HOME")) return *home / ".cache" / "nullscope";
  return std::nullopt;
}

}  // namespace nullscope::detail
