#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <nullscope/core/device.hpp>
#include <nullscope/core/version.hpp>

#include "bindings.hpp"
#include "devices.hpp"

namespace nb = nanobind;

namespace nullscope::python {
namespace {

std::unique_ptr<device_handle> select(const std::string& text) {
  require_own_process();
  const nb::gil_scoped_release released;
  return std::make_unique<device_handle>(select_device(text));
}

std::vector<std::unique_ptr<device_handle>> all_devices() {
  require_own_process();
  const nb::gil_scoped_release released;
  std::vector<std::unique_ptr<device_handle>> result;
  for (const sycl::device& device : devices()) result.push_back(std::make_unique<device_handle>(device));
  return result;
}

std::string representation(const device_handle& device) {
  return fmt::format("<nullscope.Device {}: {}>", to_string(device.properties().kind), device.properties().name);
}

}  // namespace

void bind_devices(nb::module_& m) {
  m.def("version", &version);
  m.def("select_device", &select, nb::arg("text"));
  m.def("devices", &all_devices);
  const auto property = [](auto member) {
    return [member](const device_handle& device) { return device.properties().*member; };
  };
  nb::class_<device_handle>(m, "Device",
                            "A device of the SYCL runtime. Functions take it as `device=`; its queues and compiled "
                            "kernels are made on first use, and threads may share it.")
      .def_prop_ro("name", property(&device_properties::name))
      .def_prop_ro("vendor", property(&device_properties::vendor))
      .def_prop_ro("driver", property(&device_properties::driver))
      .def_prop_ro("backend", property(&device_properties::backend))
      .def_prop_ro("kind", [](const device_handle& device) { return std::string(to_string(device.properties().kind)); })
      .def_prop_ro("has_float64", property(&device_properties::fp64))
      .def_prop_ro("compute_units", property(&device_properties::compute_units))
      .def_prop_ro("memory_bytes", property(&device_properties::global_memory_bytes))
      .def_prop_ro("reads_host_memory", &device_handle::reads_host_memory,
                   "Whether arrays of NumPy, PyTorch and JAX in host memory are used without a copy.")
      .def("__repr__", &representation);
}

}  // namespace nullscope::python
