#include "lib/cli/hta/hta_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nullscope/core/errors.hpp>
#include <numeric>
#include <optional>

#include "lib/cli/common/device_choice.hpp"
#include "lib/cli/common/interruption.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/hta/hta_computer.hpp"
#include "lib/cli/hta/hta_output.hpp"
#include "lib/cli/parallel/work_journal.hpp"
#include "lib/cli/parallel/work_splitter.hpp"

namespace nullscope::cli {
namespace {

namespace fs = std::filesystem;

/// The devices of this process.
class hta_computers {
 public:
  virtual ~hta_computers() = default;
  virtual std::size_t size() const = 0;
  /// Calls progress with the share of the unit that is complete.
  virtual std::string compute(const attribution_unit& unit, std::size_t worker,
                              const std::function<void(double)>& progress) const = 0;
  /// Throws if the memory is too small for a unit.
  virtual void check(const std::vector<attribution_unit>& units) const = 0;
  virtual double rate() const = 0;  ///< flops per second of all together
};

template <class T>
class typed_computers : public hta_computers {
 public:
  typed_computers(const text_source& source, const std::vector<input_text>& texts, const attribution_options& options,
                  const std::vector<sycl::device>& devices) {
    for (const input_text& text : texts) sequences_.push_back(text.sequence(source.model().config));
    for (const sycl::device& device : devices) {
      computers_.push_back(std::make_unique<hta_computer<T>>(source, sequences_, options, device));
    }
  }

  std::size_t size() const override { return computers_.size(); }
  std::string compute(const attribution_unit& unit, std::size_t worker,
                      const std::function<void(double)>& progress) const override {
    return computers_[worker]->compute(unit, progress);
  }
  void check(const std::vector<attribution_unit>& units) const override { computers_[0]->check(units); }
  double rate() const override { return computers_[0]->rate() * static_cast<double>(computers_.size()); }

 private:
  std::vector<token_batch::sequence> sequences_;
  std::vector<std::unique_ptr<hta_computer<T>>> computers_;  // of each device
};

fs::path journal_of(const hta_command& command) { return command.output + ".journal"; }

/// Whether the file, and the report if there is to be one, are finished. Writes a report that is missing: all that it
/// needs is in the file.
bool is_done(const hta_command& command, const text_source& source, const std::vector<input_text>& texts,
             const nlohmann::ordered_json& identity) {
  output_place file{.result = command.output, .settings = settings_in_safetensors};
  if (source.is_file()) file.journal = journal_of(command);
  const bool has_file = is_finished(file, identity, command.rerun, command.quiet);
  const bool has_report =
      command.report.empty() || is_finished(place_of_hta_report(command.report), identity, command.rerun, true);
  if (has_file && !has_report) write_report_of_file(command, source, texts, identity);
  return has_file;
}

std::vector<attribution_unit> units_of(const std::vector<input_text>& texts, const attribution_options& options,
                                       const transformer_config& config) {
  std::vector<std::int64_t> tokens;
  for (const input_text& text : texts) tokens.push_back(std::ssize(text.tokens.ids));
  return attribution_units(tokens, options.samples == 0 ? config.width : options.samples);
}

/// What the first process does beside computing.
class hta_run {
 public:
  hta_run(const hta_command& command, text_source& source, const std::vector<input_text>& texts,
          const attribution_options& options, nlohmann::ordered_json identity)
      : command_(command),
        source_(source),
        texts_(texts),
        options_(options),
        units_(units_of(texts, options, source.model().config)),
        identity_(std::move(identity)),
        results_(texts.size()) {}

  void run(work_splitter& splitter, const hta_computers& computers) {
    computers.check(units_);
    if (source_.is_file()) {
      journal_ = work_journal::open(journal_of(command_), identity_, units_.size(), command_.rerun);
    }
    divided_work work;
    work.identity = json_text(identity_);
    double total = 0, kept = 0;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      total += flops_of(units_[i]);
      if (!journal_ || journal_->kept()[i].is_null()) {
        work.units.push_back(i);
      } else {
        take(i, journal_->kept()[i].get<std::string>());
        kept += flops_of(units_[i]);
      }
    }
    introduce(total - kept, computers);
    progress_.emplace(total, kept);
    work.workers = computers.size();
    under_way_ = std::vector<std::atomic<double>>(computers.size());
    work.compute = [&](std::size_t i, std::size_t worker) {
      const double flops = flops_of(units_[i]);
      std::string result =
          computers.compute(units_[i], worker, [&](double share) { under_way_[worker] = share * flops; });
      under_way_[worker] = 0;  // `keep` counts it
      return result;
    };
    work.keep = [&](std::size_t i, const std::string& text) {
      take(i, text);
      if (journal_) journal_->append(i, text);
      progress_->advance(flops_of(units_[i]));
    };
    work.wait = [&] { wait(); };
    note_signals();
    splitter.divide(work);
    progress_->clear();
    write_hta(command_, source_, texts_, std::move(results_), identity_);
    if (journal_) fs::remove(journal_of(command_));
  }

 private:
  double flops_of(const attribution_unit& unit) const {
    double flops = 0;
    for (const std::size_t i : unit) {
      flops +=
          attribution_flops(source_.model().config, static_cast<std::int64_t>(texts_[i].tokens.ids.size()), options_);
    }
    return flops;
  }

  void introduce(double flops, const hta_computers& computers) const {
    constexpr double worth_a_line = 1e12;  // flops: several seconds on a CPU
    if (command_.quiet || (!source_.is_file() && flops < worth_a_line)) return;
    constexpr double share_of_products = 0.7;
    const double seconds = flops / computers.rate() / share_of_products;
    fmt::print(
        "{} {} in {} {} of work, {:.2g} Tflop; about {} on {} in one process\n", texts_.size(),
        texts_.size() == 1 ? "text" : "texts", units_.size(), units_.size() == 1 ? "unit" : "units", flops / 1e12,
        seconds < 100 ? fmt::format("{:.0f} s", std::max(1.0, seconds)) : fmt::format("{:.0f} min", seconds / 60),
        identity_["device"].get<std::string>());
    std::fflush(stdout);
  }

  /// The results of a unit: one line per text.
  void take(std::size_t unit, const std::string& text) {
    std::size_t begin = 0;
    for (const std::size_t i : units_[unit]) {
      const std::size_t end = text.find('\n', begin);
      if (end == std::string::npos) throw invalid_argument("a result of another process or run is incomplete");
      results_[i] = decode_attribution(std::string_view(text).substr(begin, end - begin),
                                       static_cast<std::int64_t>(texts_[i].tokens.ids.size()), options_.layers);
      begin = end + 1;
    }
    ++finished_;
  }

  void wait() {
    if (const int signal = noted_signal(); signal != 0) {
      progress_->clear();
      fmt::print(stderr, "nullscope: interrupted: {} of {} units are kept{}\n", finished_, units_.size(),
                 journal_ ? "; continue with --resume" : "");
      std::fflush(nullptr);
      std::_Exit(128 + signal);  // at once: a thread may be deep in a long unit
    }
    progress_->draw(fmt::format("{} of {} units", finished_, units_.size()),
                    std::accumulate(under_way_.begin(), under_way_.end(), 0.0));
  }

  const hta_command& command_;
  text_source& source_;
  const std::vector<input_text>& texts_;
  const attribution_options& options_;
  std::vector<attribution_unit> units_;
  nlohmann::ordered_json identity_;
  std::vector<attribution> results_;
  std::size_t finished_ = 0;                    // units
  std::vector<std::atomic<double>> under_way_;  // flops of the unit that each worker computes
  std::optional<work_journal> journal_;
  std::optional<progress_bar> progress_;
};

template <class T>
void run_typed(const hta_command& command) {
  const std::unique_ptr<work_splitter> splitter = make_work_splitter();
  text_source source(command.input);
  const attribution_options options = options_of(command, source.model().config);
  const std::vector<input_text> texts = read_texts(source, command.limit);
  const auto prepare = [&] {
    return devices_for(command.device, splitter->place_on_machine(), splitter->processes_on_machine());
  };
  if (splitter->is_first()) {
    const std::vector<sycl::device> devices = prepare();
    const nlohmann::ordered_json identity = identity_of(command, source, texts, options, devices[0]);
    if (is_done(command, source, texts, identity)) return;
    const typed_computers<T> computers(source, texts, options, devices);
    hta_run(command, source, texts, options, identity).run(*splitter, computers);
    return;
  }
  std::optional<typed_computers<T>> computers;
  splitter->serve([&]() -> shared_work {
    const std::vector<sycl::device> devices = prepare();
    computers.emplace(source, texts, options, devices);
    const std::vector<attribution_unit> units = units_of(texts, options, source.model().config);
    return {json_text(identity_of(command, source, texts, options, devices[0])),
            [&, units](std::size_t i, std::size_t worker) { return computers->compute(units[i], worker, {}); },
            computers->size()};
  });
}

}  // namespace

void run_hta(const hta_command& command) {
  if (command.type == "f64") {
    run_typed<double>(command);
  } else {
    run_typed<float>(command);
  }
}

}  // namespace nullscope::cli
