#include "lib/src/vendor/loaded_library.hpp"

#include <dlfcn.h>

namespace nullscope::detail {

loaded_library::loaded_library(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (handle_ == nullptr) handle_ = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  }
}

void* loaded_library::address_of(const char* name) const { return handle_ == nullptr ? nullptr : dlsym(handle_, name); }

}  // namespace nullscope::detail
