/// Prepares the process before its first SYCL call, so that a program that links the library just runs. What the user
/// has set wins.
#include "lib/src/core/process_setup.hpp"

#include <cstdlib>
#include <mutex>
#include <nullscope/core/device.hpp>

#ifdef NULLSCOPE_SINGLE_SOURCE

namespace nullscope {

void prepare_process() {
#ifdef __ADAPTIVECPP__
  static std::once_flag is_done;
  constexpr int keep = 0;                                                  // do not replace what is set
  std::call_once(is_done, [] { setenv("ACPP_DEBUG_LEVEL", "1", keep); });  // its warnings go to stdout
#endif
}

}  // namespace nullscope

#else

#include <dlfcn.h>

#include <filesystem>
#include <sycl/sycl.hpp>
#include <system_error>

namespace nullscope {

namespace fs = std::filesystem;

fs::path detail::runtime_folder() {
  Dl_info info{};
  const auto function = static_cast<std::vector<sycl::platform> (*)()>(&sycl::platform::get_platforms);
  if (dladdr(reinterpret_cast<const void*>(function), &info) == 0 || info.dli_fname == nullptr) return {};
  return fs::path(info.dli_fname).parent_path();
}

namespace {

/// Loads what the OpenCL loader beside the SYCL runtime needs, and has no search path of its own for. Without it the
/// loader is found only if something else, such as the adapter of Level Zero, has brought these libraries along; not if
/// ONEAPI_DEVICE_SELECTOR asks for OpenCL alone. The first one is needed by the others.
void load_what_opencl_needs(const fs::path& folder) {
  for (const char* library : {"libintlc.so.5", "libimf.so", "libsvml.so", "libirng.so"}) {
    dlopen((folder / library).c_str(), RTLD_LAZY);  // without one, OpenCL is what it would have been
  }
}

/// Points the OpenCL loader at the CPU driver that stands beside the SYCL runtime.
void prepare() {
  constexpr int keep = 0;  // do not replace what is set
  const fs::path folder = detail::runtime_folder();
  if (folder.empty()) return;
  load_what_opencl_needs(folder);
  std::error_code ignored;
  const fs::path driver = folder / "libintelocl.so";
  if (fs::exists(driver, ignored)) setenv("OCL_ICD_FILENAMES", driver.c_str(), keep);
}

}  // namespace

void prepare_process() {
  static std::once_flag is_done;
  std::call_once(is_done, prepare);
}

}  // namespace nullscope

#endif
