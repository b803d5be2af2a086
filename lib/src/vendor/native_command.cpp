#include "lib/src/vendor/native_command.hpp"

#ifdef SYCL_EXT_ONEAPI_ENQUEUE_NATIVE_COMMAND
#include <sycl/detail/backend_traits_cuda.hpp>
#include <sycl/detail/backend_traits_hip.hpp>
#include <sycl/interop_handle.hpp>
#endif

namespace nullscope::detail {

native_queue native_queue_of([[maybe_unused]] const sycl::queue& queue) {
#ifdef SYCL_EXT_ONEAPI_ENQUEUE_NATIVE_COMMAND
  if (queue.get_backend() == sycl::backend::ext_oneapi_cuda) return native_queue::cuda;
  if (queue.get_backend() == sycl::backend::ext_oneapi_hip) return native_queue::hip;
#endif
  return native_queue::none;
}

sycl::event enqueue_native(sycl::queue& queue, const events& dependencies, const std::function<void(void*)>& call) {
#ifdef __ADAPTIVECPP__  // has neither host tasks nor these native commands
  queue.wait();
  sycl::event::wait(dependencies);
  call(nullptr);
  return {};
#else
  return queue.submit([&](sycl::handler& handler) {
    handler.depends_on(dependencies);
    switch (native_queue_of(queue)) {
#ifdef SYCL_EXT_ONEAPI_ENQUEUE_NATIVE_COMMAND
      case native_queue::cuda:
        handler.ext_codeplay_enqueue_native_command(
            [call](sycl::interop_handle native) { call(native.get_native_queue<sycl::backend::ext_oneapi_cuda>()); });
        break;
      case native_queue::hip:
        handler.ext_codeplay_enqueue_native_command(
            [call](sycl::interop_handle native) { call(native.get_native_queue<sycl::backend::ext_oneapi_hip>()); });
        break;
#endif
      default: handler.host_task([call] { call(nullptr); });
    }
  });
#endif
}

}  // namespace nullscope::detail
