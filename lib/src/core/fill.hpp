/// Arrays filled with one value.
#pragma once

#include <cstdint>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/core/view.hpp>

namespace nullscope::detail {

/// x, densely packed, = value, as a step of an operation.
template <class T, int Rank>
void fill_value(operation& op, const view<T, Rank>& x, T value, step_order order = step_order::next) {
  if (x.empty()) return;
  op.run([=](sycl::queue& queue,
             const events& before) { return queue.fill(x.data, value, static_cast<std::size_t>(x.size()), before); },
         order);
}

template <class T, int Rank>
void fill_zero(operation& op, const view<T, Rank>& x, step_order order = step_order::next) {
  fill_value(op, x, T(0), order);
}

template <class T>
void fill_zero(operation& op, tensor<T>& x, step_order order = step_order::next) {
  fill_zero(op, contiguous(x.data(), x.size()), order);
}

/// A tensor of zeros; waits for them.
template <class T>
tensor<T> zeros(const context& ctx, typename tensor<T>::shape_type shape) {
  tensor<T> result(ctx, std::move(shape));
  if (result.size() > 0) {
    sycl::queue queue = ctx.queue();
    queue.fill(result.data(), T(0), static_cast<std::size_t>(result.size())).wait_and_throw();
  }
  return result;
}

}  // namespace nullscope::detail
