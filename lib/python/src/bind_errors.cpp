#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/svd.hpp>
#include <sycl/sycl.hpp>

#include "arrays.hpp"
#include "bindings.hpp"

namespace nb = nanobind;

namespace nullscope::python {
namespace {

/// The classes of Python that stand for errors of the library.
struct error_classes {
  nb::object unsupported_device, computation, file;
};

nb::object new_class(nb::module_& m, const char* name, nb::handle base, const char* text) {
  nb::dict members;
  members["__doc__"] = text;
  members["__module__"] = "nullscope";
  nb::object made = nb::handle(reinterpret_cast<PyObject*>(&PyType_Type))(name, nb::make_tuple(base), members);
  m.attr(name) = made;
  return made;
}

void set_computation_error(nb::handle type, const computation_error& failure) {
  nb::object error = type(failure.what());
  error.attr("failed_batch_ids") = nb::cast(failure.failed_batch_ids());
  PyErr_SetObject(type.ptr(), error.ptr());
}

void translate(const std::exception_ptr& thrown, void* payload) {
  const auto* classes = static_cast<const error_classes*>(payload);
  try {
    std::rethrow_exception(thrown);
  } catch (const computation_error& failure) {
    set_computation_error(classes->computation, failure);
  } catch (const unsupported_device& failure) {
    PyErr_SetString(classes->unsupported_device.ptr(), failure.what());
  } catch (const file_error& failure) {
    PyErr_SetString(classes->file.ptr(), failure.what());
  } catch (const device_bad_alloc& failure) {
    PyErr_SetString(PyExc_MemoryError, failure.what());
  } catch (const nullscope::invalid_argument& failure) {
    PyErr_SetString(PyExc_ValueError, failure.what());
  } catch (const error& failure) {
    PyErr_SetString(PyExc_RuntimeError, failure.what());
  } catch (const sycl::exception& failure) {
    PyErr_SetString(PyExc_RuntimeError, failure.what());
  }
}

}  // namespace

void bind_errors(nb::module_& m) {
  // Lives as long as the process, as the translator does.
  auto* classes = new error_classes;
  classes->unsupported_device =
      new_class(m, "UnsupportedDevice", PyExc_ValueError,
                "No device fits the request, or the device lacks what the call needs (float64, local memory).");
  classes->computation = new_class(m, "ComputationError", PyExc_ArithmeticError,
                                   "An algorithm failed on some matrices of a batch: they did not converge, or held "
                                   "NaN or infinity. `failed_batch_ids` lists them, ascending.");
  classes->file = new_class(m, "FileError", PyExc_OSError,
                            "A file or model that cannot be found, fetched, read or written, or is malformed.");
  nb::register_exception_translator(translate, classes);
}

void require_converged(const char* function, const result<std::int32_t>& status, const result<std::int64_t>& rank) {
  const std::vector<std::int64_t> failed =
      failed_ids({status.data(), status.data() + status.size()}, {rank.data(), rank.data() + rank.size()});
  if (failed.empty()) return;
  throw computation_error(fmt::format("{}: {} of {} heads hold NaN or infinity, overflow, or did not converge: {}",
                                      function, failed.size(), status.size(), fmt::join(failed, ", ")),
                          failed);
}

}  // namespace nullscope::python
