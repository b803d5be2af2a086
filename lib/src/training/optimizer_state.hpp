/// What the optimizer keeps for a flat array of parameters.
#pragma once

#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/training/training.hpp>

namespace nullscope::detail {

template <class T>
struct optimizer_state {
  tensor<T> gradient;       ///< (n)
  tensor<T> first, second;  ///< (n): Adam's running means, zero at the start
  tensor<T> clip;           ///< (2): norm and scale of the gradient

  optimizer_state(context& ctx, std::int64_t size);

  /// Step `step`, counted from 1, of `parameters`, which are those from number `begin` on, at the learning rate of the
  /// options' schedule.
  void update(context& ctx, const view<T, 1>& parameters, std::int64_t begin, const training_options& options,
              std::int64_t step);
};

}  // namespace nullscope::detail
