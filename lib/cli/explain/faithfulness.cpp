/// nullscope faithfulness: how good explanations of a classifier are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/model_folder.hpp>
#include <nullscope/training/training.hpp>

#include "lib/cli/charts/chart.hpp"
#include "lib/cli/commands.hpp"
#include "lib/cli/common/checksum.hpp"
#include "lib/cli/common/field_text.hpp"
#include "lib/cli/common/labelled_texts.hpp"
#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/cli/common/waiting_note.hpp"
#include "lib/cli/explain/explained_classifier.hpp"
#include "lib/src/io/atomic_file.hpp"
#include "lib/src/io/csv.hpp"

namespace nullscope::cli {
namespace {

struct faithfulness_command {
  std::string model, data, output, device, annotation_column, sampling = "short";
  text_columns columns;
  std::vector<std::string> methods{"slalom", "lime", "shap", "gradient", "integrated-gradients"};
  std::int64_t texts = 20, samples = 1000, length = 2, max_length = 0, points = 20, seed = 1;
  rerun_options rerun;
};

/// The annotation of each record, by its line: 0 or 1 for every word between white space.
std::map<std::int64_t, std::string> read_annotations(const faithfulness_command& command) {
  std::map<std::int64_t, std::string> result;
  if (command.annotation_column.empty()) return result;
  csv_reader table(command.data);
  const std::size_t column = table.column(command.annotation_column);
  for (std::vector<std::string> fields; table.next(fields);) result[table.line()] = fields[column];
  return result;
}

/// The word marks of an annotation, for the tokens by where they stand in the text.
std::vector<std::uint8_t> token_marks(const std::string& annotation, const std::string& text,
                                      const encoded_text& tokens, const std::string& origin) {
  std::vector<std::uint8_t> words;
  for (const char c : annotation) {
    if (c == '0' || c == '1') words.push_back(c == '1' ? 1 : 0);
  }
  std::vector<std::size_t> word_at(text.size());
  std::size_t word = 0;
  bool is_inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_space = std::isspace(static_cast<unsigned char>(text[i])) != 0;
    word += is_inside && is_space ? 1 : 0;
    is_inside = !is_space;
    word_at[i] = word;
  }
  const std::size_t count = word + (is_inside ? 1 : 0);
  if (words.size() != count) {
    throw file_error(fmt::format("{}: {} marks for {} words", origin, words.size(), count));
  }
  std::vector<std::uint8_t> marks(tokens.ids.size());
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (tokens.special_mask[i] == 0) marks[i] = words[word_at[static_cast<std::size_t>(tokens.offsets[i].begin)]];
  }
  return marks;
}

struct data_parts {
  std::vector<measured_text> explained, others;
};

data_parts read_data(const faithfulness_command& command, const explained_classifier& classifier) {
  const std::vector<labelled_text> rows = read_labelled_texts(command.data, command.columns);
  const std::map<std::int64_t, std::string> annotations = read_annotations(command);
  const std::int64_t longest = classifier.config().positions;
  const std::int64_t most = command.max_length == 0 ? longest : std::min(longest, command.max_length);
  const std::vector<std::int64_t> order =
      split_examples(std::ssize(rows), static_cast<std::uint64_t>(command.seed), {.training = 1, .validation = 0})
          .training;
  data_parts parts;
  for (const std::int64_t i : order) {
    const labelled_text& row = rows[static_cast<std::size_t>(i)];
    const std::string origin = fmt::format("{}, line {}", command.data, row.line);
    const encoded_text tokens = classifier.encoder().encode(row.input.text, {.max_length = most});
    measured_text text{classifier.text_of(tokens), 0, {}};
    const auto label = std::ranges::find(classifier.labels(), row.label);
    if (label == classifier.labels().end()) {
      throw file_error(fmt::format("{}: the model has no class \"{}\"", origin, row.label));
    }
    text.of_class = label - classifier.labels().begin();
    if (const auto mark = annotations.find(row.line); mark != annotations.end()) {
      text.marked = token_marks(mark->second, row.input.text, tokens, origin);
    }
    const auto ordinary = std::ranges::count(tokens.special_mask, 0);
    const bool has_room = std::ssize(parts.explained) < command.texts;
    (has_room && ordinary >= 2 ? parts.explained : parts.others).push_back(std::move(text));
  }
  if (parts.explained.empty()) throw file_error(fmt::format("{}: no text has two tokens", command.data));
  return parts;
}

struct column {
  const char *name, *title;
  std::vector<double> measured_method::*numbers;
};
constexpr column table_columns[] = {{"deletion_aopc", "deletion", &measured_method::deletion},
                                    {"insertion_aopc", "insertion", &measured_method::insertion},
                                    {"fidelity", "fidelity", &measured_method::fidelity},
                                    {"naive_bayes", "naive bayes", &measured_method::naive_bayes},
                                    {"roc", "roc", &measured_method::roc}};

void print_rows(const std::vector<measured_method>& rows, std::size_t texts) {
  fmt::print("{:<22}", fmt::format("{} texts", texts));
  for (const column& c : table_columns) fmt::print(" {:>16}", c.title);
  fmt::print(" {:>10}\n", "s per text");
  for (const measured_method& row : rows) {
    fmt::print("{:<22}", row.name);
    for (const column& c : table_columns) {
      const mean_and_error found = mean_of(row.*c.numbers);
      fmt::print(" {:>16}", found.count == 0 ? "" : fmt::format("{:.4g} +- {:.2g}", found.mean, found.error));
    }
    fmt::print(" {:>10.4f}\n", row.seconds);
  }
}

void write_rows(const std::filesystem::path& folder, const std::vector<measured_method>& rows) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::string table = "method,measure,mean,standard_error,texts\n";
  for (const measured_method& row : rows) {
    nlohmann::ordered_json one{{"method", row.name}, {"seconds_per_text", row.seconds}};
    for (const column& c : table_columns) {
      const mean_and_error found = mean_of(row.*c.numbers);
      one[c.name] = {
          {"mean", json_number(found.mean)}, {"standard_error", json_number(found.error)}, {"texts", found.count}};
      if (found.count > 0) {
        table += fmt::format("{},{},{:.9g},{:.9g},{}\n", row.name, c.name, found.mean, found.error, found.count);
      }
    }
    table += fmt::format("{},seconds_per_text,{:.6g},,\n", row.name, row.seconds);
    all.push_back(std::move(one));
  }
  write_atomically(folder / "faithfulness.json", json_text(all, 2) + "\n");
  write_atomically(folder / "faithfulness.csv", table);
}

/// Mean curves: texts of different lengths are read off at the same shares.
std::string curve_chart(const std::vector<measured_method>& rows) {
  const std::vector<std::string> colours{chart_colour::blue,
                                         chart_colour::orange,
                                         chart_colour::green,
                                         chart_colour::grey,
                                         "#CC79A7",
                                         "#E69F00",
                                         "#56B4E9",
                                         "#F0E442",
                                         "#000000"};
  std::vector<perturbation_curves> means;
  for (const measured_method& row : rows) means.push_back(mean_curves(row.curves));
  std::vector<chart_panel> panels;
  for (const bool inserts : {false, true}) {
    chart_panel panel{inserts ? "Tokens inserted" : "Tokens deleted",
                      {inserts ? "share of tokens inserted" : "share of tokens deleted", chart_scale::linear, 0, 1},
                      {"probability of the class", chart_scale::linear, 0, 1},
                      {}};
    for (std::size_t r = 0; r < rows.size(); ++r) {
      chart_series series{rows[r].name, colours[r % colours.size()], r < 4 ? chart_mark::line : chart_mark::dashed, {}};
      const std::vector<double>& y = inserts ? means[r].insertion : means[r].deletion;
      for (std::size_t step = 0; step < y.size(); ++step) {
        const double mean = y[step];
        series.points.push_back({means[r].share[step], mean, mean, mean});
      }
      panel.series.push_back(std::move(series));
    }
    panels.push_back(std::move(panel));
  }
  return draw_chart("Deletion and insertion curves", panels, 2);
}

nlohmann::ordered_json settings_of(const faithfulness_command& command, const std::filesystem::path& model,
                                   const sycl::device& device) {
  nlohmann::ordered_json settings = common_settings("faithfulness", device);
  settings.update({{"model", command.model},
                   {"model_checksum", checksum_of_model(model)},
                   {"data_checksum", checksum_of_file(command.data)},
                   {"columns", {command.columns.text, command.columns.label, command.annotation_column}},
                   {"methods", command.methods},
                   {"texts", command.texts},
                   {"samples", command.samples},
                   {"length", command.length},
                   {"sampling", command.sampling},
                   {"max_length", command.max_length},
                   {"points", command.points},
                   {"seed", command.seed}});
  return settings;
}

output_place place_of_faithfulness(const std::filesystem::path& folder) {
  return {.result = settings_file(folder / "faithfulness"),
          .others = {folder / "faithfulness.json", folder / "faithfulness.csv", folder / "curves.svg"}};
}

void run(const faithfulness_command& command) {
  const std::filesystem::path folder = resolve_model(command.model);
  const sycl::device device = select_device(command.device);
  nlohmann::ordered_json identity;
  if (!command.output.empty()) {
    identity = settings_of(command, folder, device);
    if (is_finished(place_of_faithfulness(command.output), identity, command.rerun)) return;
  }
  context ctx(device);
  const explained_classifier classifier(ctx, folder);
  faithfulness_options options;
  options.methods.clear();
  for (const std::string& name : command.methods) options.methods.push_back(explanation_method_named(name));
  options.explain.samples = command.samples;
  options.explain.length = command.length;
  options.explain.seed = static_cast<std::uint64_t>(command.seed);
  options.explain.kind = command.sampling == "short" ? query_kind::short_sequences : query_kind::deletions;
  options.explain.baseline_id = classifier.encoder().baseline_id().value_or(0);
  options.curves.points = command.points;
  const data_parts data = read_data(command, classifier);
  std::vector<measured_method> rows;
  {
    const waiting_note note = note_of_first_use(ctx);
    progress_bar bar(static_cast<double>(command.methods.size()), 0);
    options.progress = [&](explanation_method method) {
      bar.advance(1);
      bar.draw(std::string(to_string(method)));
    };
    rows = measure_faithfulness(ctx, classifier.model(), data.explained, data.others, options);
  }
  print_rows(rows, data.explained.size());
  if (command.output.empty()) return;
  begin_writing(place_of_faithfulness(command.output));
  write_rows(command.output, rows);
  write_atomically(std::filesystem::path(command.output) / "curves.svg", curve_chart(rows));
  write_settings(place_of_faithfulness(command.output).result, identity);
}

}  // namespace

void add_faithfulness(CLI::App& app) {
  auto command = std::make_shared<faithfulness_command>();
  CLI::App* faithfulness = app.add_subcommand("faithfulness", "How good explanations of a classifier are");
  faithfulness->add_option("--model", command->model, "A classifier: a model folder")->required()->check(some_path());
  faithfulness->add_option("--data", command->data, "A table (.csv, .tsv) with texts and labels")
      ->required()
      ->check(some_path());
  faithfulness->add_option("--text-column", command->columns.text, "The column of the texts")->capture_default_str();
  faithfulness->add_option("--label-column", command->columns.label, "The column of the labels")->capture_default_str();
  faithfulness->add_option("--annotation-column", command->annotation_column,
                           "Column with 0 or 1 for every word (separated by white space): what people find important");
  faithfulness
      ->add_option(
          "--methods", command->methods,
          "Methods, separated by commas: slalom, lime, shap, linear, additive, gradient, gradient-times-input, "
          "integrated-gradients")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"slalom", "lime", "shap", "linear", "additive", "gradient", "gradient-times-input",
                             "integrated-gradients"}));
  const auto number = [&](const char* name, std::int64_t& value, const char* text) {
    return faithfulness->add_option(name, value, text)->capture_default_str()->check(positive_integer());
  };
  number("--texts", command->texts, "Texts to explain, chosen at random; Naive Bayes is trained on the others");
  number("--samples", command->samples, "Queries per text");
  number("--length", command->length, "Tokens of SLALOM's short sequences");
  faithfulness->add_option("--sampling", command->sampling, "SLALOM's queries: short sequences, or deletions")
      ->capture_default_str()
      ->check(CLI::IsMember({"short", "deletions"}));
  faithfulness
      ->add_option("--max-length", command->max_length, "The most tokens of a text (default: what the model takes)")
      ->check(positive_integer());
  number("--points", command->points, "Points of the deletion and insertion curves");
  faithfulness->add_option("--seed", command->seed, "Seed of all random choices")
      ->capture_default_str()
      ->check(natural_number());
  add_overwrite(*faithfulness, command->rerun);
  faithfulness->add_option("--device", command->device, device_help);
  faithfulness->add_option("--output", command->output, "Folder for faithfulness.json, faithfulness.csv and curves.svg")
      ->check(some_path());
  faithfulness->footer(
      "deletion, insertion: area over the curve of the probability as tokens are deleted, or inserted, by descending\n"
      "attribution (deletion: larger is better; insertion: smaller is better). fidelity: mean squared error of the\n"
      "predicted change of the log-odds on random deletions. naive bayes: rank correlation with the log ratios of\n"
      "counts. roc: area under the ROC curve against annotations. Means over the texts +- standard errors.\n\n"
      "Examples:\n"
      "  nullscope faithfulness --model reviews-model --data reviews.csv --output faithful\n"
      "  nullscope faithfulness --model reviews-model --data reviews.csv --methods slalom,shap --texts 50 --samples "
      "5000");
  faithfulness->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
