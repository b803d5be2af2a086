#include <exception>
#include <type_traits>

#include "kernels/linalg/svd/unstage.hpp"
#include "kernels/linalg/svd/vendor_stage.hpp"
#include "lib/src/core/fill.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/svd_libraries.hpp"
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

/// Matrices column by column, and what becomes of them.
template <class T>
struct staged_svd {
  std::int64_t m, n, u_columns;
  view<T, 3> a, u, vt;  // (batch, m, n), (batch, m, u_columns), (batch, n, n); the last two absent without vectors
  view<T, 2> s;
  view<std::int32_t, 1> not_finite, info;
  std::size_t device_bytes = 0, host_bytes = 0;
  std::byte *device_memory = nullptr, *host_memory = nullptr;

  static constexpr data_type type = std::is_same_v<T, double> ? cublas::f64 : cublas::f32;

  staged_svd(operation& op, const svd_problem<T>& problem)
      : m(problem.m()),
        n(problem.n()),
        u_columns(problem.u_columns),
        a(transposed(op.take_array<T>(problem.batch(), n, m))),
        s(op.take_array<T>(problem.batch(), n)),
        not_finite(op.take_array<std::int32_t>(problem.batch())),
        info(op.take_array<std::int32_t>(problem.batch())) {
    if (u_columns == 0) return;
    u = transposed(op.take_array<T>(problem.batch(), u_columns, m));
    vt = transposed(op.take_array<T>(problem.batch(), n, n));
  }

  signed char u_job() const { return u_columns == 0 ? 'N' : u_columns == m && m > n ? 'A' : 'S'; }
  signed char vt_job() const { return u_columns == 0 ? 'N' : 'S'; }

  void ask_for_sizes(const functions& library, const session& with) {
    const int status = library.svd_sizes(with.value, with.parameters, u_job(), vt_job(), m, n, type, a.data, m, type,
                                         s.data, type, u.data, m, type, vt.data, n, type, &device_bytes, &host_bytes);
    expect_success(status, "cusolverDnXgesvd_bufferSize");
  }

  void decompose(const functions& library, const session& with, std::int64_t b) const {
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
  constexpr std::int64_t items = 64;
  const std::int64_t batch = problem.batch();
  const auto work_items = [](std::int64_t count) { return groups_of(ceil_div(count, items), items); };
  library_handle& handle = handles_of<functions>().of(op.ctx().queue());
  staged_svd<T> staged(op, problem);
  call_and_wait(op.ctx().queue(),
                [&](void* stream) { staged.ask_for_sizes(library, session(library, handle, stream)); });
  staged.device_memory = op.take<std::byte>(static_cast<std::int64_t>(staged.device_bytes));
  staged.host_memory = op.take_host<std::byte>(static_cast<std::int64_t>(staged.host_bytes));

  fill_zero(op, staged.not_finite);
  op.launch(work_items(batch * staged.m), 0, kernels::svd_stage<T>{problem.a, staged.a, staged.not_finite});
  op.launch(work_items(batch * staged.m), 0, kernels::svd_blank<T>{staged.not_finite, staged.a});
  op.run([=, &library, &handle](sycl::queue& queue, const events& dependencies) {
    return enqueue_native(queue, dependencies, [=, &library, &handle](void* stream) {
      const session with(library, handle, stream);
      for (std::int64_t b = 0; b < batch; ++b) staged.decompose(library, with, b);
    });
  });
  const kernels::svd_judge<T> judge{staged.not_finite, staged.info, staged.s, staged.u, staged.vt};
  op.launch(work_items(batch * judge.rows()), 0, judge);
  const kernels::svd_unstage<T> unstage{staged.s,
                                        staged.u,
                                        staged.vt,
                                        staged.info,
                                        problem.s,
                                        problem.u,
                                        staged.vt.data == nullptr ? view<T, 3>{} : transposed(problem.v),
                                        problem.status,
                                        problem.sweeps};
  op.launch(groups_of(batch * unstage.rows(), 1), 0, unstage);
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
