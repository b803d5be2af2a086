/// nullscope explain: which tokens make a classifier decide as it does.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <regex>
#include <system_error>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/cli/common/waiting_note.hpp"
#include "lib/cli/explain/explain_output.hpp"
#include "lib/cli/explain/explained_classifier.hpp"
#include "lib/src/io/atomic_file.hpp"

namespace nullscope::cli {
namespace {

struct explain_command {
  text_input_options input;
  std::string output, device, method = "slalom", fit = "least-squares", of_class, sampling = "short", by;
  std::int64_t samples = 5000, length = 2, most_deleted = 5, seed = 1, tokens_shown = 20;
  rerun_options rerun;
};

explain_options options_of(const explain_command& command, const std::vector<std::string>& labels) {
  explain_options options;
  options.method = explanation_method_named(command.method);
  options.of_class = class_named(command.of_class, labels);
  options.samples = command.samples;
  options.seed = static_cast<std::uint64_t>(command.seed);
  options.kind = command.sampling == "short" ? query_kind::short_sequences : query_kind::deletions;
  options.length = command.length;
  options.most_deleted = command.most_deleted;
  if (!command.by.empty()) options.identity = command.by == "id" ? token_identity::by_id : token_identity::by_place;
  options.fit = command.fit == "analytic" ? slalom_fit_kind::analytic
                : command.fit == "sgd"    ? slalom_fit_kind::sgd
                                          : slalom_fit_kind::least_squares;
  return options;
}

nlohmann::ordered_json settings_of(const explain_command& command, const text_source& source,
                                   const std::vector<input_text>& texts, const sycl::device& device) {
  nlohmann::ordered_json settings = common_settings("explain", device);
  settings.update({{"model", command.input.model},
                   {"model_checksum", checksum_of_model(source.folder())},
                   {"texts_checksum", checksum_of(texts)},
                   {"method", command.method},
                   {"fit", command.fit},
                   {"samples", command.samples},
                   {"class", command.of_class},
                   {"sampling", command.sampling},
                   {"length", command.length},
                   {"most_deleted", command.most_deleted},
                   {"tokens_by", command.by},
                   {"seed", command.seed}});
  return settings;
}

/// Pictures that an earlier run left in the folder.
std::vector<std::filesystem::path> pictures_in(const std::filesystem::path& folder) {
  static const std::regex name("(text|scatter)(_[0-9]+)?\\.svg");
  std::vector<std::filesystem::path> pictures;
  std::error_code ignored;  // a folder that is not there has none
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (std::regex_match(entry.path().filename().string(), name)) pictures.push_back(entry.path());
  }
  return pictures;
}

output_place place_of(const std::filesystem::path& folder) {
  output_place place{.result = settings_file(folder / "explain"), .others = pictures_in(folder)};
  place.others.insert(place.others.end(), {folder / "explain.json", folder / "explain.csv"});
  return place;
}

std::vector<explained_result> results_for(const std::vector<input_text>& read, const text_source& texts) {
  std::vector<explained_result> results;
  for (const input_text& text : read) {
    explained_result result;
    result.text = text.text;
    result.index = text.index;
    for (const std::int32_t id : text.tokens.ids) result.tokens.push_back(texts.token(id));
    result.encoded = text.tokens;
    results.push_back(std::move(result));
  }
  return results;
}

void write_pictures(const std::filesystem::path& folder, const std::vector<explained_result>& results) {
  for (const explained_result& result : results) {
    const std::string number = results.size() == 1 ? "" : fmt::format("_{}", result.index);
    if (!result.found.slalom.value.empty()) {
      write_atomically(folder / fmt::format("scatter{}.svg", number), scatter_chart(result));
    }
    write_atomically(folder / fmt::format("text{}.svg", number), marked_text(result));
  }
}

void run(const explain_command& command) {
  if (command.input.pair || !command.input.pair_column.empty()) {
    throw usage_error("explanations are of one text: --text-pair and --pair-column do not go with them");
  }
  text_source texts(command.input);
  const std::vector<input_text> read = texts.rest(0);
  const sycl::device device = select_device(command.device);
  const nlohmann::ordered_json settings = settings_of(command, texts, read, device);
  if (is_finished(place_of(command.output), settings, command.rerun)) return;
  context ctx(device);
  const explained_classifier classifier(ctx, texts.folder());
  explain_options options = options_of(command, classifier.labels());
  options.baseline_id = classifier.encoder().baseline_id().value_or(0);
  std::vector<explained_result> results = results_for(read, texts);
  {
    const waiting_note note = note_of_first_use(ctx);
    progress_bar bar(static_cast<double>(results.size()), 0);
    constexpr std::size_t together = 16;  // texts whose queries fill the device
    for (std::size_t first = 0; first < results.size(); first += together) {
      const std::size_t count = std::min(together, results.size() - first);
      std::vector<explained_text> part;
      for (std::size_t i = first; i < first + count; ++i) part.push_back(classifier.text_of(results[i].encoded));
      std::vector<explanation> found = explain(ctx, classifier.model(), part, options);
      for (std::size_t i = 0; i < count; ++i) {
        explained_result& result = results[first + i];
        result.found = std::move(found[i]);
        result.label = classifier.labels()[static_cast<std::size_t>(result.found.of_class)];
      }
      bar.advance(static_cast<double>(count));
      bar.draw(fmt::format("{} of {} texts", first + count, results.size()));
    }
  }
  begin_writing(place_of(command.output));
  for (const std::filesystem::path& picture : pictures_in(command.output)) std::filesystem::remove(picture);
  write_tables(command.output, results, command.method);
  write_pictures(command.output, results);
  write_settings(place_of(command.output).result, settings);
  for (const explained_result& result : results) print_table(result, command.method, command.tokens_shown);
}

}  // namespace

void add_explain(CLI::App& app) {
  auto command = std::make_shared<explain_command>();
  CLI::App* explain = app.add_subcommand("explain", "Which tokens make a classifier decide as it does");
  add_text_input(*explain, command->input);
  explain->add_option("--output", command->output, "Folder for explain.json, explain.csv and the pictures")
      ->required()
      ->check(some_path());
  explain->add_option("--method", command->method, "How to explain")
      ->capture_default_str()
      ->check(CLI::IsMember({"slalom", "lime", "shap", "linear", "additive", "gradient", "gradient-times-input",
                             "integrated-gradients"}));
  explain->add_option("--fit", command->fit, "How to fit SLALOM: least-squares, sgd or analytic")
      ->capture_default_str()
      ->check(CLI::IsMember({"least-squares", "sgd", "analytic"}));
  const auto number = [&](const char* name, std::int64_t& value, const char* text) {
    explain->add_option(name, value, text)->capture_default_str()->check(positive_integer());
  };
  number("--samples", command->samples,
         "Queries per text, drawn with repetition; the same query is computed only once");
  explain->add_option("--class", command->of_class,
                      "The class to explain, by its label or number (default: the predicted one)");
  explain->add_option("--sampling", command->sampling, "SLALOM's queries: short sequences of tokens, or deletions")
      ->capture_default_str()
      ->check(CLI::IsMember({"short", "deletions"}));
  number("--length", command->length, "Tokens of short sequences");
  number("--most-deleted", command->most_deleted, "Largest number of tokens that a deletion query leaves out");
  explain
      ->add_option("--tokens-by", command->by,
                   "Score each token id, or each position (default: id for SLALOM, otherwise place)")
      ->check(CLI::IsMember({"id", "place"}));
  explain->add_option("--seed", command->seed, "Seed of the queries")->capture_default_str()->check(natural_number());
  number("--tokens-shown", command->tokens_shown, "Tokens in the printed table");
  add_overwrite(*explain, command->rerun);
  explain->add_option("--device", command->device, device_help);
  explain->footer(
      "The model is a classifier: a folder that nullscope train wrote, or one of Hugging Face with a\n"
      "sequence-classification head. A score is a log-odds of the class (with more than two classes its logit minus\n"
      "their mean). SLALOM gives each token a value v (its score alone) and an importance s (its weight among "
      "others),\n"
      "with standard errors; the linearised score v exp(s) ranks tokens. Special tokens are part of every query.\n"
      "Writes explain.json, explain.csv, text.svg (the tokens marked) and, for SLALOM, scatter.svg;\n"
      "explain.settings.json records the settings, so that a later call recognises the results.\n\n"
      "Examples:\n"
      "  nullscope explain --model reviews-model --text \"Not bad at all.\" --output explained\n"
      "  nullscope explain --model reviews-model --file reviews.txt --method shap --samples 2000 --output explained\n"
      "  nullscope explain --model reviews-model --text \"Not bad.\" --fit analytic --class negative --output "
      "explained");
  explain->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
