#include "lib/cli/identify/identify_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <optional>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/interruption.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/common/waiting_note.hpp"
#include "lib/cli/identify/identify_output.hpp"
#include "lib/cli/parallel/work_journal.hpp"
#include "lib/src/io/atomic_file.hpp"

namespace nullscope::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* all_experiments[] = {"layers", "transfer", "generalisation", "steps", "neighbours"};

/// Everything that determines the results.
nlohmann::ordered_json identity_of(const identify_command& command, const text_source& source,
                                   const std::vector<input_text>& texts, const context& ctx) {
  std::size_t tokens = 0;
  for (const input_text& text : texts) tokens += text.tokens.ids.size();
  const probe_training& training = command.study.training;
  nlohmann::ordered_json identity = common_settings("identify", ctx.queue().get_device());
  identity.update({{"model", command.input.model},
                   {"model_checksum", checksum_of_model(source.folder())},
                   {"texts", texts.size()},
                   {"tokens", tokens},
                   {"texts_checksum", checksum_of(texts)},
                   {"experiments", command.study.experiments},
                   {"maps", command.study.maps},
                   {"distances", command.study.distances},
                   {"layers", command.study.layers},
                   {"folds", command.study.folds},
                   {"learning_rates", command.study.rates},
                   {"batch", training.batch},
                   {"patience", training.patience},
                   {"epochs", training.most_epochs},
                   {"hidden_units", training.hidden_units},
                   {"seed", command.study.seed},
                   {"memory", command.study.memory}});
  return identity;
}

class identify_run {
 public:
  identify_run(const identify_command& command, context& ctx, const text_source& source,
               const std::vector<input_text>& texts, std::vector<identification_unit> units)
      : command_(command),
        ctx_(ctx),
        units_(std::move(units)),
        identity_(identity_of(command, source, texts, ctx)),
        rows_(units_.size()) {}

  bool is_done() const {
    output_place place{.result = path("identify.json"), .others = {path("identify.csv")}, .journal = journal_path()};
    for (const char* experiment : all_experiments) place.others.push_back(path(fmt::format("{}.svg", experiment)));
    return is_finished(place, identity_, command_.rerun, command_.quiet);
  }

  void open_journal() {
    make_folder(command_.output);
    journal_ = work_journal::open(journal_path(), identity_, units_.size(), command_.rerun);
  }

  void run(const token_states<float>& states) {
    double total = 0, kept = 0;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      total += units_[i].cost();
      if (journal_->kept()[i].is_null()) continue;
      rows_[i] = from_journal(journal_->kept()[i]);
      kept += units_[i].cost();
      ++finished_;
    }
    introduce();
    progress_.emplace(total, kept);
    note_signals();
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (rows_[i].empty()) compute(i, states);
    }
    progress_->clear();
    write();
    fs::remove(journal_path());
  }

 private:
  fs::path path(const std::string& name) const { return fs::path(command_.output) / name; }
  fs::path journal_path() const { return path("identify.journal"); }

  void introduce() const {
    if (command_.quiet) return;
    fmt::print("Token identifiability: {}, {} texts, {} tokens, {} folds on {}\n{} units of work{}\n\n",
               command_.input.model, identity_["texts"].get<std::int64_t>(), identity_["tokens"].get<std::int64_t>(),
               command_.study.folds, ctx_.device().name, units_.size(),
               finished_ > 0 ? fmt::format(", {} of them finished", finished_) : "");
    std::fflush(stdout);
  }

  void compute(std::size_t i, const token_states<float>& states) {
    identification_unit unit = units_[i];
    const std::string name = fmt::format("{}: {}, {}", unit.experiment, unit.map, unit.distance);
    unit.options.progress = [&](const probe_progress& now) {
      stop_if_asked();
      progress_->draw(fmt::format("{}, epoch {}, {} of {} probes", name, now.epoch, now.training, now.probes));
    };
    progress_->draw(name);
    rows_[i] = identify(ctx_, states, unit);
    journal_->append(i, to_journal(rows_[i]));
    ++finished_;
    progress_->advance(unit.cost());
    stop_if_asked();
  }

  void stop_if_asked() {
    const int signal = noted_signal();
    if (signal == 0) return;
    progress_->clear();
    fmt::print(stderr, "nullscope: interrupted: {} of {} units are kept; continue with --resume\n", finished_,
               units_.size());
    std::fflush(nullptr);
    std::_Exit(128 + signal);
  }

  void write() const {
    std::vector<identification_row> rows;
    for (const auto& part : rows_) rows.insert(rows.end(), part.begin(), part.end());
    nlohmann::ordered_json json{{"settings", identity_}, {"rates", to_json(summaries_of(rows))}};
    nlohmann::ordered_json& probes = json["training"] = nlohmann::ordered_json::array();
    for (const identification_row& row : rows) {
      if (row.epochs == 0 || row.trained_on != row.tested_on) continue;
      probes.push_back({{"experiment", row.experiment},
                        {"map", row.map},
                        {"distance", row.distance},
                        {"layer", row.trained_on},
                        {"offset", row.offset},
                        {"fold", row.fold},
                        {"learning_rate", row.learning_rate},
                        {"epochs", row.epochs}});
    }
    write_atomically(path("identify.csv"), identify_csv(rows));
    for (const char* experiment : all_experiments) {  // left by the run that is overwritten
      if (std::ranges::count(command_.study.experiments, experiment) > 0) continue;
      fs::remove(path(fmt::format("{}.svg", experiment)));
    }
    for (const std::string& experiment : command_.study.experiments) {
      std::vector<identification_row> some;
      std::ranges::copy_if(rows, std::back_inserter(some), [&](const auto& row) { return is_of(experiment, row); });
      const std::vector<identification_summary> summaries = summaries_of(some);
      write_atomically(path(experiment + ".svg"),
                       identify_chart(fmt::format("Token identifiability, {}: {}, {} texts", experiment,
                                                  command_.input.model, identity_["texts"].get<std::int64_t>()),
                                      experiment, summaries));
      if (!command_.quiet) print_summaries(experiment, summaries);
    }
    write_atomically(path("identify.json"), json_text(json, 2) + "\n");
    if (!command_.quiet) fmt::print("{}: identify.csv, identify.json and charts\n", command_.output);
  }

  const identify_command& command_;
  context& ctx_;
  std::vector<identification_unit> units_;
  nlohmann::ordered_json identity_;
  std::vector<std::vector<identification_row>> rows_;  // of units
  std::size_t finished_ = 0;
  std::optional<work_journal> journal_;
  std::optional<progress_bar> progress_;
};

void check_layers(const identify_command& command, const transformer_config& config) {
  for (const std::int64_t layer : command.study.layers) {
    if (layer > config.layers) throw usage_error(fmt::format("--layers: the model has {} layers", config.layers));
  }
}

}  // namespace

void run_identify(const identify_command& command) {
  text_source source(command.input);
  if (!source.is_file()) throw usage_error("--file is needed: probes learn from many texts");
  const transformer_config& config = source.model().config;
  check_layers(command, config);
  const std::vector<input_text> texts = source.rest(command.limit);
  if (std::cmp_less(texts.size(), std::max<std::int64_t>(3, command.study.folds))) {
    throw file_error(
        fmt::format("{}: {} texts are too few for {} folds", source.file(), texts.size(), command.study.folds));
  }
  context ctx(select_device(command.device));
  identify_run run(command, ctx, source, texts, identification_units(command.study, config));
  if (run.is_done()) return;
  run.open_journal();
  token_states<float> states;
  {
    const waiting_note note = note_of_first_use(ctx);
    const transformer<float> model = load_transformer<float>(ctx, source.folder());
    std::vector<token_batch::sequence> sequences;
    for (const input_text& text : texts) sequences.push_back(text.sequence(config));
    progress_bar bar(1, 0);
    double before = 0;
    states = read_token_states(ctx, model, sequences, [&](double share) {
      bar.advance(share - before);
      before = share;
      bar.draw(fmt::format("hidden tokens of {} texts", texts.size()));
    });
  }
  run.run(states);
}

}  // namespace nullscope::cli
