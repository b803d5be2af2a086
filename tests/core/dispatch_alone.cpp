/// The dispatcher, and what it needs of the library.
#include "lib/src/core/dispatch.cpp"
#include "lib/src/core/layout.cpp"

namespace nullscope {

std::int64_t device_properties::usable_local_bytes() const { return local_memory_bytes; }

}  // namespace nullscope
