/// nullscope attention: raw, effective and null attention of a model that reads texts.
#include <fmt/format.h>

#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/text/text_encoder.hpp>

#include "lib/cli/attention/attention_report.hpp"
#include "lib/cli/commands.hpp"
#include "lib/cli/common/checksum.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/common/text_input.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/cli/common/waiting_note.hpp"

namespace nullscope::cli {
namespace {

struct attention_command {
  text_input_options input;
  std::string output, device, classes, projection = "auto";
  bool rollout = false;
  rerun_options rerun;
};

std::optional<bool> by_rows(const attention_command& command, const transformer_config& config) {
  if (command.projection == "auto") return std::nullopt;
  const bool rows = command.projection == "rows";
  if (rows && !config.causal) throw usage_error("--projection rows: this model is not causal, its rows see all tokens");
  return rows;
}

/// All texts with the classes of their tokens; names, counts and origins go to the report.
std::vector<classified_text> read_texts(const attention_command& command, text_source& source,
                                        attention_report& report) {
  std::optional<token_class_file> file;
  std::optional<token_classifier> classifier;
  if (!command.classes.empty()) {
    report.classes = file.emplace(command.classes).names();
  } else if (source.encoder() != nullptr) {
    report.classes = classifier.emplace(*source.encoder()).names();
    report.separator = classifier->separator();
    report.rest = std::ssize(report.classes) - 1;
  } else {
    throw usage_error("--ids needs --classes: without a tokenizer nothing is known of the tokens");
  }
  report.class_tokens.assign(report.classes.size(), 0);
  std::vector<classified_text> texts;
  checksum sum;
  std::int64_t read = 0;
  for (input_text text; source.next(text); read = text.index + 1) {
    const std::int64_t tokens = std::ssize(text.tokens.ids);
    texts.push_back({text.sequence(source.model().config),
                     file ? file->classes(text.index, tokens) : classifier->classify(text.tokens.ids)});
    for (const std::int32_t one : texts.back().classes) ++report.class_tokens[static_cast<std::size_t>(one)];
    for (const std::int32_t one : texts.back().classes) sum.add_text(report.classes[static_cast<std::size_t>(one)]);
    add_to(sum, text);
    report.texts.push_back(text.index);
  }
  report.settings["texts_checksum"] = sum.text();
  if (texts.empty()) throw file_error(fmt::format("{}: there are no texts", source.file()));
  if (file) file->check_texts(read);
  return texts;
}

nlohmann::ordered_json settings_of(const attention_command& command, const text_source& source,
                                   const sycl::device& device) {
  nlohmann::ordered_json settings = common_settings("attention", device);
  settings.update({{"model", command.input.model},
                   {"model_checksum", checksum_of_model(source.folder())},
                   {"projection", command.projection},
                   {"rollout", command.rollout}});
  return settings;
}

void run(const attention_command& command) {
  text_source source(command.input);
  const transformer_config& config = source.model().config;
  const std::optional<bool> rows = by_rows(command, config);
  attention_report report;
  report.model = command.input.model;
  report.layers = config.layers;
  report.heads = config.heads;
  report.value_size = config.value_size;
  const std::vector<classified_text> texts = read_texts(command, source, report);

  const sycl::device device = select_device(command.device);
  report.settings.update(settings_of(command, source, device));
  if (is_finished(place_of_attention(command.output), report.settings, command.rerun)) return;
  context ctx(device);
  const waiting_note note = note_of_first_use(ctx);
  const transformer<float> model = load_transformer<float>(ctx, source.folder());
  model_attention<float> attention(ctx, model, std::ssize(report.classes),
                                   {.by_rows = rows, .rollout = command.rollout});
  progress_bar progress(static_cast<double>(texts.size()), 0);
  report.numbers = attention.add(ctx, texts, [&](std::int64_t count) {
    progress.advance(static_cast<double>(count));
    progress.draw("attention");
  });
  progress.clear();
  report.by_rows = attention.is_by_rows();
  report.averages = attention.averages();
  report.rollout = attention.rollout_averages();
  write_attention(command.output, report);
  print_attention(report);
}

}  // namespace

void add_attention(CLI::App& app) {
  auto command = std::make_shared<attention_command>();
  CLI::App* attention =
      app.add_subcommand("attention", "Raw, effective and null attention of a model, between classes of tokens");
  add_text_input(*attention, command->input);
  attention->add_option("--output", command->output, "Folder to write")->required()->check(some_path());
  attention
      ->add_option(
          "--classes", command->classes,
          "A file with the classes of the tokens: line i has one name for each token of text i, special tokens "
          "included, separated by blanks (default: the model's start and separator tokens, periods and commas, "
          "other)")
      ->check(some_path());
  attention
      ->add_option("--projection", command->projection,
                   "Which null space: full (of T with all tokens), rows (row i with the tokens that it sees; causal "
                   "models) or auto (rows for causal models, full for others)")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "full", "rows"}));
  attention->add_flag("--rollout", command->rollout, "Also attention rollout, raw and effective");
  add_overwrite(*attention, command->rerun);
  attention->add_option("--device", command->device, device_help);
  attention->footer(
      "Effective attention is the part of attention that a head's output depends on; null attention is the rest.\n"
      "Layers and heads count from 1, texts from 0. Averages are per query: over the queries of a class in a text, "
      "then "
      "over\nthe texts; \"all\" is from all tokens.\n\n"
      "Writes into the folder\n"
      "  classes.csv     layer, head, from, to, raw, effective, null: mean attention between classes of tokens\n"
      "  heads.csv       text, tokens, layer, head, rank, pearson, raw_norm, effective_norm, null_norm\n"
      "  attention.json  the same averages, and of each head correlation, rank, entropy (in nats) and the share of "
      "attention\n                  that lies in the null space\n"
      "  attention.svg   correlation over the length; attention to each class by layer, raw, effective and null; to "
      "separators\n"
      "  rollout.csv     layer, from, to, raw, effective: with --rollout\n\n"
      "Examples:\n"
      "  nullscope attention --file reviews.txt --output results\n"
      "  nullscope attention --model mpnet --file pairs.tsv --text-column a --pair-column b --max-length 128 --output "
      "results\n"
      "  nullscope attention --file texts.txt --classes tags.txt --rollout --output results");
  attention->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
