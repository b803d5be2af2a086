/// The ceilings that the other benchmarks are compared with, measured as benchmarks: fused multiply-adds in registers,
/// and copies of several sizes against std::memcpy.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "bench/core/harness.hpp"
#include "bench/core/probes.hpp"

namespace nullscope::bench {
namespace {

constexpr std::int64_t rounds = 1 << 19;

template <class T>
struct fma_data {
  fma_probe<T> probe;
  std::vector<T> host;  // (threads): what the loop computed, the mean of the chains
};

/// The chains of the kernel as a plain loop that the compiler vectorises, with as many flops as the probe.
template <class T>
void fma_loop(fma_data<T>& data) {
  constexpr std::int64_t chains = 64;
  const std::int64_t threads = static_cast<std::int64_t>(data.host.size());
  const auto steps = static_cast<std::int64_t>(data.probe.flops() / (2.0 * chains * static_cast<double>(threads)));
  parallel_for(threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t thread = begin; thread < end; ++thread) {
      T x[chains] = {};
      for (std::int64_t step = 0; step < steps; ++step) {
        for (T& chain : x) chain = chain * static_cast<T>(0.5) + 1;
      }
      data.host[static_cast<std::size_t>(thread)] = std::reduce(x, x + chains) / chains;
    }
  });
}

template <class T>
void add_fma(suite& suite, const std::string& type) {
  const double flops = fma_probe<T>(suite.ctx(), rounds).flops();
  suite
      .add({.operation = "fma", .type = type, .flops = flops},
           [](context& ctx) {
             const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
             return fma_data<T>{fma_probe<T>(ctx, rounds), std::vector<T>(threads)};
           })
      .path("sycl", [](fma_data<T>& d) { d.probe.call(); })
      .path("loop", fma_loop<T>)
      .verify([](fma_data<T>& d, report& report) {
        double error = 0;
        for (const T x : d.host) error = worse(error, std::abs(static_cast<double>(x) / 2 - 1));
        report.residual("error", report.path() == "loop" ? error : d.probe.error(), 1e-5);
      });
}

void add_matrix(suite& suite) {
  const double flops = matrix_probe(suite.ctx(), rounds).flops();
  suite
      .add({.operation = "fma", .type = "bf16", .flops = flops}, [](context& ctx) { return matrix_probe(ctx, rounds); })
      .path("sycl", [](matrix_probe& d) { d.call(); })
      .verify([](matrix_probe& d, report& report) { report.residual("error", d.error(), 0); });
}

struct copy_data {
  copy_probe probe;
  std::vector<float> from, to;  // on the host
};

void add_copy(suite& suite, std::int64_t mebibytes) {
  const std::int64_t bytes = mebibytes << 20;
  const std::size_t size = static_cast<std::size_t>(bytes) / 2 / sizeof(float);
  suite
      .add({.operation = "copy", .type = "f32", .sizes = {{"bytes", bytes}}, .bytes = static_cast<double>(bytes)},
           [bytes, size](context& ctx) {
             copy_data data{copy_probe(ctx, bytes), random_numbers<float>(static_cast<std::int64_t>(size), 1),
                            std::vector<float>(size)};
             data.probe.input().copy_from(data.from);
             return data;
           })
      .path("sycl", [](copy_data& d) { d.probe.call(); })
      .path("loop",
            [](copy_data& d) {
              parallel_for(static_cast<std::int64_t>(d.from.size()), [&](std::int64_t begin, std::int64_t end) {
                std::memcpy(d.to.data() + begin, d.from.data() + begin,
                            static_cast<std::size_t>(end - begin) * sizeof(float));
              });
            })
      .verify([](copy_data& d, report& report) {
        report.residual("wrong", (report.path() == "loop" ? d.to : d.probe.output().to_host()) == d.from ? 0 : 1, 0);
      });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "peak arithmetic and copy bandwidth", [](suite& suite) {
    add_fma<float>(suite, "f32");
    add_fma<double>(suite, "f64");
    if (matrix_probe::serves(suite.ctx())) add_matrix(suite);
    for (const std::int64_t mebibytes : {1, 4, 16, 64, 256, 1024}) add_copy(suite, mebibytes);
  });
}
