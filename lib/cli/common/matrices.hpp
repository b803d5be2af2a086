/// Matrices in files, as the commands take them: [batch, rows, columns], or [rows, columns] for a batch of one.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nullscope/core/errors.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/io/safetensors.hpp>
#include <string_view>

namespace nullscope::cli {

/// The tensor of that name. Throws invalid_argument unless it has 2 or 3 dimensions.
inline const safetensors_entry& matrices_at(const safetensors_file& file, std::string_view name) {
  const safetensors_entry& entry = file.at(name);
  if (entry.shape.size() != 2 && entry.shape.size() != 3) {
    throw invalid_argument(fmt::format("tensor \"{}\" has shape {}; expected [batch, rows, columns] or [rows, columns]",
                                       name, entry.shape));
  }
  return entry;
}

/// The matrices as a tensor (batch, rows, columns) on the context's device.
template <class T>
tensor<T> load_matrices(const context& ctx, const safetensors_file& file, const safetensors_entry& entry) {
  std::vector<std::int64_t> shape = entry.shape;
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  return tensor<T>(ctx, shape, file.read<T>(entry));
}

}  // namespace nullscope::cli
