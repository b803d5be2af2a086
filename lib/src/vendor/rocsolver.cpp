#include "lib/src/vendor/rocsolver.hpp"

#include "lib/src/vendor/loaded_library.hpp"

namespace nullscope::detail::rocsolver {
namespace {

/// Those of rocBLAS come with it: rocSOLVER is linked to it.
const functions* functions_of(const loaded_library& library) {
  functions found{};
  const bool has_all = library.find("rocblas_create_handle", found.create) &&
                       library.find("rocblas_set_stream", found.set_stream) &&
                       library.find("rocblas_set_atomics_mode", found.set_atomics) &&
                       library.find("rocsolver_sgesvd_strided_batched", found.svd_f32) &&
                       library.find("rocsolver_dgesvd_strided_batched", found.svd_f64);
  return has_all ? new functions(found) : nullptr;  // never destroyed
}

}  // namespace

const functions* open(const char* name) { return functions_of(loaded_library({name})); }

const functions* library() {
  static const functions* const found = functions_of(loaded_library({"librocsolver.so.0", "librocsolver.so"}));
  return found;
}

}  // namespace nullscope::detail::rocsolver
