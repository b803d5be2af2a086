/// nullscope._core: the library as functions on arrays. The package in lib/python/nullscope gives it its public names.
#include "bindings.hpp"

NB_MODULE(_core, m) {
  using namespace nullscope::python;
  nanobind::set_leak_warnings(false);  // devices stay open until the process ends
  bind_errors(m);
  bind_devices(m);
  bind_linear_algebra(m);
  bind_null_space(m);
  bind_attention(m);
  bind_effective_attention(m);
  bind_text(m);
  bind_transformer(m);
  bind_explanations(m);
  bind_structure(m);
  bind_sweep(m);
  bind_identifiability(m);
}
