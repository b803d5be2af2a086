/// What moving data costs: host to device, device to host, and within the device. "sycl" is what tensors do, with the
/// host's data in ordinary memory; "runtime" is the SYCL runtime's memcpy from and to its own host memory, which the
/// device can reach without a copy in between.
#include <nullscope/core/tensor.hpp>

#include "bench/core/harness.hpp"
#include "bench/core/probes.hpp"

namespace nullscope::bench {
namespace {

struct transfer_data {
  context& ctx;
  std::vector<float> from, to;  // ordinary memory
  tensor<float> near_host;      // of the runtime, on the host
  copy_probe device;            // an array and its copy, on the device

  transfer_data(context& ctx, std::int64_t bytes)
      : ctx(ctx),
        from(random_numbers<float>(bytes / static_cast<std::int64_t>(sizeof(float)), 1)),
        to(from.size()),
        near_host(ctx, {static_cast<std::int64_t>(from.size())}, from, sycl::usm::alloc::host),
        device(ctx, 2 * bytes) {
    device.input().copy_from(from);
  }

  std::size_t bytes() const { return from.size() * sizeof(float); }
  void fill(tensor<float>& x) { ctx.queue().fill(x.data(), -2.0f, from.size()).wait(); }
  std::vector<float> of_host() const { return {near_host.span().begin(), near_host.span().end()}; }
};

void check(report& report, const std::vector<float>& got, const transfer_data& d) {
  report.residual("wrong", got == d.from ? 0 : 1, 0);
}

/// Bytes are those that arrive: what a bus is said to carry.
void add_to_device(suite& suite, std::int64_t bytes) {
  suite
      .add({.operation = "copy_to_device",
            .type = "f32",
            .sizes = {{"bytes", bytes}},
            .bytes = static_cast<double>(bytes)},
           [=](context& ctx) { return transfer_data(ctx, bytes); })
      .path("sycl", [](transfer_data& d) { d.device.input().copy_from(d.from); })
      .path(
          "runtime",
          [](transfer_data& d) { d.ctx.queue().memcpy(d.device.input().data(), d.near_host.data(), d.bytes()).wait(); })
      .clear([](transfer_data& d) { d.fill(d.device.input()); })
      .verify([](transfer_data& d, report& report) { check(report, d.device.input().to_host(), d); });
}

void add_to_host(suite& suite, std::int64_t bytes) {
  suite
      .add({.operation = "copy_to_host",
            .type = "f32",
            .sizes = {{"bytes", bytes}},
            .bytes = static_cast<double>(bytes)},
           [=](context& ctx) { return transfer_data(ctx, bytes); })
      .path("sycl", [](transfer_data& d) { d.to = d.device.input().to_host(); })
      .path(
          "runtime",
          [](transfer_data& d) { d.ctx.queue().memcpy(d.near_host.data(), d.device.input().data(), d.bytes()).wait(); })
      .clear([](transfer_data& d) {
        d.to.assign(d.to.size(), -2.0f);
        d.fill(d.near_host);
      })
      .verify([](transfer_data& d, report& report) { check(report, report.path() == "sycl" ? d.to : d.of_host(), d); });
}

/// Read and written: twice as many bytes. "sycl" is the kernel that measures the bandwidth for the rooflines.
void add_on_device(suite& suite, std::int64_t bytes) {
  suite
      .add({.operation = "copy_on_device",
            .type = "f32",
            .sizes = {{"bytes", bytes}},
            .bytes = 2 * static_cast<double>(bytes)},
           [=](context& ctx) { return transfer_data(ctx, bytes); })
      .path("sycl", [](transfer_data& d) { d.device.call(); })
      .path("runtime",
            [](transfer_data& d) {
              d.ctx.queue().memcpy(d.device.output().data(), d.device.input().data(), d.bytes()).wait();
            })
      .clear([](transfer_data& d) { d.fill(d.device.output()); })
      .verify([](transfer_data& d, report& report) { check(report, d.device.output().to_host(), d); });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "copies between host and device, and on the device", [](suite& suite) {
    for (const std::int64_t bytes : {1 << 12, 1 << 20, 1 << 24, 1 << 28}) {
      add_to_device(suite, bytes);
      add_to_host(suite, bytes);
      add_on_device(suite, bytes);
    }
  });
}
