/// Every kernel that the library launches on GPUs runs under the race checker: no races, and the numbers of the
/// device's own layout.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <set>

#include "bench/machine_code/kernel_list.hpp"
#include "lib/src/core/kernel_runner.hpp"
#include "tests/gpu/cases/race_case.hpp"
#include "tests/gpu/checker/checker.hpp"

namespace nullscope::test {

void PrintTo(const race_case& one, std::ostream* stream) { *stream << one.name; }

namespace {

/// What barriers.py asks for: NULLSCOPE_RACE_WITHOUT is the line of a barrier to leave out, NULLSCOPE_RACE_LINES a file
/// that gets the lines of the barriers of each case.
std::string asked_for(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

/// Runs every kernel under the checker.
class race_runner : public detail::kernel_runner {
 public:
  race_runner(const device_properties& device, const races::settings& how) : device_(device), how_(how) {
    if (const std::string line = asked_for("NULLSCOPE_RACE_WITHOUT"); !line.empty()) how_.without_barriers = {line};
    if (!asked_for("NULLSCOPE_RACE_LINES").empty()) how_.passed_lines = &lines_;
  }
  ~race_runner() override {
    if (lines_.empty()) return;
    std::ofstream file(asked_for("NULLSCOPE_RACE_LINES"), std::ios::app);
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    for (const std::string& line : lines_) file << name << '\t' << line << '\n';
  }

  const device_properties& device() const override { return device_; }

  void run(const detail::kernel_description& kernel, const sycl::nd_range<1>& range, std::size_t local_bytes,
           std::span<const std::byte> functor) override {
    const races::checked_kernel* const checked = races::find_kernel(kernel.type_name);
    if (checked == nullptr) {
      throw std::logic_error(std::string(kernel.type_name) + " of " + std::string(kernel.source) +
                             " is in no table of tests/gpu/kernels");
    }
    launched().insert(kernel.type_name);
    const std::size_t items = range.get_local_range()[0];
    const races::launch_shape shape{range.get_global_range()[0] / items, items, local_bytes};
    for (const races::fault& one : races::run(*checked, functor.data(), shape, how_)) ADD_FAILURE() << one.text;
  }

  static std::set<std::string_view>& launched() {
    static std::set<std::string_view> names;
    return names;
  }

 private:
  device_properties device_;
  races::settings how_;
  std::set<std::string> lines_;
};

struct variant {
  std::size_t layout;  // of those for GPUs
  races::settings how;
};

/// Each size of a sub-group, each layout, and shuffled work-items. Races do not depend on the type of the numbers:
/// double, and the costly bfloat16, run once in each layout.
std::vector<variant> variants(const std::string& name) {
  const variant large_teams{1, {.sub_group_size = 32, .order = 4}},
      small_local_memory{2, {.sub_group_size = 16, .order = 5}};
  if (name.find("float") == std::string::npos || name.find("bfloat16") != std::string::npos)
    return {{0, {.sub_group_size = 32, .order = 1}}, large_teams, small_local_memory};
  return {{0, {.sub_group_size = 8, .order = 1}},
          {0, {.sub_group_size = 16, .order = 2}},
          {0, {.sub_group_size = 32, .order = 0}},
          {0, {.sub_group_size = 64, .order = 3}},
          large_teams,
          small_local_memory};
}

/// |a - b| / |b|. What is not finite must be the same in both.
double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::isfinite(b[i])) norm += b[i] * b[i];
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return std::numeric_limits<double>::infinity();
    difference += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

const std::vector<race_case>& all_cases() {
  static const std::vector<race_case> all = [] {
    std::vector<race_case> cases;
    for (const auto part : {contract_cases, linalg_cases, attention_cases, explain_cases}) {
      const std::vector<race_case> more = part();
      cases.insert(cases.end(), more.begin(), more.end());
    }
    return cases;
  }();
  return all;
}

class race_test : public testing::TestWithParam<race_case> {
 protected:
  /// After all cases: every kernel of GPUs was in one of them.
  static void TearDownTestSuite() {
    if (testing::UnitTest::GetInstance()->test_to_run_count() < std::ssize(all_cases())) return;  // some were chosen
    for (const bench::listed_kernel& one : bench::gpu_kernels(select_device("cpu"), {})) {
      EXPECT_TRUE(race_runner::launched().contains(one.kernel->type_name))
          << one.kernel->type_name << " of " << one.kernel->source << " has no case; launched by "
          << *one.operations.begin();
    }
  }
};

INSTANTIATE_TEST_SUITE_P(every, race_test, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<race_case>& info) { return info.param.name; });

TEST_P(race_test, runs_without_faults_and_gives_right_numbers) {
  const sycl::device device = select_device("cpu");
  const sycl::queue queue(device, sycl::property::queue::in_order());
  context own(queue);
  const race_results expected = GetParam().run(own);
  device_properties simulated = properties(device);
  simulated.fp64 = GetParam().has_fp64;
  for (const variant& one : variants(GetParam().name)) {
    SCOPED_TRACE("layout " + std::to_string(one.layout) + ", sub-groups of " + std::to_string(one.how.sub_group_size));
    race_runner runner(simulated, one.how);
    context ctx(queue, bench::gpu_layouts(simulated)[one.layout]);
    detail::run_kernels_by(ctx, runner);
    try {
      for (const auto& [name, numbers] : GetParam().run(ctx)) {
        EXPECT_LE(relative_difference(numbers, expected.at(name)), GetParam().bound) << name;
      }
    } catch (const unsupported_device& refused) {
      EXPECT_EQ(one.layout, 2u) << refused.what();  // too little local memory: another layout serves the function
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace nullscope::test
