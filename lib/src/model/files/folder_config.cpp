#include "lib/src/model/files/folder_config.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <nullscope/core/errors.hpp>

#include "lib/src/io/json_reader.hpp"
#include "lib/src/io/safetensors_format.hpp"
#include "lib/src/model/files/config_reader.hpp"
#include "lib/src/model/files/family_config.hpp"
#include "lib/src/model/files/own_config.hpp"
#include "lib/src/model/files/tensor_files.hpp"

namespace nullscope {
namespace {

using nlohmann::json;

model_description description_of(const detail::json_reader& document) {
  const detail::config_reader reader(document);
  model_description result;
  result.family = reader.get<std::string>("model_type");
  if (result.family == "nullscope") {
    read_own_config(reader, result);
  } else if (!read_family_config(reader, result)) {
    reader.fail(fmt::format("model_type {} is not supported (bert, distilbert, mpnet, gpt2, nullscope)",
                            detail::in_quotes(result.family)));
  }
  return result;
}

/// Throws invalid_argument if JSON cannot hold one of the labels.
std::string text_of(const json& config) {
  try {
    return config.dump(2) + "\n";
  } catch (const json::exception&) {
    throw invalid_argument("save_transformer: a label is not UTF-8");
  }
}

}  // namespace

model_description describe_model(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw file_error(fmt::format("{}: there is no such folder", folder.string()));
  }
  if (!std::filesystem::exists(path, ignored)) {
    throw file_error(fmt::format("{}: not a model folder, it has no config.json", folder.string()));
  }
  model_description result = detail::read_json(path, description_of);
  try {
    result.config.validate();
    if (detail::has_tensor_files(folder)) detail::tensor_files(folder).bound(result.config);
  } catch (const invalid_argument& failure) {
    throw file_error(fmt::format("{}: {}", path.string(), failure.what()));
  }
  return result;
}

std::string detail::own_config(const model_description& description) {
  json document;
  write_own_config(description, document);
  return text_of(document);
}

std::string detail::family_config(const model_description& description) {
  json document;
  return write_family_config(description, document) ? text_of(document) : std::string();
}

}  // namespace nullscope
