#include "lib/cli/sweep/sweep_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/model_folder.hpp>
#include <nullscope/null_space/null_space.hpp>
#include <optional>

#include "lib/cli/common/device_choice.hpp"
#include "lib/cli/common/interruption.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/parallel/work_journal.hpp"
#include "lib/cli/parallel/work_splitter.hpp"
#include "lib/cli/sweep/sweep_files.hpp"
#include "lib/cli/sweep/sweep_identity.hpp"
#include "lib/cli/sweep/sweep_output.hpp"
#include "lib/src/studies/sweep/journal.hpp"

namespace nullscope::cli {
namespace {

namespace fs = std::filesystem;

/// Everything that determines the bytes of the files.
nlohmann::ordered_json identity_of(const sweep_command& command, const sycl::device& device) {
  nlohmann::ordered_json identity = to_json(command.settings, command.model.get());
  identity.update(common_settings("sweep", device));
  identity["compute_units"] = properties(device).compute_units;
  return identity;
}

/// What a device works with.
struct sweep_worker {
  std::shared_ptr<const void> model;  // which the computer reads; null: random heads
  std::unique_ptr<sweep_computer> computer;
};

template <class T>
sweep_worker make_model_worker(const sweep_command& command, context ctx) {
  const auto model = std::make_shared<const transformer<T>>(load_transformer<T>(ctx, command.model->folder));
  return {model, make_sweep_computer(std::move(ctx), command.settings, *model, command.model->texts)};
}

sweep_worker make_worker(const sweep_command& command, const sycl::device& device) {
  context ctx(device);
  if (command.model == nullptr) return {nullptr, make_sweep_computer(std::move(ctx), command.settings)};
  return command.settings.is_double ? make_model_worker<double>(command, std::move(ctx))
                                    : make_model_worker<float>(command, std::move(ctx));
}

/// The rows of a unit, and how long they took, as text.
std::string compute(const sweep_worker& worker, const sweep_unit& unit) {
  const auto start = std::chrono::steady_clock::now();
  nlohmann::json rows = to_journal(worker.computer->compute(unit));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return nlohmann::json{{"rows", std::move(rows)}, {"seconds", taken.count()}}.dump();
}

/// What the first process does.
class sweep_run {
 public:
  sweep_run(const sweep_command& command, const sycl::device& device)
      : command_(command),
        units_(units_of(command.settings)),
        identity_(identity_of(command, device)),
        results_(units_.size()),
        seconds_(units_.size()) {}

  bool is_done() const {
    const bool is_done = is_finished(place_of_results(command_), identity_, command_.rerun, command_.quiet);
    if (!is_done || !command_.times || fs::exists(command_.folder / "sweep_times.csv")) return is_done;
    throw file_error(fmt::format("{} was computed without --times; --overwrite computes it again",
                                 (command_.folder / "sweep.json").string()));
  }

  void run(work_splitter& splitter, const std::vector<sweep_worker>& workers) {
    std::int64_t memory = 0;
    for (const sweep_unit& unit : units_) memory = std::max(memory, workers[0].computer->memory_of(unit));
    make_folder(command_.folder);
    const output_place place = place_of_results(command_);
    journal_ = work_journal::open(place.journal, place.journal_settings(identity_), units_.size(), command_.rerun);
    introduce(memory, workers.size());
    divided_work work;
    work.identity = json_text(identity_);
    work.units = take_kept();
    work.workers = workers.size();
    work.compute = [&](std::size_t i, std::size_t worker) { return compute(workers[worker], units_[i]); };
    work.keep = [&](std::size_t i, const std::string& text) { keep(i, nlohmann::json::parse(text)); };
    work.wait = [&] { wait(); };
    print_complete_lines();
    note_signals();
    try {
      splitter.divide(work);
      progress_->clear();
      write_files();
    } catch (const std::exception& failure) {
      progress_->clear();
      throw error(fmt::format("{} ({})", failure.what(), kept_text()));
    }
    fs::remove(place.journal);
  }

 private:
  std::string kept_text() const {
    const auto kept = std::ranges::count_if(results_, [](const auto& rows) { return !rows.empty(); });
    return fmt::format("{} of {} units are kept; continue with --resume", kept, units_.size());
  }

  /// Takes the finished units from the journal, and returns the others.
  std::vector<std::size_t> take_kept() {
    std::vector<std::size_t> missing;
    double total = 0, kept = 0;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const double cost = cost_of(command_.settings, units_[i]);
      total += cost;
      if (journal_->kept()[i].is_null()) {
        missing.push_back(i);
      } else {
        take(i, journal_->kept()[i]);
        kept += cost;
      }
    }
    progress_.emplace(total, kept);
    return missing;
  }

  void introduce(std::int64_t memory, std::size_t devices) {
    if (command_.quiet) return;
    const sweep_settings& s = command_.settings;
    fmt::print("Null-space sweep: {}, seed {}, {} on {}\n", describe(s, command_.model.get()), s.seed,
               s.is_double ? "f64" : "f32", identity_["device"].get<std::string>());
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
    if (tolerance < static_cast<double>(longest) * epsilon) {  // not the usual max(S, d) eps
      fmt::print("Ranks count singular values above max(min(S, 4096), d) eps of the largest: {:.2g} at S = {}\n",
                 tolerance, longest);
    }
    fmt::print("\n");
    std::fflush(stdout);
  }

  /// What `compute` found, from this run or from the journal.
  void take(std::size_t i, const nlohmann::json& found) {
    results_[i] = from_journal(found.at("rows"), command_.settings, units_[i]);
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
        fmt::print("{}", table_line(summaries_of(finished_rows(command_.settings, rows))[0], is_sampled));
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
    write_sweep(command_, identity_, finished_rows(command_.settings, parts), find_times());
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
  std::vector<sweep_worker> workers;
  const auto choose = [&] {
    const std::vector<sycl::device> devices =
        devices_for(command.device, splitter->place_on_machine(), splitter->processes_on_machine());
    command.settings.is_double = command.type.empty() ? properties(devices[0]).fp64 : command.type == "f64";
    return devices;
  };
  const auto prepare = [&](const std::vector<sycl::device>& devices) {
    for (const sycl::device& device : devices) workers.push_back(make_worker(command, device));
  };
  if (splitter->is_first()) {
    const std::vector<sycl::device> devices = choose();
    sweep_run run(command, devices[0]);
    if (run.is_done()) return;
    prepare(devices);
    run.run(*splitter, workers);
    return;
  }
  splitter->serve([&]() -> shared_work {
    const std::vector<sycl::device> devices = choose();
    prepare(devices);
    return {json_text(identity_of(command, devices[0])),
            [&, units = units_of(command.settings)](std::size_t i, std::size_t worker) {
              return compute(workers[worker], units[i]);
            },
            workers.size()};
  });
}

}  // namespace nullscope::cli
