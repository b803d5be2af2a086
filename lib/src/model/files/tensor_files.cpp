#include "lib/src/model/files/tensor_files.hpp"

#include <fmt/format.h>

#include <nullscope/core/errors.hpp>
#include <set>
#include <utility>

#include "lib/src/io/json_reader.hpp"

namespace nullscope::detail {
namespace {

namespace fs = std::filesystem;

constexpr const char* only_file = "model.safetensors";
constexpr const char* index_file = "model.safetensors.index.json";

/// The files that the index names, each once.
std::set<std::string> shards_of(const fs::path& index) {
  return read_json(index, [&](const json_reader& document) {
    const json_reader map = document.member("weight_map");
    if (!map.is_object()) throw file_error(fmt::format("{}: no weight_map", index.string()));
    std::set<std::string> names;
    for (const auto& [tensor, shard] : map.members()) {
      if (shard.is_string()) names.insert(shard.string());
    }
    for (const std::string& name : names) {
      if (fs::path(name).has_parent_path()) {
        throw file_error(fmt::format("{}: {} is not in the folder", index.string(), name));
      }
    }
    return names;
  });
}

}  // namespace

bool has_tensor_files(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / only_file, ignored) || fs::exists(folder / index_file, ignored);
}

tensor_files::tensor_files(const fs::path& folder) {
  if (!has_tensor_files(folder)) {
    throw file_error(fmt::format("{}: there is no {}{}", folder.string(), only_file,
                                 fs::exists(folder / "pytorch_model.bin")
                                     ? "; pytorch_model.bin is not read, save the model as safetensors"
                                     : ""));
  }
  if (fs::exists(folder / only_file)) {
    files_.emplace_back(folder / only_file);
    return;
  }
  for (const std::string& name : shards_of(folder / index_file)) files_.emplace_back(folder / name);
}

std::optional<tensor_files::found_tensor> tensor_files::find(std::initializer_list<std::string> names) const {
  for (const std::string& name : names) {
    for (const safetensors_file& file : files_) {
      if (const safetensors_entry* entry = file.find(name)) return found_tensor{&file, entry};
    }
  }
  return std::nullopt;
}

void tensor_files::bound(const transformer_config& config) const {
  constexpr std::int64_t tensors_per_layer = 8;  // four matrices and two norms, without biases
  std::int64_t tensors = 0, elements = 0;
  for (const safetensors_file& file : files_) {
    tensors += std::ssize(file.entries());
    for (const safetensors_entry& entry : file.entries()) {
      elements += std::ssize(entry.bytes) * 8 / bits_of(entry.type);
    }
  }
  const auto at_most = [](const char* member, std::int64_t value, std::int64_t most, const char* of) {
    if (value <= most) return;
    throw invalid_argument(
        fmt::format("transformer_config: {} is {}; the weights have {} for at most {}", member, value, of, most));
  };
  at_most("layers", config.layers, tensors / tensors_per_layer, "tensors");
  const std::pair<const char*, std::int64_t> extents[] = {
      {"width", config.width},
      {"heads", config.heads},
      {"key_size", config.key_size},
      {"value_size", config.value_size},
      {"feed_forward", config.feed_forward},
      {"vocabulary", config.vocabulary},
      {"segments", config.segments},
      {"classes", config.classes},
  };
  for (const auto& [member, value] : extents) at_most(member, value, elements, "elements");
  if (config.has_positions) at_most("positions", config.positions + config.first_position, elements, "elements");
}

}  // namespace nullscope::detail
