/// nullscope evaluate: how well a classifier does on a file.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/model/model_folder.hpp>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/checksum.hpp"
#include "lib/cli/common/field_text.hpp"
#include "lib/cli/common/labelled_texts.hpp"
#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/src/io/atomic_file.hpp"

namespace nullscope::cli {
namespace {

struct evaluate_command {
  std::string model, device;
  std::filesystem::path data, output;
  text_columns columns;
  std::string too_long = "cut";
  std::int64_t batch = 256;
  bool as_json = false;
  rerun_options rerun;
};

void print_text(const prediction_quality& result, const std::vector<std::string>& labels) {
  fmt::print("accuracy {:.4f} ({} of {}), loss {:.4f}\n\n", result.accuracy(), result.correct, result.texts,
             result.loss);
  std::size_t width = 5;
  for (const std::string& label : labels) width = std::max(width, label.size());
  fmt::print("{:<{}}  {:>7}  {:>7}  {:>9}\n", "label", width, "texts", "recall", "precision");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const class_counts& c = result.classes[i];
    fmt::print("{:<{}}  {:>7}  {:>7.4f}  {:>9.4f}\n", labels[i], width, c.texts, c.recall(), c.precision());
  }
}

void print_json(const prediction_quality& result, const std::vector<std::string>& labels) {
  nlohmann::ordered_json document{{"accuracy", result.accuracy()},
                                  {"correct", result.correct},
                                  {"texts", result.texts},
                                  {"loss", result.loss},
                                  {"labels", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const class_counts& c = result.classes[i];
    document["labels"].push_back(
        {{"label", labels[i]}, {"texts", c.texts}, {"recall", c.recall()}, {"precision", c.precision()}});
  }
  fmt::print("{}\n", document.dump(2));
}

std::string predictions_csv(const std::vector<labelled_text>& texts, const std::vector<text_prediction>& predictions,
                            const std::vector<std::string>& labels) {
  std::string csv = "line,label,prediction";
  for (const std::string& label : labels) csv += "," + csv_field("p_" + label);
  csv += "\n";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    csv += fmt::format("{},{},{}", texts[i].line, csv_field(texts[i].label),
                       csv_field(labels[static_cast<std::size_t>(predictions[i].label)]));
    for (const double p : predictions[i].probabilities) csv += fmt::format(",{:.6g}", p);
    csv += "\n";
  }
  return csv;
}

nlohmann::ordered_json settings_of(const evaluate_command& command, const std::filesystem::path& model,
                                   const std::vector<labelled_text>& texts, const sycl::device& device) {
  nlohmann::ordered_json settings = common_settings("evaluate", device);
  settings.update({{"model", command.model},
                   {"model_checksum", checksum_of_model(model)},
                   {"data_checksum", checksum_of(texts)},
                   {"columns", {command.columns.text, command.columns.pair, command.columns.label}},
                   {"batch", command.batch}});
  return settings;
}

void run(const evaluate_command& command) {
  const std::vector<labelled_text> texts = read_labelled_texts(command.data, command.columns);
  const std::filesystem::path folder =
      resolve_model(command.model, [](std::string_view text) { fmt::print(stderr, "{}\n", text); });
  const sycl::device device = select_device(command.device);
  const output_place place{.result = settings_file(command.output), .others = {command.output}};
  nlohmann::ordered_json settings;
  if (!command.output.empty()) {
    settings = settings_of(command, folder, texts, device);
    if (is_finished(place, settings, command.rerun)) return;
  }
  context ctx(device);
  const text_classifier<float> classifier(ctx, folder);
  const transformer_config& config = classifier.model().config();
  const encoded_texts encoded =
      encode_texts(command.data, texts, config, classifier.encoder(), config.positions, classifier.labels());
  report_cut(command.data, encoded, config.positions, command.too_long == "refuse");
  std::vector<text_input> inputs;
  for (const labelled_text& text : texts) inputs.push_back(text.input);
  const std::vector<text_prediction> predictions = classifier.predict(ctx, inputs, command.batch);
  std::vector<std::int32_t> labels;
  for (const training_example& example : encoded.examples) labels.push_back(example.labels[0]);
  const prediction_quality result = quality_of(predictions, labels, std::ssize(classifier.labels()));
  if (!command.output.empty()) {
    begin_writing(place);
    write_atomically(command.output, predictions_csv(texts, predictions, classifier.labels()));
    write_settings(place.result, settings);
  }
  if (command.as_json) {
    print_json(result, classifier.labels());
  } else {
    print_text(result, classifier.labels());
  }
}

}  // namespace

void add_evaluate(CLI::App& app) {
  auto command = std::make_shared<evaluate_command>();
  CLI::App* evaluate = app.add_subcommand("evaluate", "Accuracy of a classifier on a file with texts and labels");
  evaluate->add_option("--model", command->model, "Model with a classifier: a folder or a name")
      ->required()
      ->check(some_path());
  evaluate->add_option("--data", command->data, "CSV or TSV file with texts and labels")
      ->required()
      ->check(some_path());
  evaluate->add_option("--text-column", command->columns.text, "Column with the text")->capture_default_str();
  evaluate->add_option("--pair-column", command->columns.pair, "Column with the second text (default: none)");
  evaluate->add_option("--label-column", command->columns.label, "Column with the label")->capture_default_str();
  evaluate
      ->add_option(
          "--output", command->output,
          "CSV file to write: line, label, prediction, probabilities. <file>.settings.json records the settings")
      ->check(some_path());
  evaluate
      ->add_option("--too-long", command->too_long,
                   "What to do with texts that are too long: cut (with a warning) or refuse")
      ->check(CLI::IsMember({"cut", "refuse"}))
      ->capture_default_str();
  evaluate->add_option("--batch", command->batch, "Texts per forward pass")
      ->check(positive_integer())
      ->capture_default_str();
  evaluate->add_flag("--json", command->as_json, "Print JSON");
  add_overwrite(*evaluate, command->rerun);
  evaluate->add_option("--device", command->device, device_help);
  evaluate->footer(
      "Recall: the share of a label's texts that are predicted correctly. Precision: the share of the texts predicted\n"
      "as this label that have it.\n\n"
      "Examples:\n"
      "  nullscope evaluate --model model --data test.csv\n"
      "  nullscope evaluate --model model --data test.csv --output predictions.csv --json");
  evaluate->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
