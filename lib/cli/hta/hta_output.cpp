#include "lib/cli/hta/hta_output.hpp"

#include <fmt/format.h>

#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <nullscope/io/safetensors.hpp>

#include "lib/cli/hta/hta_report.hpp"
#include "lib/cli/hta/hta_tokens.hpp"

namespace nullscope::cli {
namespace {

void write_file(const hta_command& command, bool is_file, const std::vector<input_text>& texts,
                const std::vector<attribution>& results, const nlohmann::ordered_json& identity) {
  std::vector<std::vector<float>> numbers;
  numbers.reserve(3 * results.size());
  std::vector<safetensors_entry> entries;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const attribution& of = results[i];
    const std::string prefix = is_file ? fmt::format("{}/", texts[i].index) : "";
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
  write_safetensors(command.output, entries, metadata_of(identity));
}

std::string number_of_texts(std::size_t count) { return count == 1 ? "1 text" : fmt::format("{} texts", count); }

/// The tensors of each text in the file.
std::vector<attribution> read_results(const hta_command& command, bool is_file, const std::vector<input_text>& texts,
                                      const std::vector<std::int64_t>& layers) {
  const safetensors_file file(command.output);
  std::vector<attribution> results;
  for (const input_text& text : texts) {
    const std::string prefix = is_file ? fmt::format("{}/", text.index) : "";
    attribution& of = results.emplace_back();
    of.layers = layers;
    of.tokens = file.at(prefix + "contribution", {std::ssize(layers), any_extent, any_extent}).shape[1];
    of.contribution = file.read<double>(prefix + "contribution");
    of.norm = file.read<double>(prefix + "norm");
  }
  return results;
}

void write_report(const hta_command& command, const text_source& source, const std::vector<input_text>& texts,
                  const std::vector<attribution>& results, const nlohmann::ordered_json& identity) {
  begin_writing(place_of_hta_report(command.report));
  attribution_statistics statistics;
  heat_map_text example{results.front(), {}};
  for (std::size_t i = 0; i < results.size(); ++i) {
    const hta_tokens about = command.words ? describe_words(texts[i], source) : describe_tokens(texts[i], source);
    statistics.add(results[i], {.classes = about.classes, .tags = about.tags, .separator = about.separator});
    if (i == 0) example.tokens = about.labels;
  }
  write_hta_report(command.report,
                   fmt::format("Hidden Token Attribution: {}, {}", command.input.model, number_of_texts(texts.size())),
                   statistics, example);
  write_settings(place_of_hta_report(command.report).result, identity);
}

}  // namespace

void write_hta(const hta_command& command, const text_source& source, const std::vector<input_text>& texts,
               std::vector<attribution> results, const nlohmann::ordered_json& identity) {
  if (command.words) {
    for (std::size_t i = 0; i < results.size(); ++i) results[i] = aggregate_words(results[i], words_of(texts[i]));
  }
  write_file(command, source.is_file(), texts, results, identity);
  if (!command.report.empty()) write_report(command, source, texts, results, identity);
  if (command.quiet) return;
  fmt::print("{}: contributions of {}{}\n", command.output, number_of_texts(texts.size()),
             command.report.empty() ? "" : fmt::format("; report in {}", command.report));
}

void write_report_of_file(const hta_command& command, const text_source& source, const std::vector<input_text>& texts,
                          const nlohmann::ordered_json& identity) {
  const auto layers = identity.at("layers").get<std::vector<std::int64_t>>();
  write_report(command, source, texts, read_results(command, source.is_file(), texts, layers), identity);
  if (!command.quiet) fmt::print("report in {}\n", command.report);
}

output_place place_of_hta_report(const std::filesystem::path& folder) {
  output_place place{.result = settings_file(folder / "report")};
  for (const char* name : {"own.csv", "distance.csv", "classes.csv", "offset.csv", "first_token.csv", "report.svg",
                           "classes.svg", "tags.csv", "tags.svg", "heat_map.svg"}) {
    place.others.push_back(folder / name);
  }
  return place;
}

}  // namespace nullscope::cli
