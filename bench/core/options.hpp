/// The flags of a benchmark program: Google Benchmark's, with defaults of our own, and a few more.
#pragma once

#include <optional>
#include <regex>
#include <stdexcept>
#include <string>

namespace nullscope::bench {

/// A flag that cannot be used; the message is the line to print.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct options {
  std::string device;                    ///< as `select_device` takes it
  std::string out, out_format = "json";  ///< file to write the results to, if any
  std::optional<bool> aggregates_only;  ///< what to display; not given: medians on a console, everything as JSON or CSV
  bool ceilings = true;                 ///< measure what the device can reach
  bool list = false;                    ///< print the names and stop
  bool help = false;

  /// Whether the benchmark was asked for by --benchmark_filter.
  bool selects(const std::string& name) const { return std::regex_search(name, filter) != filter_negated; }

  std::regex filter{""};
  bool filter_negated = false;
};

/// Reads the flags and hands those that are Google Benchmark's to it. Throws usage_error.
options read_flags(int argc, char** argv);

void print_help(const std::string& program, const std::string& title);

}  // namespace nullscope::bench
