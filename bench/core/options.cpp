#include "bench/core/options.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace nullscope::bench {
namespace {

/// Defaults, each with the environment variable that Google Benchmark reads for it. Many short repetitions, shuffled
/// among the paths of a comparison: on a shared machine only medians over interleaved runs can be compared.
constexpr std::pair<const char*, const char*> defaults[] = {
    {"--benchmark_repetitions=9", "BENCHMARK_REPETITIONS"},
    {"--benchmark_min_time=0.05", "BENCHMARK_MIN_TIME"},
    {"--benchmark_enable_random_interleaving=true", "BENCHMARK_ENABLE_RANDOM_INTERLEAVING"},
    {"--benchmark_counters_tabular=true", "BENCHMARK_COUNTERS_TABULAR"},
    {"--benchmark_time_unit=us", "BENCHMARK_TIME_UNIT"},
};

void require(bool good, const std::string& flag, const std::string& what) {
  if (!good) throw usage_error(fmt::format("{}: {}", flag, what));
}

template <class Number>
bool is_positive(std::string_view text) {
  Number value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc{} && end == text.data() + text.size() && value > 0;
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> known) {
  return std::find(known.begin(), known.end(), text) != known.end();
}

bool is_true(const std::string& flag, std::string_view value) {
  require(is_one_of(value, {"", "true", "1", "yes", "false", "0", "no"}), flag, "is true or false");
  return is_one_of(value, {"", "true", "1", "yes"});
}

/// Checks the values that Google Benchmark would not reject with one clear line.
void check_value(const std::string& flag, std::string_view name, std::string_view value) {
  if (name == "--benchmark_format")
    require(is_one_of(value, {"console", "json", "csv"}), flag, "is console, json or csv");
  if (name == "--benchmark_time_unit") require(is_one_of(value, {"ns", "us", "ms", "s"}), flag, "is ns, us, ms or s");
  if (name == "--benchmark_repetitions") require(is_positive<int>(value), flag, "is a whole number above 0");
  if (name == "--benchmark_min_time") require(is_positive<double>(value), flag, "is a number of seconds above 0");
}

/// Gives the flags to Google Benchmark, which takes out what it knows.
void initialize(std::vector<std::string> flags) {
  static std::vector<std::string> kept;  // Google Benchmark keeps a pointer to the program's name
  kept = std::move(flags);
  std::vector<char*> pointers;
  for (std::string& flag : kept) pointers.push_back(flag.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (count > 1) throw usage_error(fmt::format("unknown flag or invalid value: {}", pointers[1]));
}

}  // namespace

options read_flags(int argc, char** argv) {
  options result;
  if (const char* out = std::getenv("BENCHMARK_OUT")) result.out = out;
  std::vector<std::string> theirs{argv[0], "--benchmark_out="};  // we write the file ourselves: see reporter.hpp
  for (const auto& [flag, variable] : defaults) {
    if (std::getenv(variable) == nullptr) theirs.push_back(flag);
  }
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const std::size_t equals = flag.find('=');
    const std::string name = flag.substr(0, equals), value = equals == std::string::npos ? "" : flag.substr(equals + 1);
    check_value(flag, name, value);
    if (name == "--help" || name == "-h") {
      result.help = true;
    } else if (name == "--device") {
      require(equals != std::string::npos || i + 1 < argc, flag, "needs a device, for example --device cpu");
      result.device = equals != std::string::npos ? value : argv[++i];
    } else if (name == "--roofline") {
      result.ceilings = is_true(flag, value);
    } else if (name == "--benchmark_out") {
      require(!value.empty(), flag, "needs a file name");
      result.out = value;
    } else if (name == "--benchmark_out_format") {
      require(is_one_of(value, {"console", "json", "csv"}), flag, "is console, json or csv");
      result.out_format = value;
    } else if (name == "--benchmark_list_tests") {
      result.list = is_true(flag, value);
    } else if (name == "--benchmark_display_aggregates_only") {
      result.aggregates_only = is_true(flag, value);
    } else {
      theirs.push_back(flag);
    }
  }
  if (result.help) return result;
  initialize(std::move(theirs));
  std::string filter = benchmark::GetBenchmarkFilter();
  if (filter == "all") filter.clear();
  result.filter_negated = filter.starts_with('-');
  try {
    result.filter = std::regex(filter.substr(result.filter_negated ? 1 : 0), std::regex::extended);
  } catch (const std::regex_error& failure) {
    throw usage_error(fmt::format("--benchmark_filter={}: {}", filter, failure.what()));
  }
  return result;
}

void print_help(const std::string& program, const std::string& title) {
  fmt::print(R"({0}: {1}

usage: {0} [flags]

  --device TEXT                  cpu, gpu, gpu:1, a number, or a part of a device's name
                                 (default: a GPU if there is one)
  --roofline=BOOL                measure the peak rates of the device (default true)
  --benchmark_filter=REGEX       run the benchmarks whose name matches; -REGEX: those whose name does not
  --benchmark_list_tests         print the names and exit
  --benchmark_format=FORMAT      console (default), json or csv on stdout; with json and csv the
                                 summary goes to stderr
  --benchmark_out=FILE           also write the results to a file, in --benchmark_out_format=FORMAT
                                 (default json)
  --benchmark_repetitions=N      repetitions of each benchmark (default 9), shuffled among the
                                 paths of a comparison
  --benchmark_min_time=SECONDS   minimum time of a repetition (default 0.05)
  --benchmark_display_aggregates_only=BOOL
                                 true: mean, median and deviation; false: also every repetition
                                 (default: medians on a console, everything as json or csv)
  and the other flags of Google Benchmark.

A name is <operation>/<type>/<path>/<sizes>, for example gemm/f32/sycl/n:1024. The path is sycl (the
kernels of this project), onemkl, loop (plain C++ on all threads of the host) or runtime (the SYCL
runtime called directly). Names that differ only in the path compute the same thing.

Each path is verified before it is timed. Residuals are scaled so that rounding errors are of order 1;
a residual above its bound is an error. Times are wall-clock times of one call, from submission until
it is complete.

  GFLOP/s, GB/s   flops and bytes of the mathematics (each operand moved once) divided by the time
  intensity       flops divided by bytes
  roofline        shortest possible time divided by the time: 1 is as fast as the device can be. The
                  shortest time is the longer of flops at the peak rate of fused multiply-adds (bf16:
                  of the matrix engine) and bytes at the bandwidth of a copy that touches as much
                  memory, but at least 4 MiB: data in a cache are compared with a copy in that cache.
                  Both are measured before each repetition; the result is the median of these ratios.

exit codes:
  0  all benchmarks ran, and their results are right
  1  a result is wrong, a benchmark failed, or the output cannot be written
  2  the flags are wrong

examples:
  {0}
  {0} --benchmark_filter=/f32/ --benchmark_repetitions=3
  {0} --device cpu --benchmark_format=json > results.json
)",
             program, title);
}

}  // namespace nullscope::bench
