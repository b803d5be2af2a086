#include "lib/src/vendor/cusolver.hpp"

#include "lib/src/vendor/loaded_library.hpp"

namespace nullscope::detail::cusolver {
namespace {

const functions* functions_of(const loaded_library& library) {
  functions found{};
  const bool has_all =
      library.find("cusolverDnCreate", found.create) && library.find("cusolverDnSetStream", found.set_stream) &&
      library.find("cusolverDnCreateParams", found.create_parameters) &&
      library.find("cusolverDnDestroyParams", found.destroy_parameters) &&
      library.find("cusolverDnXgesvd_bufferSize", found.svd_sizes) && library.find("cusolverDnXgesvd", found.svd);
  return has_all ? new functions(found) : nullptr;  // never destroyed
}

}  // namespace

const functions* open(const char* name) { return functions_of(loaded_library({name})); }

const functions* library() {
  static const functions* const found = functions_of(loaded_library({"libcusolver.so.12", "libcusolver.so.11"}));
  return found;
}

}  // namespace nullscope::detail::cusolver
