/// The harness of the benchmarks as a user sees it: a program with flags, results and an exit code.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/command.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

/// Without the ceilings, which take most of the time of so small a program.
command_result run_program(const std::string& flags) {
  return run_command(NULLSCOPE_BENCH_PROGRAM, "--benchmark_min_time=0.001 --roofline=false " + flags);
}

std::int64_t count(const std::string& text, const std::string& part) {
  std::int64_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(bench, json_holds_every_repetition_under_its_plain_name_and_stdout_nothing_else) {
  const command_result result =
      run_program("--benchmark_filter=right --benchmark_repetitions=3 --benchmark_format=json --roofline=true");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  for (const char* key : {"device", "driver", "backend", "runtime", "nullscope", "compute units", "peak f32"}) {
    EXPECT_TRUE(json["context"].contains(key)) << key;
  }
  for (const std::string path : {"sycl", "onemkl", "loop"}) {
    for (const std::string size : {"64", "4096"}) {
      const std::string name = "right/f32/" + path + "/n:" + size;
      const auto& all = json["benchmarks"];
      EXPECT_EQ(std::count_if(all.begin(), all.end(), [&](const auto& run) { return run["name"] == name; }), 3) << name;
      const auto median =
          std::find_if(all.begin(), all.end(), [&](const auto& run) { return run["name"] == name + "_median"; });
      ASSERT_NE(median, all.end()) << name;
      EXPECT_EQ((*median)["run_name"], name);
      EXPECT_EQ((*median)["intensity"], 0.125);
      EXPECT_EQ((*median)["residual"], 0);
      EXPECT_EQ((*median)["alive"], 1) << "only the data of the comparison that runs are in memory";
      EXPECT_GT((*median)["roofline"].get<double>(), 0);
      const double seconds = (*median)["real_time"].get<double>() * 1e-6;
      EXPECT_NEAR((*median)["GFLOP/s"].get<double>() / (std::stod(size) * 1e-9 / seconds), 1, 1e-6);
      EXPECT_NEAR((*median)["GB/s"].get<double>() / (8 * std::stod(size) * 1e-9 / seconds), 1, 1e-6);
    }
  }
  EXPECT_NE(result.err.find("sycl/onemkl"), std::string::npos) << "the summary is on stderr";
}

TEST(bench, the_console_shows_medians_and_a_summary) {
  const command_result result = run_program("--benchmark_filter=right.*n:64$ --benchmark_repetitions=3");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(count(result.out, "right/f32/sycl/n:64 "), 1) << result.out;
  EXPECT_EQ(count(result.out, "_mean"), 0) << result.out;
  const std::string summary = result.out.substr(result.out.find("\ncomparison"));
  EXPECT_EQ(count(summary, "right/f32/n:64 "), 1) << summary;
  EXPECT_EQ(count(summary, "4096"), 0) << summary;
  for (const char* column : {"sycl ms", "onemkl ms", "loop ms", "sycl/onemkl", "sycl/loop", "residual", "alive"}) {
    EXPECT_NE(summary.find(column), std::string::npos) << column;
  }
}

TEST(bench, a_wrong_result_is_an_error_and_the_other_paths_are_timed) {
  // A lazy path does nothing, and would pass with the results of the path before it. Not shuffled, so that there is
  // one.
  for (const std::string operation : {"wrong", "lazy"}) {
    const command_result result =
        run_program("--benchmark_repetitions=2 --benchmark_format=json --benchmark_filter=" + operation +
                    " --benchmark_enable_random_interleaving=false");
    EXPECT_EQ(result.exit_code, 1) << operation;
    const auto json = nlohmann::json::parse(result.out);
    for (const auto& run : json["benchmarks"]) {
      const bool is_wrong = run["name"] == operation + "/f32/sycl/n:64";
      EXPECT_EQ(run.value("error_occurred", false), is_wrong) << run;
      EXPECT_EQ(run.value("error_message", ""), is_wrong ? "wrong result: residual 100 exceeds 10" : "");
    }
    EXPECT_EQ(count(result.err, "FAILED"), 1) << result.err;
    EXPECT_NE(result.err.find("/sycl/n:64: wrong result: residual 100 exceeds 10"), std::string::npos) << result.err;
  }
}

TEST(bench, a_result_that_is_not_a_number_is_an_error) {
  const command_result result = run_program("--benchmark_repetitions=1 --benchmark_filter=nan");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("nan/f32/sycl/n:64: wrong result: error nan exceeds 0"), std::string::npos) << result.out;
  EXPECT_EQ(count(result.out, "FAILED"), 1) << result.out;
}

TEST(bench, an_exception_is_an_error_of_its_benchmark_alone) {
  const command_result result =
      run_program("--benchmark_repetitions=1 --benchmark_filter='broken|throws|right/f32/loop/n:64'");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("broken/f32/sycl: no data today"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("throws/f32/sycl/n:64: no result today"), std::string::npos) << result.out;
  EXPECT_EQ(count(result.out, "FAILED"), 2) << result.out;
}

TEST(bench, writes_files_as_well_as_the_display) {
  const std::string folder = testing::TempDir() + "nullscope_bench";
  const command_result result = run_program(
      "--benchmark_filter='right|wrong' --benchmark_repetitions=2 --benchmark_out_format=csv --benchmark_out='" +
      folder + ".csv'");
  EXPECT_EQ(result.exit_code, 1);
  std::ifstream csv(folder + ".csv");
  std::string line;
  bool has_header = false;
  std::int64_t lines = 0;
  while (std::getline(csv, line)) {
    if (line.starts_with("name,")) has_header = line.find("\"alive\"") != std::string::npos;
    if (line.starts_with("\"right/f32/loop/n:4096\",")) ++lines;
  }
  EXPECT_TRUE(has_header);
  EXPECT_EQ(lines, 2);
  EXPECT_EQ(
      run_program("--benchmark_filter=right --benchmark_repetitions=1 --benchmark_out='" + folder + ".json'").exit_code,
      0);
  std::ifstream file(folder + ".json");
  EXPECT_EQ(nlohmann::json::parse(file)["benchmarks"].size(), 6u);
}

TEST(bench, results_that_are_lost_are_exit_code_1) {
  const std::string flags = " --benchmark_filter=right --benchmark_repetitions=1 --roofline=false ";
  for (const std::string& lost :
       {flags + "> /dev/full", flags + "--benchmark_list_tests > /dev/full", flags + "--benchmark_out=/dev/full"}) {
    const command_result result = run_command("/bin/sh", "-c '" NULLSCOPE_BENCH_PROGRAM + lost + "'");
    EXPECT_EQ(result.exit_code, 1) << lost;
    EXPECT_NE(result.err.find("could not be written"), std::string::npos) << lost << ": " << result.err;
  }
}

TEST(bench, lists_the_names_that_the_filter_selects) {
  const command_result all = run_program("--benchmark_list_tests");
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_EQ(count(all.out, "\n"), 14) << all.out;
  EXPECT_EQ(run_program("--benchmark_list_tests --benchmark_filter='wrong/f32/(sycl|loop)/n:64$'").out,
            "wrong/f32/sycl/n:64\nwrong/f32/loop/n:64\n");
  EXPECT_EQ(run_program("--benchmark_list_tests --benchmark_filter='-right|lazy|nan|throws|broken|loop'").out,
            "wrong/f32/sycl/n:64\n");
}

TEST(bench, refuses_wrong_flags_in_one_line) {
  for (const std::string flag :
       {"--nonsense", "nonsense", "--benchmark_repetitions=0", "--benchmark_repetitions=many",
        "--benchmark_min_time=-1", "--benchmark_format=xml", "--benchmark_out_format=xml",
        "--benchmark_time_unit=hours", "--benchmark_filter='('", "--benchmark_filter=nonsense",
        "--benchmark_out=/no/such/folder/file", "--benchmark_list_tests=maybe", "--roofline=maybe", "--device"}) {
    const command_result result = run_program(flag);
    EXPECT_EQ(result.exit_code, 2) << flag;
    EXPECT_EQ(result.out, "") << flag;
    EXPECT_EQ(count(result.err, "\n"), 1) << flag << ": " << result.err;
  }
  const command_result device = run_program("--device nonsense");
  EXPECT_EQ(device.exit_code, 1);
  EXPECT_EQ(count(device.err, "\n"), 1) << device.err;
}

TEST(bench, help_explains_names_and_flags) {
  const command_result result = run_program("--help");
  EXPECT_EQ(result.exit_code, 0);
  for (const char* part :
       {"--device", "gemm/f32/sycl/n:1024", "roofline", "examples", "--benchmark_filter", "exit codes"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace nullscope::test
