/// Where results go: to the display, to a file, and into the table from which the summary is made.
#pragma once

#include <benchmark/benchmark.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/core/options.hpp"

namespace nullscope::bench {

/// What is known of a benchmark when it is done: medians over its repetitions.
struct result {
  double seconds = 0;
  std::map<std::string, double> counters;
  std::string failure;  ///< empty: verified and timed
};

/// Google Benchmark runs one comparison at a time, so that only its data are in memory; to the reporters behind this
/// one it looks like a single run. Names lose what Google Benchmark appends to them ("/manual_time").
class reporter : public benchmark::BenchmarkReporter {
 public:
  /// Throws usage_error if the file cannot be written.
  reporter(const options& chosen, std::size_t longest_name);

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;

  /// After the last comparison.
  void finish();

  const std::map<std::string, result>& results() const { return results_; }

  /// Where the summary goes: stdout, unless that carries JSON or CSV.
  std::ostream& summary_stream() const;

 private:
  /// A reporter of Google Benchmark's, and which of the runs it gets.
  struct sink {
    std::unique_ptr<benchmark::BenchmarkReporter> reporter;
    bool medians_only, aggregates_only;
    bool finite_only;       ///< JSON: it has no NaN
    bool at_once;           ///< CSV: its header must name all columns
    std::vector<Run> kept;  ///< until the end, if at_once
  };
  void note(const Run& run);

  std::size_t longest_name_;
  bool is_console_ = false, has_context_ = false;
  std::ofstream file_;
  std::vector<sink> sinks_;
  std::map<std::string, result> results_;
};

}  // namespace nullscope::bench
