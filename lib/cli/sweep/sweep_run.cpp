#include "lib/cli/sweep/sweep_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/svd.hpp>
#include <optional>
#include "lib/src/io/atomic_file.hpp"

#include "lib/cli/common/device_choice.hpp"
#include "lib/cli/common/interruption.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/parallel/work_journal.hpp"
#include "lib/cli/parallel/work_splitter.hpp"
#include "lib/cli/sweep/sweep_chart.hpp"
#include "lib/cli/sweep/sweep_compute.hpp"
#include "lib/cli/sweep/sweep_output.hpp"

namespace nullscope::cli {
namespace {

namespace fs = std::filesystem;

/// Everything that determines the bytes of the files.
nlohmann::ordered_json identity_of(const sweep_settings& settings, const sycl::device& device) {
  const device_properties& about = properties(device);
  nlohmann::ordered_json identity = to_json(settings);
  identity.update(common_settings("sweep", device));
  identity["compute_units"] = about.compute_units;
  return identity;
}

using sweep_computers = std::vector<std::unique_ptr<sweep_computer>>;

/// The rows of a unit, and how long they took, as text.
std::string compute(sweep_computer& computer, const sweep_unit& unit) {
  const auto start = std::chrono::steady_clock::now();
  nlohmann::json rows = encode(computer.compute(unit));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return nlohmann::json{{"rows", std::move(rows)}, {"seconds", taken.count()}}.dump();
}

/// What the first process does.
class sweep_run {
 public:
  sweep_run(const sweep_command& command, const sycl::device& device)
      : command_(command),
        units_(units_of(command.settings)),
        identity_(identity_of(command.settings, device)),
        results_(units_.size()),
        seconds_(units_.size()) {}

  bool is_done() const {
    const bool is_done = is_finished(place_of_results(), identity_, command_.rerun, command_.quiet);
    if (!is_done || !command_.times || fs::exists(path("sweep_times.csv"))) return is_done;
    throw file_error(
        fmt::format("{} was computed without --times; --overwrite computes it again", path("sweep.json").string()));
  }

  void run(work_splitter& splitter, const sweep_computers& computers) {
    std::int64_t memory = 0;
    for (const sweep_unit& unit : units_) memory = std::max(memory, computers[0]->memory_of(unit));
    make_folder(command_.folder);
    const output_place place = place_of_results();
    journal_ = work_journal::open(place.journal, place.journal_settings(identity_), units_.size(), command_.rerun);
    introduce(memory, computers.size());
    divided_work work;
    work.identity = json_text(identity_);
    double total = 0, kept = 0;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      total += cost_of(command_.settings, units_[i]);
      if (journal_->kept()[i].is_null()) {
        work.units.push_back(i);
      } else {
        take(i, journal_->kept()[i]);
        kept += cost_of(command_.settings, units_[i]);
      }
    }
    progress_.emplace(total, kept);
    print_complete_lines();
    work.workers = computers.size();
    work.compute = [&](std::size_t i, std::size_t worker) { return compute(*computers[worker], units_[i]); };
    work.keep = [&](std::size_t i, const std::string& text) { keep(i, nlohmann::json::parse(text)); };
    work.wait = [&] { wait(); };
    note_signals();
    try {
      splitter.divide(work);
      progress_->clear();
      write_files();
    } catch (const std::exception& failure) {
      progress_->clear();
      throw error(fmt::format("{} ({})", failure.what(), kept_text()));
    }
    fs::remove(path("sweep.journal"));
  }

 private:
  fs::path path(const char* name) const { return command_.folder / name; }

  std::string kept_text() const {
    const auto kept = std::ranges::count_if(results_, [](const auto& rows) { return !rows.empty(); });
    return fmt::format("{} of {} units are kept; continue with --resume", kept, units_.size());
  }

  output_place place_of_results() const {
    output_place place{.result = path("sweep.json"),
                       .journal = path("sweep.journal"),
                       // It decides what the units are, and nothing else.
                       .unit_settings = {{"query_block", command_.settings.query_block}}};
    for (const char* name : {"sweep.csv", "sweep.svg", "sweep_logit_rank.csv", "sweep_times.csv", "sweep_times.svg"}) {
      place.others.push_back(path(name));
    }
    return place;
  }

  void introduce(std::int64_t memory, std::size_t devices) {
    if (command_.quiet) return;
    const sweep_settings& s = command_.settings;
    fmt::print("Null-space sweep: {}, seed {}, {} on {}\n", describe(s), s.seed, s.is_double ? "f64" : "f32",
               identity_["device"].get<std::string>());
    const auto kept = std::ranges::count_if(journal_->kept(), [](const auto& rows) { return !rows.is_null(); });
    fmt::print("{} units of work{}{}; at most {} MiB of device memory per {}\n", units_.size(),
               kept > 0 ? fmt::format(", {} of them finished", kept) : "",
               devices > 1 ? fmt::format(" on {} devices", devices) : "", (memory >> 20) + 1,
               devices > 1 ? "device" : "process");
    if (s.is_sampled()) {
      fmt::print("Correlations of more than {} tokens are estimates from {} random queries of each head\n",
                 s.query_sample, s.query_sample);
    }
    const std::int64_t longest = s.lengths.back();
    const double epsilon = s.is_double ? 0x1p-52 : 0x1p-23;
    const double tolerance = default_range_tolerance(longest, s.width, epsilon);
    if (tolerance < static_cast<double>(longest) * epsilon) {  // not the max(S, d) eps that people know from elsewhere
      fmt::print("Ranks count singular values above max(min(S, 4096), d) eps of the largest: {:.2g} at S = {}\n",
                 tolerance, longest);
    }
    fmt::print("\n");
    std::fflush(stdout);
  }

  /// What `compute` found, from this run or from the journal.
  void take(std::size_t i, const nlohmann::json& found) {
    results_[i] = decode(found.at("rows"), command_.settings, units_[i]);
    seconds_[i] = found.at("seconds");
  }

  void keep(std::size_t i, const nlohmann::json& found) {
    take(i, found);  // throws before anything is kept
    journal_->append(i, found);
    progress_->advance(cost_of(command_.settings, units_[i]));
    print_complete_lines();
  }

  /// Prints the lines of the table that are complete now, in the order of the units.
  void print_complete_lines() {
    while (printed_ < units_.size()) {
      std::vector<sweep_row> rows;
      std::size_t i = printed_;
      const sweep_unit& first = units_[i];
      for (; i < units_.size() && units_[i].kind == first.kind && units_[i].length == first.length; ++i) {
        if (results_[i].empty()) return;
        rows.insert(rows.end(), results_[i].begin(), results_[i].end());
      }
      if (!command_.quiet) {
        progress_->clear();
        const bool is_logits = first.kind == sweep_kind::logits, is_sampled = command_.settings.is_sampled();
        if (printed_ == 0 || (is_logits && units_[printed_ - 1].kind != first.kind)) {
          fmt::print("{}{}", printed_ > 0 ? "\n" : "", table_head(first.kind, is_sampled));
        }
        fmt::print("{}", table_line(summarise(finished_rows(command_.settings, rows)), is_sampled));
        std::fflush(stdout);
      }
      printed_ = i;
    }
  }

  /// Called while the work runs: handles a signal, draws the progress bar.
  void wait() {
    if (const int signal = noted_signal(); signal != 0) {
      progress_->clear();
      fmt::print(stderr, "nullscope: interrupted: {}\n", kept_text());
      std::fflush(nullptr);
      std::_Exit(128 + signal);  // at once: a thread may be deep in a long unit
    }
    if (printed_ < units_.size()) progress_->draw(fmt::format("S = {}", units_[printed_].length));
  }

  void write_files() const {
    std::vector<sweep_row> parts;
    for (const auto& part : results_) parts.insert(parts.end(), part.begin(), part.end());
    const std::vector<sweep_row> rows = finished_rows(command_.settings, parts);
    const std::vector<sweep_summary> summaries = summaries_of(rows);
    write_atomically(path("sweep.csv"), sweep_csv(rows, command_.settings.is_sampled()));
    write_atomically(path("sweep.svg"), sweep_chart(command_.settings, summaries));
    if (command_.settings.logit_rank) {
      write_atomically(path("sweep_logit_rank.csv"), logit_csv(rows));
    } else {
      fs::remove(path("sweep_logit_rank.csv"));  // left by the sweep that is overwritten
    }
    if (command_.times) {
      const std::vector<sweep_time> times = find_times();
      write_atomically(path("sweep_times.csv"), times_csv(times));
      write_atomically(path("sweep_times.svg"),
                       time_chart(command_.settings, identity_["device"].get<std::string>(), times));
    } else {
      fs::remove(path("sweep_times.csv"));
      fs::remove(path("sweep_times.svg"));
    }
    // Last, because it marks the sweep as finished.
    write_atomically(path("sweep.json"),
                     sweep_json({{"settings", identity_}}, summaries, rows, command_.settings.is_sampled()));
    if (command_.quiet) return;
    fmt::print("\nWrote sweep.csv, sweep.json{}{} and sweep.svg into {}\n",
               command_.settings.logit_rank ? ", sweep_logit_rank.csv" : "",
               command_.times ? ", sweep_times.csv, sweep_times.svg" : "", command_.folder.string());
  }

  /// Per length and kind, added up over the devices.
  std::vector<sweep_time> find_times() const {
    std::vector<sweep_time> times;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const auto& [kind, length, first, count, first_row, rows] = units_[i];
      if (times.empty() || times.back().kind != kind || times.back().length != length) {
        times.push_back({kind, length, 0, 0});
      }
      if (first_row == 0) times.back().heads += count;
      times.back().seconds += seconds_[i];
    }
    return times;
  }

  const sweep_command& command_;
  std::vector<sweep_unit> units_;
  nlohmann::ordered_json identity_;
  std::vector<std::vector<sweep_row>> results_;  // of each unit; empty: not computed yet
  std::vector<double> seconds_;                  // that each unit took
  std::size_t printed_ = 0;                      // units whose lines are printed
  std::optional<work_journal> journal_;
  std::optional<progress_bar> progress_;
};

}  // namespace

void run_sweep(const sweep_command& given) {
  const std::unique_ptr<work_splitter> splitter = make_work_splitter();
  sweep_command command = given;
  sweep_computers computers;
  const auto choose = [&] {
    const std::vector<sycl::device> devices =
        devices_for(command.device, splitter->place_on_machine(), splitter->processes_on_machine());
    command.settings.is_double = command.type.empty() ? properties(devices[0]).fp64 : command.type == "f64";
    return devices;
  };
  const auto prepare = [&](const std::vector<sycl::device>& devices) {
    for (const sycl::device& device : devices) {
      computers.push_back(make_sweep_computer(command.settings, command.texts.get(), device));
    }
  };
  if (splitter->is_first()) {
    const std::vector<sycl::device> devices = choose();
    sweep_run run(command, devices[0]);
    if (run.is_done()) return;
    prepare(devices);
    run.run(*splitter, computers);
    return;
  }
  splitter->serve([&]() -> shared_work {
    const std::vector<sycl::device> devices = choose();
    prepare(devices);
    return {json_text(identity_of(command.settings, devices[0])),
            [&, units = units_of(command.settings)](std::size_t i, std::size_t worker) {
              return compute(*computers[worker], units[i]);
            },
            computers.size()};
  });
}

}  // namespace nullscope::cli
