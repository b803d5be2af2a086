/// Memory set to zero as a step of an operation.
#pragma once

#include <cstdint>
#include <nullscope/core/operation.hpp>

namespace nullscope::detail {

template <class T>
void fill_zero(operation& op, T* data, std::int64_t count, step_order order = step_order::next) {
  if (count == 0) return;
  op.run([=](sycl::queue& queue,
             const events& before) { return queue.fill(data, T(0), static_cast<std::size_t>(count), before); },
         order);
}

}  // namespace nullscope::detail
