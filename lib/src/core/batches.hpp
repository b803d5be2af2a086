/// Matrices as a batch, for the functions on tensors.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/tensor.hpp>
#include <string_view>
#include <vector>

namespace nullscope::detail {

/// (batch, rows, columns), or (rows, columns) as a batch of one.
template <class T>
view<const T, 3> matrices_of(std::string_view function, std::string_view operand, const tensor<T>& x) {
  if (x.shape().size() == 3 || x.shape().size() == 2) return x;
  throw invalid_argument(
      fmt::format("{}: {} {} is neither a matrix nor a batch of matrices", function, operand, x.shape()));
}

}  // namespace nullscope::detail
