/// Sweeps whose correlations come from a sample of the queries, and long heads that are divided among units.
#include <cmath>
#include <memory>

#include "lib/src/io/csv.hpp"
#include "tests/cli/sweep_support.hpp"

namespace nullscope::test {
namespace {

// Three blocks of queries of one head.
const std::string one_long_head =
    "sweep --quiet --width 4 --heads 1 --samples 1 --lengths 28000 --heads-are concatenated --type f32";

/// The numbers of a column, one per head.
std::vector<double> column_of(const std::string& csv, const std::string& name) {
  csv_reader table(csv);
  const std::vector<std::string> columns = table.columns();
  const auto place = std::ranges::find(columns, name) - columns.begin();
  std::vector<double> numbers;
  for (std::vector<std::string> row; table.next(row);) {
    numbers.push_back(std::stod(row.at(static_cast<std::size_t>(place))));
  }
  return numbers;
}

class sweep_sample : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }

  temporary_folder folder_;
};

/// The errors of 160 heads, in units of their standard errors, have mean 0 and variance 1. Heads with many columns:
/// with few, some queries are so long that a hundred do not show how much rows differ.
TEST_F(sweep_sample, estimates_agree_with_the_exact_figures_within_their_errors) {
  const std::string arguments =
      "sweep --quiet --width 32 --heads 4 --samples 40 --lengths 400 --key-size 64 --heads-are concatenated --type f64";
  run_to_end(arguments, path("exact"));
  run_to_end(arguments + " --query-sample 100", path("sampled"));
  const std::string exact = path("exact/sweep.csv"), sampled = path("sampled/sweep.csv");
  EXPECT_EQ(column_of(exact, "rank"), column_of(sampled, "rank"));
  for (const std::string name : {"pearson", "raw_norm", "effective_norm", "null_norm"}) {
    const std::vector<double> expected = column_of(exact, name), found = column_of(sampled, name),
                              errors = column_of(sampled, name + "_error");
    ASSERT_EQ(expected.size(), 160u);
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_GT(errors[i], 0);
      const double deviation = (found[i] - expected[i]) / errors[i];
      sum += deviation / 160;
      squares += deviation * deviation / 160;
    }
    EXPECT_LT(std::abs(sum), 0.4) << name;
    EXPECT_GT(squares, 0.6) << name;
    EXPECT_LT(squares, 1.6) << name;
  }
}

TEST_F(sweep_sample, a_sample_of_all_queries_is_exact) {
  const std::string arguments = "sweep --width 16 --heads 2 --samples 2 --lengths 20,40 --heads-are concatenated";
  run_to_end(arguments, path("exact"));
  for (const char* size : {"40", "1000000"}) {
    const std::string name = std::string("sampled") + size;
    const std::string printed = run_to_end(arguments + " --query-sample " + size, path(name));
    EXPECT_EQ(printed.find("std. error"), std::string::npos) << printed;
    expect_same_files(path("exact"), path(name));
  }
  // The shorter length stays exact, and says so.
  const std::string printed = run_to_end(arguments + " --query-sample 20", path("mixed"));
  EXPECT_NE(printed.find("std. error"), std::string::npos) << printed;
  EXPECT_NE(printed.find("estimates from 20 random queries"), std::string::npos) << printed;
  const std::vector<double> exact = column_of(path("exact/sweep.csv"), "pearson"),
                            mixed = column_of(path("mixed/sweep.csv"), "pearson"),
                            errors = column_of(path("mixed/sweep.csv"), "pearson_error");
  ASSERT_EQ(mixed.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(errors[i] == 0, i < 4);
    EXPECT_EQ(mixed[i] == exact[i], i < 4);
  }
  EXPECT_NE(content_of(path("mixed/sweep.json")).find("\"query_sample\": 20"), std::string::npos);
  EXPECT_NE(content_of(path("mixed/sweep.svg")).find("20 queries"), std::string::npos);
}

TEST_F(sweep_sample, wrong_numbers_are_one_line) {
  for (const char* option : {"--query-sample", "--query-block"}) {
    for (const char* number : {"0", "-5", "1.5", "many"}) {
      expect_complaint(std::string("sweep ") + option + "=" + number, 2,
                       std::string(option) + ": \"" + number + "\" is not a whole number above 0");
    }
  }
  expect_complaint("sweep --device cpu:0,nosuch --output " + path("a"), 1, "no device fits \"nosuch\"");
  EXPECT_FALSE(std::filesystem::exists(path("a")));
}

TEST_F(sweep_sample, blocks_and_devices_give_the_bytes_of_the_whole) {
  run_to_end(one_long_head, path("whole"));
  run_to_end(one_long_head + " --query-block 1", path("blocks"));
  expect_same_files(path("whole"), path("blocks"));
  run_to_end(one_long_head + " --query-block 12288 --device cpu:0,cpu:0", path("devices"));
  expect_same_files(path("whole"), path("devices"));
}

TEST_F(sweep_sample, a_divided_head_continues_after_an_interruption) {
  const std::string divided = one_long_head + " --query-sample 26000 --query-block 1";
  run_to_end(one_long_head + " --query-sample 26000", path("whole"));
  started_command command(std::string(NULLSCOPE_PROGRAM) + " " + divided + " --output " + path("a"), path("stderr"));
  ASSERT_TRUE(wait_for_journal(path("a"), 2));  // its settings and a block
  command.signal(SIGKILL);
  EXPECT_EQ(command.wait(), -SIGKILL) << "it finished before it could be interrupted";
  expect_complaint(one_long_head + " --query-sample 26000 --resume --output " + path("a"), 1,
                   "was started with query_block 1, not 0");
  run_to_end(divided + " --resume", path("a"));
  expect_same_files(path("whole"), path("a"));
}

TEST_F(sweep_sample, all_devices_share_small_units_too) {
  run_to_end(long_sweep, path("whole"));
  for (const std::string devices : {"all", "cpu:0,cpu:0,cpu:0"}) {
    run_to_end(long_sweep + " --device " + devices, path(devices));
    expect_same_files(path("whole"), path(devices));
  }
}

TEST_F(sweep_sample, times_are_written_when_asked) {
  const std::string arguments = "sweep --quiet --width 8 --heads 2 --samples 1 --lengths 6,9";
  run_to_end(arguments + " --times", path("a"));
  EXPECT_EQ(column_of(path("a/sweep_times.csv"), "heads"), (std::vector<double>{2, 2, 2, 2}));
  for (const double seconds : column_of(path("a/sweep_times.csv"), "seconds")) EXPECT_GT(seconds, 0);
  EXPECT_NE(content_of(path("a/sweep_times.svg")).find("milliseconds"), std::string::npos);
  run_to_end(arguments + " --overwrite", path("a"));
  EXPECT_FALSE(std::filesystem::exists(path("a/sweep_times.csv")));
  expect_complaint(arguments + " --times --output " + path("a"), 1, "was computed without --times");
}

}  // namespace
}  // namespace nullscope::test
