/// nullscope evaluate: how well a classifier does on a file.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/model/model_folder.hpp>
#include "lib/src/io/atomic_file.hpp"

#include "lib/cli/commands.hpp"
#include "lib/cli/common/checksum.hpp"
#include "lib/cli/common/field_text.hpp"
#include "lib/cli/common/labelled_texts.hpp"
#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/validators.hpp"

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

struct class_counts {
  std::int64_t texts = 0, predicted = 0, correct = 0;
};

struct outcome {
  double loss = 0;
  std::int64_t correct = 0, count = 0;
  std::vector<class_counts> classes;

  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(count); }
};

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

outcome compare(const std::vector<training_example>& examples, const std::vector<text_prediction>& predictions,
                std::size_t classes) {
  outcome result;
  result.classes.resize(classes);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto label = static_cast<std::size_t>(examples[i].labels[0]);
    const auto predicted = static_cast<std::size_t>(predictions[i].label);
    result.loss -= std::log(predictions[i].probabilities[label]);
    ++result.count;
    ++result.classes[label].texts;
    ++result.classes[predicted].predicted;
    if (label != predicted) continue;
    ++result.correct;
    ++result.classes[label].correct;
  }
  result.loss /= static_cast<double>(result.count);
  return result;
}

void print_text(const outcome& result, const std::vector<std::string>& labels) {
  fmt::print("accuracy {:.4f} ({} of {}), loss {:.4f}\n\n", result.accuracy(), result.correct, result.count,
             result.loss);
  std::size_t width = 5;
  for (const std::string& label : labels) width = std::max(width, label.size());
  fmt::print("{:<{}}  {:>7}  {:>7}  {:>9}\n", "label", width, "texts", "recall", "precision");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const class_counts& c = result.classes[i];
    fmt::print("{:<{}}  {:>7}  {:>7.4f}  {:>9.4f}\n", labels[i], width, c.texts, share(c.correct, c.texts),
               share(c.correct, c.predicted));
  }
}

void print_json(const outcome& result, const std::vector<std::string>& labels) {
  nlohmann::ordered_json document{{"accuracy", result.accuracy()},
                                  {"correct", result.correct},
                                  {"texts", result.count},
                                  {"loss", result.loss},
                                  {"labels", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const class_counts& c = result.classes[i];
    document["labels"].push_back({{"label", labels[i]},
                                  {"texts", c.texts},
                                  {"recall", share(c.correct, c.texts)},
                                  {"precision", share(c.correct, c.predicted)}});
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
  const outcome result = compare(encoded.examples, predictions, classifier.labels().size());
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
          "CSV file to write: line, label, prediction, probabilities; <file>.settings.json tells a later call how")
      ->check(some_path());
  evaluate
      ->add_option("--too-long", command->too_long,
                   "What happens to texts that are too long: cut, with a warning, or refuse")
      ->check(CLI::IsMember({"cut", "refuse"}))
      ->capture_default_str();
  evaluate->add_option("--batch", command->batch, "Texts per forward pass")
      ->check(positive_integer())
      ->capture_default_str();
  evaluate->add_flag("--json", command->as_json, "Print JSON");
  add_overwrite(*evaluate, command->rerun);
  evaluate->add_option("--device", command->device, device_help);
  evaluate->footer(
      "Recall is the share of a label's texts that are recognised, precision the share of right ones among the texts\n"
      "that are taken for it.\n\n"
      "Examples:\n"
      "  nullscope evaluate --model model --data test.csv\n"
      "  nullscope evaluate --model model --data test.csv --output predictions.csv --json");
  evaluate->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
