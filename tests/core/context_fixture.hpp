/// What the tests of contexts and operations share: an operation that goes through the workspace.
#pragma once

#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <vector>

#include "tests/core/support.hpp"
#include "tests/core/test_kernels.hpp"

namespace nullscope {

#ifndef NULLSCOPE_SINGLE_SOURCE
std::vector<kernel_header> test_kernel_headers();  // written by the build
#endif

namespace test {

constexpr int slow = 50'000'000, fast = 1;  // rounds

inline bool is_complete(const sycl::event& event) {
  return event.get_info<sycl::info::event::command_execution_status>() == sycl::info::event_command_status::complete;
}

class context_fixture : public device_test {
 protected:
  static constexpr std::int64_t count = 4;
  const sycl::nd_range<1> range_{count, count};
  context out_of_order_{sycl::queue(GetParam())};

  static void SetUpTestSuite() {
#ifndef NULLSCOPE_SINGLE_SOURCE
    add_kernel_headers(test_kernel_headers());
#endif
  }

  /// out[i] = 3 (first + i) + 1, by way of the workspace.
  sycl::event through_workspace(context& ctx, int* out, int first, int rounds = fast,
                                std::int64_t workspace_count = count) {
    operation op(ctx, "through_workspace");
    int* numbers = op.take<int>(workspace_count);
    op.launch(range_, 0, count_from{numbers, first});
    op.launch(range_, 0, slow_increment{numbers, rounds});
    op.launch(range_, 0, copy_numbers{numbers, out});
    return op.submit();
  }

  static std::vector<int> expected(int first) {
    std::vector<int> numbers;
    for (int i = 0; i < count; ++i) numbers.push_back(3 * (first + i) + 1);
    return numbers;
  }

  tensor<int> rubbish() { return tensor<int>(queue_, {count}, rubbish_); }
  const std::vector<int> rubbish_ = std::vector<int>(count, -77);
};

}  // namespace test
}  // namespace nullscope
