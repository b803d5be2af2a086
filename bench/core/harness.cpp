#include "bench/core/harness.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/version.hpp>
#include <numeric>
#include <set>

#include "bench/core/options.hpp"
#include "bench/core/reporter.hpp"
#include "bench/core/roofline.hpp"
#include "bench/core/summary.hpp"

namespace nullscope {

#ifndef NULLSCOPE_SINGLE_SOURCE
std::vector<kernel_header> bench_kernel_headers();  // written by the build
#endif

namespace bench {

void report::residual(const std::string& name, double value, double bound) {
  columns_[name] = value;
  if (value <= bound) return;
  failure_ += fmt::format("{}{} {:.3g} exceeds {:.3g}", failure_.empty() ? "" : ", ", name, value, bound);
}

any_comparison::any_comparison(workload work) : work_(std::move(work)) {
  if (work_.footprint == 0) work_.footprint = work_.bytes;
}

void any_comparison::add_path(const std::string& path) {
  if (path != "sycl" && path != "plain" && path != "onemkl" && path != "loop" && path != "runtime") {
    throw invalid_argument(
        fmt::format("benchmark {}: a path is sycl, plain, onemkl, loop or runtime, not {}", name(""), path));
  }
  paths_.push_back(path);
}

std::string any_comparison::name(const std::string& path) const {
  std::string result = work_.operation + "/" + work_.type + (path.empty() ? "" : "/" + path);
  for (const auto& [key, value] : work_.sizes) result += fmt::format("/{}:{}", key, value);
  return result;
}

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// A comparison while it runs; its data exist as long as this object.
class running_comparison {
 public:
  running_comparison(any_comparison& of, context& ctx, roofline* limits) : of_(of), ctx_(ctx), limits_(limits) {
    for (const std::string& path : of.paths()) states_.push_back({false, 0, report(path)});
  }

  ~running_comparison() {
    of_.tear_down();
    if (limits_ != nullptr) limits_->release();
  }

  running_comparison(const running_comparison&) = delete;

  /// One repetition of one path.
  void repeat(benchmark::State& state, std::size_t path) {
    path_state& known = states_[path];
    try {
      if (!known.is_verified) verify(path);
      if (known.found.failure().empty()) {
        time(state, path);
      } else {
        state.SkipWithError(("wrong result: " + known.found.failure()).c_str());
      }
    } catch (const std::exception& failure) {
      state.SkipWithError(failure.what());
    }
  }

 private:
  struct path_state {
    bool is_verified;
    double seconds;  // of the last call outside the timing
    report found;
  };

  void verify(std::size_t path) {
    if (!is_set_up_) of_.set_up(ctx_);
    is_set_up_ = true;
    of_.clear();
    untimed_call(path);
    of_.verify(states_[path].found);
    states_[path].is_verified = true;
  }

  void untimed_call(std::size_t path) {
    of_.restore();
    const double start = now();
    of_.call(path);
    states_[path].seconds = now() - start;
  }

  void time(benchmark::State& state, std::size_t path) {
    const workload& work = of_.work();
    // Right before each repetition: a lower clock rate or a busy machine lowers the ceiling and the benchmark alike,
    // and the median over the repetitions is a median of such pairs.
    const ceilings reach = limits_ != nullptr ? limits_->sample(work) : ceilings{};
    // The caches hold the data of the probe now; a short call needs its own data back.
    if (states_[path].seconds < 0.1) untimed_call(path);
    std::vector<double> calls;
    for (auto _ : state) {
      of_.restore();
      const double start = now();
      of_.call(path);
      calls.push_back(now() - start);
      state.SetIterationTime(calls.back());
    }
    const double seconds = std::reduce(calls.begin(), calls.end()) / static_cast<double>(calls.size());
    if (work.flops > 0) state.counters["GFLOP/s"] = work.flops / seconds * 1e-9;
    if (work.bytes > 0) state.counters["GB/s"] = work.bytes / seconds * 1e-9;
    if (work.flops > 0 && work.bytes > 0) state.counters["intensity"] = work.flops / work.bytes;
    const bool is_on_device = of_.paths()[path] != "loop" || ctx_.device().kind == device_kind::cpu;
    if (limits_ != nullptr && is_on_device && (work.flops > 0 || work.bytes > 0)) {
      // The ceilings are medians too, so that one disturbed call does not count.
      state.counters["roofline"] = reach.least_seconds(work) / median(calls);
      if (work.flops > 0) state.counters["ceiling GFLOP/s"] = reach.flops * 1e-9;
      if (work.bytes > 0) state.counters["ceiling GB/s"] = reach.bytes * 1e-9;
    }
    for (const auto& [name, value] : states_[path].found.columns()) state.counters[name] = value;
  }

  any_comparison& of_;
  context& ctx_;
  roofline* limits_;  // null: no ceilings
  bool is_set_up_ = false;
  std::vector<path_state> states_;
};

std::string runtime_version() {
#ifdef __LIBSYCL_MAJOR_VERSION
  return fmt::format("libsycl {}.{}.{}", __LIBSYCL_MAJOR_VERSION, __LIBSYCL_MINOR_VERSION, __LIBSYCL_PATCH_VERSION);
#else
  return fmt::format("SYCL {}", SYCL_LANGUAGE_VERSION);
#endif
}

std::string compiler_version() {
#ifdef __clang__
  return __VERSION__;
#else
  return fmt::format("GCC {}", __VERSION__);
#endif
}

struct selected_path {
  any_comparison* of;
  std::size_t path;
  std::string name;
};

/// The benchmarks that the filter and the device leave, grouped by comparison.
std::vector<std::vector<selected_path>> select(suite& described, const options& chosen) {
  const bool fp64 = described.ctx().device().fp64;
  std::vector<std::vector<selected_path>> groups;
  for (const auto& of : described.comparisons()) {
    if (of->work().type == "f64" && !fp64) continue;
    std::vector<selected_path> group;
    for (std::size_t path = 0; path < of->paths().size(); ++path) {
      const std::string name = of->name(of->paths()[path]);
      if (chosen.selects(name)) group.push_back({of.get(), path, name});
    }
    if (!group.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

/// Reports the device, and the ceilings that matter at the start of the run unless they are switched off.
void add_context(const context& ctx, const std::set<std::string>& types, bool moves_data, roofline* limits) {
  const device_properties& device = ctx.device();
  const auto add = [](const std::string& key, const std::string& value) { benchmark::AddCustomContext(key, value); };
  add("nullscope", fmt::format("{} ({})", version(), git_commit()));
  add("device", device.name);
  add("driver", device.driver);
  add("backend", device.backend);
  add("runtime", runtime_version());
  add("compiler", compiler_version());
  add("compute units", std::to_string(device.compute_units));
  if (limits == nullptr) return;
  for (const std::string& type : types) {
    add("peak " + type, fmt::format("{:.1f} GFLOP/s", limits->peak_flops(type) * 1e-9));
  }
  if (!moves_data) return;
  for (const std::int64_t mebibytes : {4, 64, 512}) {  // the last one exceeds the caches
    const std::int64_t bytes = mebibytes << 20;
    if (bytes > device.global_memory_bytes / 4) continue;
    add(fmt::format("copy {} MiB", mebibytes),
        fmt::format("{:.1f} GB/s", limits->bandwidth(static_cast<double>(bytes)) * 1e-9));
  }
  limits->release();
}

int run_all(const options& chosen, suite& described) {
  const auto groups = select(described, chosen);
  std::size_t longest = 10;
  std::set<std::string> types;  // whose peaks matter
  bool moves_data = false;
  for (const auto& group : groups) {
    const workload& work = group.front().of->work();
    if (work.flops > 0) types.insert(work.type);
    moves_data |= work.bytes > 0;
    for (const auto& [of, path, name] : group) {
      longest = std::max(longest, name.size());
      if (chosen.list) std::cout << name << '\n';
    }
  }
  if (chosen.list) return 0;
  if (groups.empty()) throw usage_error("--benchmark_filter: no benchmark has such a name; see --benchmark_list_tests");
  reporter results(chosen, longest);
  const auto limits = chosen.ceilings ? std::make_unique<roofline>(described.ctx()) : nullptr;
  add_context(described.ctx(), types, moves_data, limits.get());
  for (const auto& group : groups) {
    running_comparison running(*group.front().of, described.ctx(), limits.get());
    benchmark::ClearRegisteredBenchmarks();
    for (const selected_path& one : group) {
      benchmark::RegisterBenchmark(one.name.c_str(), [&running, path = one.path](benchmark::State& state) {
        running.repeat(state, path);
      })->UseManualTime();
    }
    benchmark::RunSpecifiedBenchmarks(&results, nullptr, ".");
  }
  results.finish();
  print_summary(results.summary_stream(), described, results.results());
  for (const auto& [name, found] : results.results()) {
    if (!found.failure.empty()) return 1;
  }
  return 0;
}

}  // namespace

int run(int argc, char** argv, const std::string& title, const std::function<void(suite&)>& describe) {
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  try {
    const options chosen = read_flags(argc, argv);
    if (chosen.help) {
      print_help(program, title);
      return 0;
    }
#ifndef NULLSCOPE_SINGLE_SOURCE
    add_kernel_headers(bench_kernel_headers());
#endif
    suite described{context(select_device(chosen.device))};
    describe(described);
    const int code = run_all(chosen, described);
    if (!std::cout.flush()) throw file_error("standard output could not be written");
    return code;
  } catch (const usage_error& failure) {
    fmt::print(stderr, "{}: {} (see --help)\n", program, failure.what());
    return 2;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}: {}\n", program, failure.what());
    return 1;
  }
}

}  // namespace bench
}  // namespace nullscope
