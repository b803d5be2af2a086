/// One function per subject, each in its own source file: adds what Python sees of it to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace nullscope::python {

void bind_errors(nanobind::module_& m);
void bind_devices(nanobind::module_& m);
void bind_linear_algebra(nanobind::module_& m);
void bind_null_space(nanobind::module_& m);
void bind_attention(nanobind::module_& m);
void bind_effective_attention(nanobind::module_& m);
void bind_text(nanobind::module_& m);
void bind_transformer(nanobind::module_& m);
void bind_explanations(nanobind::module_& m);
void bind_structure(nanobind::module_& m);
void bind_sweep(nanobind::module_& m);
void bind_identifiability(nanobind::module_& m);

}  // namespace nullscope::python
