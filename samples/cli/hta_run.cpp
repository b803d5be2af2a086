#include "hta_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <nullscope/attribution_statistics.hpp>
#include <nullscope/errors.hpp>
#include <nullscope/gemm.hpp>
#include <nullscope/safetensors.hpp>
#include <nullscope/version.hpp>
#include <optional>

#include "commands.hpp"
#include "device_choice.hpp"
#include "hta_report.hpp"
#include "hta_texts.hpp"
#include "interruption.hpp"
#include "progress.hpp"
#include "sweep_journal.hpp"
#include "work_splitter.hpp"

namespace nullscope::cli {
namespace {

namespace fs = std::filesystem;

std::vector<input_text> read_texts(text_source& source, std::int64_t limit) {
  std::vector<input_text> texts;
  input_text text;
  while ((limit == 0 || std::cmp_less(texts.size(), limit)) && source.next(text)) texts.push_back(std::move(text));
  if (texts.empty()) throw file_error("there are no texts to attribute");
  return texts;
}

std::int64_t number_of(const std::string& text, const char* option, std::int64_t least, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure == std::errc{} && end == text.data() + text.size() && number >= least && number <= most) return number;
  throw usage_error(fmt::format("{}: \"{}\" is not a number from {} to {}", option, text, least, most));
}

/// The options of the library; throws usage_error on what the model does not have.
attribution_options options_of(const hta_command& command, const transformer_config& config) {
  attribution_options options;
  options.norm = command.norm == "spectral" ? attribution_norm::spectral
                 : command.norm == "sum"    ? attribution_norm::sum
                                            : attribution_norm::frobenius;
  options.samples = command.samples;
  options.seed = command.seed;
  options.memory = number_of(command.memory, "--memory", 1, std::numeric_limits<std::int64_t>::max());
  if (command.from == "norm") {
    options.from = 0;
  } else if (command.from != "embeddings") {
    options.from = number_of(command.from, "--from", 1, config.layers - 1);
  }
  if (command.samples > config.width) {
    throw usage_error(fmt::format("--samples {}: the model has {} directions", command.samples, config.width));
  }
  if (options.norm == attribution_norm::spectral && command.samples > 0) {
    throw usage_error("--norm spectral is exact; it cannot be estimated with --samples");
  }
  if (command.words && options.norm != attribution_norm::frobenius) {
    throw usage_error("--words needs --norm frobenius");
  }
  if (command.words && !command.input.ids.empty()) throw usage_error("--words needs text; --ids have no words");
  options.layers = command.layers;
  const std::int64_t least = std::max<std::int64_t>(options.from, 0) + 1;
  for (std::int64_t l = least; command.layers.empty() && l <= config.layers; ++l) options.layers.push_back(l);
  for (std::size_t i = 0; i < options.layers.size(); ++i) {
    const bool is_ascending = i == 0 || options.layers[i] > options.layers[i - 1];
    if (options.layers[i] >= least && options.layers[i] <= config.layers && is_ascending) continue;
    throw usage_error(fmt::format("--layers must be ascending, from {} to {}", least, config.layers));
  }
  return options;
}

/// Everything that determines the numbers.
nlohmann::ordered_json identity_of(const hta_command& command, const std::vector<input_text>& texts,
                                   const attribution_options& options, const sycl::device& device) {
  const device_properties& about = properties(device);
  std::size_t hash = 0;
  for (const input_text& text : texts) {
    for (const std::int32_t id : text.tokens.ids) hash = hash * 1099511628211u + static_cast<std::size_t>(id) + 1;
    for (const std::int32_t id : text.tokens.segments) hash = hash * 1099511628211u + static_cast<std::size_t>(id) + 1;
  }
  return {{"model", command.input.model}, {"texts", texts.size()}, {"tokens", hash},           {"norm", command.norm},
          {"samples", command.samples},   {"seed", command.seed},  {"layers", options.layers}, {"from", command.from},
          {"memory", options.memory},     {"type", command.type},  {"device", about.name},     {"driver", about.driver},
          {"version", version()},         {"commit", git_commit()}};
}

/// Computes units on the device of this process.
template <class T>
class hta_computer {
 public:
  hta_computer(const text_source& source, const std::vector<input_text>& texts, const attribution_options& options,
               const sycl::device& device)
      : texts_(texts), options_(options), ctx_(device), model_(load_transformer<T>(ctx_, source.folder())) {}

  /// One line per text. Random tangents are numbered by text: they do not depend on who shares the unit.
  std::string compute(const hta_unit& unit) {
    std::vector<token_batch::sequence> sequences;
    attribution_options options = options_;
    for (const std::size_t i : unit) {
      sequences.push_back(texts_[i].sequence(model_.config()));
      options.numbers.push_back(static_cast<std::int64_t>(i));
    }
    const token_batch batch(ctx_, model_.config(), sequences);
    std::string result;
    for (const attribution& of : hidden_token_attribution(ctx_, model_, batch, options)) {
      result += encode_attribution(of) + "\n";
    }
    return result;
  }

  /// Flops per second of a product of the size that attribution has.
  double rate() {
    const tensor<T> a(ctx_, {1024, model_.config().width}), b(ctx_, {model_.config().width, 1024});
    ctx_.queue().fill(const_cast<T*>(a.data()), T(1), static_cast<std::size_t>(a.size()));
    ctx_.queue().fill(const_cast<T*>(b.data()), T(1), static_cast<std::size_t>(b.size())).wait();
    matrix_product(ctx_, a, b);
    const auto start = std::chrono::steady_clock::now();
    constexpr int times = 4;
    for (int i = 0; i < times; ++i) matrix_product(ctx_, a, b);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    return times * 2.0 * 1024 * 1024 * static_cast<double>(model_.config().width) / taken.count();
  }

 private:
  const std::vector<input_text>& texts_;
  const attribution_options& options_;
  context ctx_;
  transformer<T> model_;
};

/// What the first process does beside computing.
class hta_run {
 public:
  hta_run(const hta_command& command, text_source& source, const std::vector<input_text>& texts,
          const attribution_options& options, nlohmann::ordered_json identity)
      : command_(command),
        source_(source),
        texts_(texts),
        options_(options),
        units_(hta_units(texts, options.samples == 0 ? source.model().config.width : options.samples)),
        identity_(std::move(identity)),
        results_(texts.size()) {}

  const std::vector<hta_unit>& units() const { return units_; }

  void run(work_splitter& splitter, const std::function<std::string(std::size_t)>& compute, double rate) {
    open_journal();
    divided_work work;
    work.identity = identity_.dump();
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
    introduce(total - kept, rate);
    progress_.emplace(total, kept);
    work.compute = compute;
    work.keep = [&](std::size_t i, const std::string& text) {
      take(i, text);
      if (journal_) journal_->append(i, text);
      progress_->advance(flops_of(units_[i]));
    };
    work.wait = [&] { wait(); };
    note_signals();
    splitter.divide(work);
    progress_->clear();
    write();
    if (journal_) fs::remove(journal_path());
  }

 private:
  fs::path journal_path() const { return command_.output + ".journal"; }

  void open_journal() {
    if (!source_.is_file()) return;
    if (command_.resume && fs::exists(journal_path())) {
      journal_ = sweep_journal::resume(journal_path(), identity_, units_.size());
    }
    if (!journal_) journal_ = sweep_journal::begin(journal_path(), identity_, units_.size());
  }

  double flops_of(const hta_unit& unit) const {
    double flops = 0;
    for (const std::size_t i : unit) {
      flops +=
          attribution_flops(source_.model().config, static_cast<std::int64_t>(texts_[i].tokens.ids.size()), options_);
    }
    return flops;
  }

  void introduce(double flops, double rate) const {
    if (command_.quiet || !source_.is_file()) return;
    constexpr double share_of_products = 0.7;
    const double seconds = flops / rate / share_of_products;
    fmt::print(
        "{} texts in {} units of work, {:.2g} Tflop; about {} on {} and one process\n", texts_.size(), units_.size(),
        flops / 1e12,
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
      results_[i] = decode_attribution(text.substr(begin, end - begin),
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
    progress_->draw(fmt::format("{} of {} units", finished_, units_.size()));
  }

  void write() {
    if (command_.words) {
      for (std::size_t i = 0; i < results_.size(); ++i) {
        results_[i] = aggregate_words(results_[i], words_of(texts_[i]));
      }
    }
    std::vector<std::vector<float>> numbers;
    numbers.reserve(3 * results_.size());
    std::vector<safetensors_entry> entries;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const attribution& of = results_[i];
      const std::string prefix = source_.is_file() ? fmt::format("{}/", texts_[i].index) : "";
      const auto add = [&](const char* name, const std::vector<double>& values) {
        if (values.empty()) return;
        numbers.emplace_back(values.begin(), values.end());
        entries.push_back(make_entry(prefix + name, {static_cast<std::int64_t>(of.layers.size()), of.tokens, of.tokens},
                                     numbers.back()));
      };
      add("contribution", of.contribution);
      add("norm", of.norm);
      add("standard_error", of.standard_error);
    }
    write_safetensors(command_.output, entries, {{"hta", identity_.dump()}});
    if (!command_.report.empty()) write_report();
    if (command_.quiet) return;
    fmt::print("{}: contributions of {}{}\n", command_.output,
               texts_.size() == 1 ? "1 text" : fmt::format("{} texts", texts_.size()),
               command_.report.empty() ? "" : fmt::format("; report in {}", command_.report));
  }

  /// Words of both texts of a pair are different ones.
  static std::vector<std::int32_t> words_of(const input_text& text) {
    std::vector<std::int32_t> words = text.tokens.words;
    std::int32_t most = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (text.tokens.sources[i] == 0) most = std::max(most, words[i] + 1);
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (text.tokens.sources[i] == 1 && words[i] >= 0) words[i] += most;
    }
    return words;
  }

  void write_report() const {
    attribution_statistics statistics;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (command_.words) {
        statistics.add(results_[i]);
        continue;
      }
      const std::vector<std::string> classes = token_classes(texts_[i], source_);
      statistics.add(results_[i], {.classes = classes, .separator = first_separator(texts_[i])});
    }
    heat_map_text example{results_.front(), {}};
    const std::vector<std::int32_t>& ids = texts_.front().tokens.ids;
    for (std::int64_t i = 0; i < example.of.tokens; ++i) {
      example.tokens.push_back(command_.words ? fmt::format("{}", i) : source_.token(ids[static_cast<std::size_t>(i)]));
    }
    write_hta_report(command_.report,
                     fmt::format("Hidden Token Attribution: {}, {}", command_.input.model,
                                 texts_.size() == 1 ? "1 text" : fmt::format("{} texts", texts_.size())),
                     statistics, example);
  }

  const hta_command& command_;
  text_source& source_;
  const std::vector<input_text>& texts_;
  const attribution_options& options_;
  std::vector<hta_unit> units_;
  nlohmann::ordered_json identity_;
  std::vector<attribution> results_;
  std::size_t finished_ = 0;  // units
  std::optional<sweep_journal> journal_;
  std::optional<progress_bar> progress_;
};

template <class T>
void run_typed(const hta_command& command) {
  const std::unique_ptr<work_splitter> splitter = make_work_splitter();
  text_source source(command.input);
  const attribution_options options = options_of(command, source.model().config);
  const std::vector<input_text> texts = read_texts(source, command.limit);
  const auto prepare = [&] { return device_for(command.device, splitter->place_on_machine()); };
  if (splitter->is_first()) {
    const sycl::device device = prepare();
    hta_computer<T> computer(source, texts, options, device);
    hta_run run(command, source, texts, options, identity_of(command, texts, options, device));
    run.run(
        *splitter, [&](std::size_t i) { return computer.compute(run.units()[i]); },
        source.is_file() ? computer.rate() : 1);
    return;
  }
  std::optional<hta_computer<T>> computer;
  splitter->serve([&]() -> shared_work {
    const sycl::device device = prepare();
    computer.emplace(source, texts, options, device);
    const std::vector<hta_unit> units =
        hta_units(texts, options.samples == 0 ? source.model().config.width : options.samples);
    return {identity_of(command, texts, options, device).dump(),
            [&, units](std::size_t i) { return computer->compute(units[i]); }};
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
