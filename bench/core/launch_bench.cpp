/// What a launch costs: an almost empty kernel through `launch`, against the SYCL runtime's own parallel_for with the
/// same kernel and arguments. One launch and a wait, and many launches before one wait.
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>

#include "bench/core/harness.hpp"
#include "bench/core/launch_kernel.hpp"
#include "lib/src/core/context_state.hpp"

namespace nullscope::bench {
namespace {

using kernel = kernels::count_launches;

struct launch_data {
  context& ctx;
  std::int64_t launches;  // per call
  tensor<std::int64_t> count;
  kernel functor{count.data()};
#ifndef NULLSCOPE_SINGLE_SOURCE
  sycl::kernel code = detail::compiled_kernels(ctx.queue(), {&detail::description<kernel>}).front();
  tensor<std::byte> on_device{ctx, {sizeof(kernel)}};

  void set_arguments(sycl::handler& handler) const {
    namespace ext = sycl::ext::oneapi::experimental;
    if (detail::passes_address(ctx.queue().get_device())) {
      handler.set_arg(0, on_device.data());
    } else {
      handler.set_arg(0, functor);
    }
    ext::work_group_memory<std::byte[]> local(detail::local_alignment, handler);
    handler.set_arg(1, local);
  }
#endif

  launch_data(context& ctx, std::int64_t launches) : ctx(ctx), launches(launches), count(ctx, {1}) {
#ifndef NULLSCOPE_SINGLE_SOURCE
    ctx.queue().memcpy(on_device.data(), &functor, sizeof functor).wait();
#endif
  }
};

const sycl::nd_range<1> one_work_item{1, 1};

void launch_with_nullscope(launch_data& d) {
  for (std::int64_t i = 1; i < d.launches; ++i) launch(d.ctx, one_work_item, 0, d.functor);
  launch(d.ctx, one_work_item, 0, d.functor).wait();
}

sycl::event launch_with_runtime(launch_data& d) {
  return d.ctx.queue().submit([&](sycl::handler& handler) {
#ifdef NULLSCOPE_SINGLE_SOURCE
    sycl::local_accessor<std::byte, 1> local(detail::local_alignment, handler);
    handler.parallel_for(one_work_item, [=, functor = d.functor](sycl::nd_item<1> item) { functor(item, &local[0]); });
#else
    d.set_arguments(handler);
    handler.parallel_for(one_work_item, d.code);
#endif
  });
}

void launch_all_with_runtime(launch_data& d) {
  for (std::int64_t i = 1; i < d.launches; ++i) launch_with_runtime(d);
  launch_with_runtime(d).wait();
}

void add_launches(suite& suite, std::int64_t launches) {
  suite
      .add({.operation = "launch", .type = "f32", .sizes = {{"launches", launches}}},
           [=](context& ctx) { return launch_data(ctx, launches); })
      .path("sycl", launch_with_nullscope)
      .path("runtime", launch_all_with_runtime)
      .restore([](launch_data& d) { d.count.copy_from(std::vector<std::int64_t>{0}); })
      .verify([](launch_data& d, report& report) {
        report.residual("missed", static_cast<double>(d.launches - d.count.to_host()[0]), 0);
      });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "launches of an almost empty kernel", [](suite& suite) {
    add_launches(suite, 1);
    add_launches(suite, 100);
  });
}
