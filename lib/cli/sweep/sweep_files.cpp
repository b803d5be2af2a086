#include "lib/cli/sweep/sweep_files.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "lib/cli/sweep/sweep_identity.hpp"
#include "lib/cli/sweep/sweep_output.hpp"
#include "lib/src/io/atomic_file.hpp"

namespace nullscope::cli {
namespace {

namespace fs = std::filesystem;

std::string title_of(const sweep_command& command) {
  return fmt::format("Null-space sweep: {}", describe(command.settings, command.model.get()));
}

void write_times(const sweep_command& command, const std::string& device, const std::vector<sweep_time>& times) {
  const fs::path table = command.folder / "sweep_times.csv", chart = command.folder / "sweep_times.svg";
  if (!command.times) {
    fs::remove(table);
    fs::remove(chart);
    return;
  }
  write_atomically(table, times_csv(times));
  write_atomically(chart, time_chart(title_of(command), command.settings, device, times));
}

}  // namespace

output_place place_of_results(const sweep_command& command) {
  output_place place{.result = command.folder / "sweep.json",
                     .journal = command.folder / "sweep.journal",
                     // It decides what the units are, and nothing else.
                     .unit_settings = {{"query_block", command.settings.query_block}}};
  for (const char* name : {"sweep.csv", "sweep.svg", "sweep_logit_rank.csv", "sweep_times.csv", "sweep_times.svg"}) {
    place.others.push_back(command.folder / name);
  }
  return place;
}

void write_sweep(const sweep_command& command, const nlohmann::ordered_json& identity,
                 const std::vector<sweep_row>& rows, const std::vector<sweep_time>& times) {
  const sweep_settings& settings = command.settings;
  const fs::path logits = command.folder / "sweep_logit_rank.csv";
  write_atomically(command.folder / "sweep.csv", sweep_csv(settings, rows));
  write_atomically(
      command.folder / "sweep.svg",
      sweep_chart(fmt::format("{}, seed {}", title_of(command), settings.seed), settings, summaries_of(rows)));
  if (settings.logit_rank) {
    write_atomically(logits, sweep_csv(settings, rows, true));
  } else {
    fs::remove(logits);
  }
  write_times(command, identity["device"].get<std::string>(), times);
  // Last, because it marks the sweep as finished.
  write_atomically(command.folder / "sweep.json", sweep_json({{"settings", identity}}, settings, rows));
  if (command.quiet) return;
  fmt::print("\nWrote sweep.csv, sweep.json{}{} and sweep.svg into {}\n",
             settings.logit_rank ? ", sweep_logit_rank.csv" : "",
             command.times ? ", sweep_times.csv, sweep_times.svg" : "", command.folder.string());
}

}  // namespace nullscope::cli
