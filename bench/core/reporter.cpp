#include "bench/core/reporter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nullscope/core/errors.hpp>

namespace nullscope::bench {
namespace {

using run_type = benchmark::BenchmarkReporter::Run;

// CSV is deprecated in Google Benchmark, but still one of its formats.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
using csv_reporter = benchmark::CSVReporter;

std::unique_ptr<benchmark::BenchmarkReporter> make_reporter(const std::string& format) {
  if (format == "json") return std::make_unique<benchmark::JSONReporter>();
  if (format == "csv") return std::make_unique<csv_reporter>();
  return std::make_unique<benchmark::ConsoleReporter>(benchmark::ConsoleReporter::OO_Tabular);
}

bool is_csv(const benchmark::BenchmarkReporter* reporter) {
  return dynamic_cast<const csv_reporter*>(reporter) != nullptr;
}
#pragma GCC diagnostic pop

/// The run under its own name.
run_type renamed(run_type run) {
  run.run_name = benchmark::BenchmarkName{run.run_name.function_name, {}, {}, {}, {}, {}, {}, {}};
  return run;
}

/// Without the numbers that JSON cannot hold: the deviation of zeros by their mean.
run_type finite(run_type run) {
  std::erase_if(run.counters, [](const auto& counter) { return !std::isfinite(counter.second.value); });
  return run;
}

bool is_median(const run_type& run) { return run.aggregate_name == "median"; }

/// A line for the console: the median under the benchmark's own name, without the counters that only files need.
run_type shortened(run_type run) {
  run.aggregate_name.clear();
  run.run_type = run_type::RT_Iteration;
  std::erase_if(run.counters, [](const auto& counter) { return counter.first.starts_with("ceiling"); });
  return run;
}

}  // namespace

reporter::reporter(const options& chosen, std::size_t longest_name) : longest_name_(longest_name) {
  std::unique_ptr<benchmark::BenchmarkReporter> display(benchmark::CreateDefaultDisplayReporter());
  is_console_ = dynamic_cast<benchmark::ConsoleReporter*>(display.get()) != nullptr;
  const bool csv = is_csv(display.get());
  sinks_.push_back({.reporter = std::move(display),
                    .medians_only = is_console_ && !chosen.aggregates_only.has_value(),
                    .aggregates_only = chosen.aggregates_only.value_or(false),
                    .finite_only = !is_console_,
                    .at_once = csv,
                    .kept = {}});
  if (chosen.out.empty()) return;
  file_.open(chosen.out);
  if (!file_) throw usage_error(fmt::format("--benchmark_out={}: cannot be written", chosen.out));
  auto writer = make_reporter(chosen.out_format);
  writer->SetOutputStream(&file_);
  writer->SetErrorStream(&file_);
  sinks_.push_back({.reporter = std::move(writer),
                    .medians_only = false,
                    .aggregates_only = false,
                    .finite_only = chosen.out_format != "console",
                    .at_once = chosen.out_format == "csv",
                    .kept = {}});
}

bool reporter::ReportContext(const Context& context) {
  if (has_context_) return true;
  has_context_ = true;
  Context wide = context;
  wide.name_field_width = longest_name_;
  for (const sink& to : sinks_) to.reporter->ReportContext(wide);
  return true;
}

void reporter::ReportRuns(const std::vector<Run>& runs) {
  std::vector<Run> all;
  for (const Run& run : runs) all.push_back(renamed(run));
  for (const Run& run : all) note(run);
  for (sink& to : sinks_) {
    std::vector<Run> chosen;
    for (const Run& run : all) {
      const bool is_single = run.run_type == Run::RT_Iteration && run.repetitions == 1;
      const bool is_first_error = run.error_occurred && run.repetition_index == 0;
      if (to.medians_only) {
        if (is_single || is_median(run) || is_first_error) chosen.push_back(shortened(run));
      } else if (!to.aggregates_only || run.run_type == Run::RT_Aggregate || is_single || is_first_error) {
        chosen.push_back(to.finite_only ? finite(run) : run);
      }
    }
    if (to.at_once) {
      to.kept.insert(to.kept.end(), chosen.begin(), chosen.end());
    } else if (!chosen.empty()) {
      to.reporter->ReportRuns(chosen);
      to.reporter->GetOutputStream().flush();
    }
  }
}

void reporter::note(const Run& run) {
  result& known = results_[run.run_name.str()];
  if (run.error_occurred) known.failure = run.error_message;
  if (!is_median(run) && run.repetitions != 1) return;
  known.seconds = run.GetAdjustedRealTime() / benchmark::GetTimeUnitMultiplier(run.time_unit);
  for (const auto& [name, counter] : run.counters) known.counters[name] = counter.value;
}

void reporter::finish() {
  for (sink& to : sinks_) {
    if (!to.kept.empty()) to.reporter->ReportRuns(to.kept);
    to.reporter->Finalize();
    if (!to.reporter->GetOutputStream().flush()) throw file_error("some of the results could not be written");
  }
}

std::ostream& reporter::summary_stream() const { return is_console_ ? std::cout : std::cerr; }

}  // namespace nullscope::bench
