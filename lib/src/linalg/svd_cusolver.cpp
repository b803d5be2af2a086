#include <exception>
#include <type_traits>

#include "lib/src/linalg/svd_libraries.hpp"
#include "lib/src/linalg/svd_staged.hpp"
#include "lib/src/vendor/library_handles.hpp"
#include "lib/src/vendor/native_command.hpp"

namespace nullscope::detail {

namespace cusolver {
namespace {

/// The library's handle with default parameters, for one native command.
class session {
 public:
  session(const functions& library, library_handle& handle, void* stream) : library_(library), lock_(handle.mutex) {
    if (handle.value == nullptr) expect_success(library.create(&handle.value), "cusolverDnCreate");
    expect_success(library.set_stream(handle.value, stream), "cusolverDnSetStream");
    expect_success(library.create_parameters(&parameters), "cusolverDnCreateParams");
    value = handle.value;
  }
  ~session() { library_.destroy_parameters(parameters); }
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  void *value = nullptr, *parameters = nullptr;

 private:
  const functions& library_;
  std::lock_guard<std::mutex> lock_;
};

/// One matrix at a time, in memory that the library asks for.
template <class T>
struct gesvd {
  staged_svd<T> staged;
  std::size_t device_bytes = 0, host_bytes = 0;
  std::byte *device_memory = nullptr, *host_memory = nullptr;

  static constexpr data_type type = std::is_same_v<T, double> ? cublas::f64 : cublas::f32;

  signed char u_job() const { return !staged.has_vectors() ? 'N' : staged.is_full() ? 'A' : 'S'; }
  signed char vt_job() const { return staged.has_vectors() ? 'S' : 'N'; }

  void ask_for_sizes(const functions& library, const session& with) {
    const auto& [m, n, columns, a, u, vt, s, not_finite, info] = staged;
    const int status = library.svd_sizes(with.value, with.parameters, u_job(), vt_job(), m, n, type, a.data, m, type,
                                         s.data, type, u.data, m, type, vt.data, n, type, &device_bytes, &host_bytes);
    expect_success(status, "cusolverDnXgesvd_bufferSize");
  }

  void decompose(const functions& library, const session& with, std::int64_t b) const {
    const auto& [m, n, columns, a, u, vt, s, not_finite, info] = staged;
    const auto of = [b](const auto& x) { return x.data == nullptr ? nullptr : x.data + b * x.stride[0]; };
    const int status =
        library.svd(with.value, with.parameters, u_job(), vt_job(), m, n, type, of(a), m, type, of(s), type, of(u), m,
                    type, of(vt), n, type, device_memory, device_bytes, host_memory, host_bytes, of(info));
    expect_success(status, "cusolverDnXgesvd");
  }
};

/// Calls `call` in a native command of its own, and waits for it.
template <class Call>
void call_and_wait(const sycl::queue& like, Call call) {
  sycl::queue queue(like.get_context(), like.get_device(), sycl::property::queue::in_order());
  std::exception_ptr failure;
  enqueue_native(queue, {}, [&](void* stream) {
    try {
      call(stream);
    } catch (...) {
      failure = std::current_exception();
    }
  }).wait();
  if (failure) std::rethrow_exception(failure);
}

template <class T>
void decompose_batch(operation& op, const functions& library, const svd_problem<T>& problem) {
  library_handle& handle = handles_of<functions>().of(op.ctx().queue());
  gesvd<T> work{staged_svd<T>(op, problem)};
  call_and_wait(op.ctx().queue(), [&](void* stream) { work.ask_for_sizes(library, session(library, handle, stream)); });
  work.device_memory = op.take<std::byte>(static_cast<std::int64_t>(work.device_bytes));
  work.host_memory = op.take_host<std::byte>(static_cast<std::int64_t>(work.host_bytes));
  decompose_staged(op, problem, work.staged,
                   [=, &library, &handle, batch = problem.batch()](sycl::queue& queue, const events& dependencies) {
                     return enqueue_native(queue, dependencies, [=, &library, &handle](void* stream) {
                       const session with(library, handle, stream);
                       for (std::int64_t b = 0; b < batch; ++b) work.decompose(library, with, b);
                     });
                   });
}

}  // namespace

}  // namespace cusolver

void svd_cusolver(operation& op, const cusolver::functions& library, const svd_problem<float>& problem) {
  cusolver::decompose_batch(op, library, problem);
}
void svd_cusolver(operation& op, const cusolver::functions& library, const svd_problem<double>& problem) {
  cusolver::decompose_batch(op, library, problem);
}

}  // namespace nullscope::detail
