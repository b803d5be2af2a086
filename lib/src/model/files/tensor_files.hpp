/// The safetensors files of a model folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nullscope/io/safetensors.hpp>
#include <nullscope/model/transformer.hpp>
#include <optional>
#include <string>
#include <vector>

namespace nullscope::detail {

/// The tensors of a model in one file or, with an index, in several.
class tensor_files {
 public:
  /// Throws file_error if there are none, or one of them is damaged.
  explicit tensor_files(const std::filesystem::path& folder);

  struct found_tensor {
    const safetensors_file* file;
    const safetensors_entry* entry;
  };

  /// The tensor of one of the names, in this order.
  std::optional<found_tensor> find(std::initializer_list<std::string> names) const;

  /// Throws invalid_argument, naming the member, if a number of the config is larger than a model with these tensors
  /// can have: more layers than tensors for them, or an extent above the number of elements.
  void bound(const transformer_config& config) const;

 private:
  std::vector<safetensors_file> files_;
};

/// Whether the folder has weights that tensor_files would open.
bool has_tensor_files(const std::filesystem::path& folder);

}  // namespace nullscope::detail
