/// Where the parameters of a transformer stand in the files of other people's models.
#pragma once

#include <cstdint>
#include <nullscope/model/transformer.hpp>
#include <string>
#include <vector>

namespace nullscope::detail {

/// Rows [first_row, first_row + rows) of a parameter are the tensor of that name, or its transpose (GPT-2's weights are
/// (in, out)). A vector is one row after the other, too.
struct tensor_place {
  std::string parameter, tensor;
  std::int64_t first_row = 0, rows = 0;  ///< of the parameter
  bool transposed = false;
};

/// Every part of every parameter of a model of this family, with the names that its tensors have. Families other than
/// "nullscope" may be stored with or without `base_prefix` in front of those names.
std::vector<tensor_place> tensor_places(const std::string& family, const transformer_config& config);

/// What `transformers` puts before the names of a model with a head: "bert.", for instance.
std::string base_prefix(const std::string& family);

}  // namespace nullscope::detail
