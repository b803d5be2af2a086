/// Executes the PTX of kernels on the host and writes what was counted, as JSON: `./run machine-code --execute`.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <nullscope/core/device.hpp>

#include "bench/machine_code/workloads.hpp"
#include "tests/gpu/ptx/ptx_runner.hpp"

namespace {

using namespace nullscope;

nlohmann::json figures_of(const bench::workload& work, std::string_view kernel, const ptx::kernel_counts& found) {
  nlohmann::json kinds;
  for (std::size_t i = 0; i < ptx::kind_names.size(); ++i) kinds[ptx::kind_names[i]] = found.counted.executed[i];
  const ptx::counts& c = found.counted;
  return {{"workload", work.name},
          {"size", work.size},
          {"kernel", kernel},
          {"launches", found.launches},
          {"instructions", c.total()},
          {"executed", kinds},
          {"active_lanes",
           static_cast<double>(c.lanes_executed) / static_cast<double>(std::max<std::uint64_t>(c.total(), 1))},
          {"shared_wavefronts", c.shared_wavefronts},
          {"shared_conflicts", c.shared_conflicts},
          {"global_bytes_read", 32 * c.sectors_read},
          {"global_bytes_written", 32 * c.sectors_written},
          {"global_bytes_asked", c.bytes_read + c.bytes_written}};
}

int execute(const std::string& processor, const std::string& wanted) {
  const sycl::queue queue(select_device("cpu"), sycl::property::queue::in_order());
  ptx::ptx_runner runner(queue.get_device(), processor);
  nlohmann::json kernels = nlohmann::json::array();
  for (const bench::workload& work : bench::workloads()) {
    runner.forget_counts();
    context ctx = ptx::executing_context(queue, runner);
    if (isatty(2) != 0) fmt::print(stderr, "\r{:60}", work.name);
    work.run(ctx);
    for (const auto& [kernel, found] : runner.counted()) {
      const bool is_wanted =
          kernel.find(wanted) != std::string_view::npos || work.name.find(wanted) != std::string::npos;
      if (is_wanted) kernels.push_back(figures_of(work, kernel, found));
    }
  }
  if (isatty(2) != 0) fmt::print(stderr, "\r{:60}\r", "");
  if (kernels.empty()) {
    fmt::print(stderr, "execute_kernels: no kernel and no workload has {} in its name\n", wanted);
    return 2;
  }
  std::cout << nlohmann::json{{"target", processor}, {"kernels", kernels}}.dump(1) << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Executes the PTX of kernels on the host and writes what was counted, as JSON.");
  std::string processor = "sm_80", kernel;
  app.add_option("processor", processor, "What the kernels are compiled for (default sm_80)");
  app.add_option("--kernel", kernel, "Only kernels and workloads whose name contains this");
  CLI11_PARSE(app, argc, argv);
  try {
    return execute(processor, kernel);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "execute_kernels: {}\n", failure.what());
    return 1;
  }
}
