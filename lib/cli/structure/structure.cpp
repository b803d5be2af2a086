/// nullscope structure: the patterns and the subspace that a task gives to attention.
#include <fmt/format.h>

#include <algorithm>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/model_states.hpp>
#include <nullscope/structure/model_structure.hpp>
#include <set>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/checksum.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/common/text_input.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/cli/common/waiting_note.hpp"
#include "lib/cli/structure/structure_output.hpp"

namespace nullscope::cli {
namespace {

struct structure_command {
  text_input_options input;
  std::string output, device, other_lengths = "cut", empty = "zeros";
  std::int64_t length = 0, representatives = 100, distances = 16;
  double cut = 0.4, factor = 0, tolerance = 0.01;
  std::uint64_t seed = 1;
  bool effective = false;
  rerun_options rerun;
};

struct chosen_text {
  token_batch::sequence sequence;
  std::int64_t index;  ///< in the file
};

/// The texts that fit the length, as --other-lengths says, and their checksum.
std::vector<chosen_text> read_texts(const structure_command& command, text_source& source, checksum& sum) {
  std::vector<chosen_text> texts;
  std::int64_t shorter = 0, all = 0;
  for (input_text text; source.next(text); ++all) {
    const bool is_short = std::ssize(text.tokens.ids) < command.length;
    if (is_short && command.other_lengths == "refuse") {
      throw invalid_argument(fmt::format("{}: the text has {} tokens, fewer than {}", text.origin,
                                         text.tokens.ids.size(), command.length));
    }
    shorter += is_short;
    if (is_short && command.other_lengths == "cut") continue;
    add_to(sum, text);
    texts.push_back({text.sequence(source.model().config), text.index});
  }
  if (texts.empty()) {
    throw file_error(fmt::format("{}: no text has {} tokens (see --length and --other-lengths)", command.input.file,
                                 command.length));
  }
  if (shorter > 0) {
    fmt::print(stderr, "nullscope: {} of {} texts have fewer than {} tokens and are {}\n", shorter, all, command.length,
               command.other_lengths == "cut" ? "left out" : "padded");
  }
  return texts;
}

/// Calls use(first, sequences) for batches of texts that do not cross any of the stops.
template <class Use>
void for_batches(const std::vector<chosen_text>& texts, const std::set<std::size_t>& stops, const char* what, Use use) {
  constexpr std::size_t together = 8;
  progress_bar progress(static_cast<double>(texts.size()), 0);
  for (std::size_t first = 0; first < texts.size();) {
    const auto stop = stops.upper_bound(first);
    const std::size_t end = std::min({first + together, texts.size(), stop == stops.end() ? texts.size() : *stop});
    std::vector<token_batch::sequence> sequences;
    for (std::size_t i = first; i < end; ++i) sequences.push_back(texts[i].sequence);
    use(first, sequences);
    progress.advance(static_cast<double>(end - first));
    progress.draw(what);
    first = end;
  }
}

/// The representatives come first: the members nearest to the centroids of k-means over the mean hidden states.
std::size_t order_by_representatives(context& ctx, const transformer<float>& model, const structure_command& command,
                                     std::vector<chosen_text>& texts, std::vector<cluster_row>& clusters) {
  const std::size_t wanted = static_cast<std::size_t>(command.representatives);
  if (wanted == 0 || wanted >= texts.size()) return texts.size();
  std::vector<float> embeddings;
  for_batches(texts, {}, "embeddings", [&](std::size_t, const std::vector<token_batch::sequence>& sequences) {
    for (const model_states<float>& one : read_states(ctx, model, sequences, {.pool = pooling::mean})) {
      embeddings.insert(embeddings.end(), one.embedding.begin(), one.embedding.end());
    }
  });
  const tensor<float> x(ctx, {std::ssize(texts), model.config().width}, embeddings);
  k_means_result found;
  for (std::int64_t k = 1;; k = std::min(2 * k, command.representatives)) {
    found = k_means(ctx, x, {.clusters = k, .seed = command.seed});
    clusters.push_back({k, found.within, found.between});
    if (k == command.representatives) break;
  }
  const std::set<std::int64_t> chosen(found.representatives.begin(), found.representatives.end());
  std::vector<chosen_text> ordered;
  for (const bool is_first : {true, false}) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (chosen.contains(static_cast<std::int64_t>(i)) == is_first) ordered.push_back(texts[i]);
    }
  }
  texts = std::move(ordered);
  return chosen.size() - (chosen.contains(-1) ? 1 : 0);
}

nlohmann::ordered_json settings_of(const structure_command& command, const text_source& source, const checksum& texts,
                                   const sycl::device& device) {
  nlohmann::ordered_json settings = common_settings("structure", device);
  settings.update({{"model", command.input.model},
                   {"model_checksum", checksum_of_model(source.folder())},
                   {"texts_checksum", texts.text()},
                   {"length", command.length},
                   {"other_lengths", command.other_lengths},
                   {"cut", command.cut},
                   {"cut_factor", command.factor},
                   {"empty_rows", command.empty},
                   {"representatives", command.representatives},
                   {"effective", command.effective},
                   {"tolerance", command.tolerance},
                   {"distances", command.distances},
                   {"seed", command.seed}});
  return settings;
}

void run(const structure_command& command) {
  text_input_options input = command.input;
  input.max_length = command.length;
  input.too_long = command.other_lengths == "refuse" ? "refuse" : "truncate";
  input.warns = false;
  text_source source(input);
  const transformer_config& config = source.model().config;
  if (command.length > config.positions) {
    throw usage_error(fmt::format("--length {}: the model reads at most {} tokens", command.length, config.positions));
  }
  checksum sum;
  std::vector<chosen_text> texts = read_texts(command, source, sum);
  structure_report report;
  const sycl::device device = select_device(command.device);
  report.settings = settings_of(command, source, sum, device);
  if (is_finished(place_of_structure(command.output), report.settings, command.rerun)) return;
  context ctx(device);
  const waiting_note note = note_of_first_use(ctx);
  const transformer<float> model = load_transformer<float>(ctx, source.folder());

  report.model = input.model;
  report.layers = config.layers;
  report.heads = config.heads;
  report.tokens = command.length;
  report.cut = command.cut;
  report.tolerance = command.tolerance;
  const std::size_t representatives = order_by_representatives(ctx, model, command, texts, report.clusters);
  std::set<std::size_t> stops{representatives};
  for (std::size_t i = 1; i < texts.size(); i *= 2) stops.insert(i);
  model_structure<float> structure(ctx, model, command.length, {.effective = command.effective});
  for_batches(texts, stops, "structure", [&](std::size_t first, const std::vector<token_batch::sequence>& sequences) {
    structure.add(ctx, sequences, {.attention = first < representatives});
    const std::size_t end = first + sequences.size();
    if (end != texts.size() && (!stops.contains(end) || (end & (end - 1)) != 0)) return;
    const task_subspace<float>& subspace = structure.subspace();
    report.dimensions.push_back({subspace.samples(), subspace.basis(ctx).dimension,
                                 subspace.basis(ctx, {.relative = command.tolerance}).dimension});
  });

  const attention_structure<float> w = structure.attention().extract(
      ctx, {.threshold = command.cut,
            .factor = command.factor,
            .empty = command.empty == "uniform" ? empty_rows::uniform : empty_rows::zeros});
  const tensor<float> mean = structure.attention().mean(ctx);
  const task_subspace_basis<float> r = structure.subspace().basis(ctx, {.relative = command.tolerance});
  report.inputs = structure.attention().inputs();
  report.w = w.w.to_host();
  report.mean = mean.to_host();
  report.spectrum = r.s.to_host();
  report.emptied = w.emptied;
  texts.resize(std::min({texts.size(), representatives, static_cast<std::size_t>(command.distances)}));
  for_batches(texts, {}, "distances", [&](std::size_t first, const std::vector<token_batch::sequence>& sequences) {
    for (auto& one : structure.distances(ctx, sequences, mean, w.w)) report.distances.push_back(std::move(one));
    for (auto& one : structure.switched_off_dimensions(ctx, sequences, r.basis)) {
      report.switched_off.push_back(std::move(one));
    }
    for (std::size_t i = 0; i < sequences.size(); ++i) report.texts.push_back(texts[first + i].index);
  });
  write_structure(command.output, report);
  print_structure(report);
}

}  // namespace

void add_structure(CLI::App& app) {
  auto command = std::make_shared<structure_command>();
  CLI::App* structure = app.add_subcommand("structure", "The structure of attention: patterns W and the subspace R");
  structure->add_option("--model", command->input.model, "Name of a model (see nullscope models) or a model folder")
      ->capture_default_str()
      ->check(some_path());
  structure->add_option("--file", command->input.file, "A file with one text per line, or a table (.csv, .tsv)")
      ->required()
      ->check(some_path());
  structure->add_option("--text-column", command->input.text_column, "The column of the table that holds the texts");
  structure->add_option("--length", command->length, "Tokens of each text, special tokens included")
      ->required()
      ->check(positive_integer());
  structure->add_option("--output", command->output, "Folder to write")->required()->check(some_path());
  structure
      ->add_option(
          "--other-lengths", command->other_lengths,
          "Texts of another length: cut (longer ones are cut, shorter ones skipped), pad (longer ones are cut, "
          "shorter ones padded with zeros) or refuse")
      ->capture_default_str()
      ->check(CLI::IsMember({"cut", "pad", "refuse"}));
  structure->add_option("--cut", command->cut, "Threshold: entries of the mean attention below it are cut from W")
      ->capture_default_str()
      ->check(not_negative_number());
  structure->add_option("--cut-factor", command->factor, "Factor for entries below --cut, from 0 to below 1")
      ->capture_default_str()
      ->check(number_validator<double>("number from 0 to below 1", "FACTOR", [](double x) { return x >= 0 && x < 1; }));
  structure
      ->add_option("--empty-rows", command->empty, "What becomes of rows of W without any entry left: zeros or uniform")
      ->capture_default_str()
      ->check(CLI::IsMember({"zeros", "uniform"}));
  structure
      ->add_option("--representatives", command->representatives,
                   "Texts for W, chosen by k-means over their mean hidden states; 0: all. R always uses all texts")
      ->capture_default_str()
      ->check(natural_number());
  structure->add_flag("--effective", command->effective, "Effective instead of raw attention");
  structure
      ->add_option("--tolerance", command->tolerance,
                   "A second tolerance for R, relative to the largest singular value")
      ->capture_default_str()
      ->check(positive_number());
  structure->add_option("--distances", command->distances, "Number of representatives for which distances are computed")
      ->capture_default_str()
      ->check(positive_integer());
  structure->add_option("--seed", command->seed, "Seed of k-means")->capture_default_str()->check(seed_number());
  add_overwrite(*structure, command->rerun);
  structure->add_option("--device", command->device, device_help);
  structure->footer(
      "Writes into the folder\n"
      "  structure.safetensors  w and mean [L, h, S, S], spectrum [L, h, S], dim_r [L, h]\n"
      "  structure.csv          layer, head, quantity, index, value: dim_r and dim_r_at_tolerance over the number of "
      "texts;\n"
      "                         plain_distance and structure_distance of text number index from the mean attention, "
      "and\n"
      "                         switched_off, the dimension of R intersected with ker(T'); emptied_rows of W\n"
      "  structure.svg, w.svg   curves, and W of all heads as heat maps\n"
      "  clusters.csv           sums of squares over the number of clusters, if there are more texts than "
      "representatives\n\n"
      "Examples:\n"
      "  nullscope structure --file texts.txt --length 32 --output results\n"
      "  nullscope structure --file reviews.csv --text-column text --length 128 --cut 0.2 --effective --output "
      "results");
  structure->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
