#include "bench/core/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace nullscope::bench {
namespace {

const std::set<std::string> standard_counters{"GFLOP/s",         "GB/s",        "intensity", "roofline",
                                              "ceiling GFLOP/s", "ceiling GB/s"};

using row = std::vector<std::string>;

const result* find(const std::map<std::string, result>& results, const std::string& name) {
  const auto entry = results.find(name);
  return entry == results.end() ? nullptr : &entry->second;
}

/// A number in a few characters; empty if the path was not run, a dash if it failed.
std::string counter(const result* of, const std::string& name, const char* format = "{:.3g}") {
  if (of == nullptr) return "";
  if (!of->failure.empty()) return "-";
  const auto entry = of->counters.find(name);
  return entry == of->counters.end() ? "" : fmt::format(fmt::runtime(format), entry->second);
}

/// The speed-up of `a` over `b`.
std::string ratio(const result* a, const result* b) {
  if (a == nullptr || b == nullptr) return "";
  if (!a->failure.empty() || !b->failure.empty() || a->seconds <= 0) return "-";
  return fmt::format("{:.2f}", b->seconds / a->seconds);
}

std::string milliseconds(const result* of) {
  if (of == nullptr) return "";
  return of->failure.empty() ? fmt::format("{:.4g}", of->seconds * 1e3) : "FAILED";
}

void print_table(std::ostream& out, const std::vector<row>& rows) {
  std::vector<std::size_t> widths;
  for (const row& cells : rows) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t c = 0; c < cells.size(); ++c) widths[c] = std::max(widths[c], cells[c].size());
  }
  for (const row& cells : rows) {
    out << fmt::format("{:<{}}", cells[0], widths[0]);
    for (std::size_t c = 1; c < cells.size(); ++c) {
      if (widths[c] > 0) out << fmt::format("  {:>{}}", cells[c], widths[c]);
    }
    out << '\n';
  }
}

}  // namespace

void print_summary(std::ostream& out, const suite& described, const std::map<std::string, result>& results) {
  std::set<std::string> extra;  // the columns that verifications added
  for (const auto& [name, found] : results) {
    for (const auto& [column, value] : found.counters) {
      if (!standard_counters.contains(column)) extra.insert(column);
    }
  }
  row header{"comparison",  "sycl ms",   "onemkl ms",    "loop ms",  "runtime ms",
             "sycl/onemkl", "sycl/loop", "sycl/runtime", "roofline", "onemkl roofline"};
  header.insert(header.end(), extra.begin(), extra.end());
  std::vector<row> rows{header};
  std::string failures;
  for (const auto& of : described.comparisons()) {
    const result* sycl = find(results, of->name("sycl"));
    const result* onemkl = find(results, of->name("onemkl"));
    const result* loop = find(results, of->name("loop"));
    const result* runtime = find(results, of->name("runtime"));
    const result* shown = sycl != nullptr ? sycl : onemkl != nullptr ? onemkl : loop != nullptr ? loop : runtime;
    if (shown == nullptr) continue;
    row cells{of->name(""),
              milliseconds(sycl),
              milliseconds(onemkl),
              milliseconds(loop),
              milliseconds(runtime),
              ratio(sycl, onemkl),
              ratio(sycl, loop),
              ratio(sycl, runtime),
              counter(sycl, "roofline", "{:.2f}"),
              counter(onemkl, "roofline", "{:.2f}")};
    for (const std::string& column : extra) cells.push_back(counter(shown, column));
    rows.push_back(std::move(cells));
    for (const std::string& path : of->paths()) {
      const result* one = find(results, of->name(path));
      if (one != nullptr && !one->failure.empty()) failures += fmt::format("{}: {}\n", of->name(path), one->failure);
    }
  }
  for (row& cells : rows) {  // an empty column is not printed
    for (std::size_t c = 1; c < header.size(); ++c) {
      const bool is_empty =
          std::all_of(rows.begin() + 1, rows.end(), [&](const row& other) { return other[c].empty(); });
      if (is_empty) cells[c].clear();
    }
  }
  out << "\nMedians; a/b is how many times as fast a is as b; roofline is the share of what the device can reach.\n";
  print_table(out, rows);
  out << failures;
  out.flush();
}

}  // namespace nullscope::bench
