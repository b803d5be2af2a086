#include "lib/src/linalg/joint_matrix_check.hpp"

#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <nullscope/core/tensor.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lib/src/core/kernel_runner.hpp"
#include "lib/src/linalg/gemm_joint_matrix_plan.hpp"

namespace nullscope::detail {
namespace {

// Two panels of two tiles in each direction, the last ones not full, for the largest tile.
constexpr std::int64_t test_m = 60, test_n = 50, test_k = 80;

/// Integers that differ along rows and columns and that bfloat16 holds.
bfloat16 test_number(std::int64_t row, std::int64_t column) {
  return bfloat16(static_cast<float>((5 * row + 3 * column + row * column) % 17 - 8));
}

std::vector<bfloat16> test_matrix(std::int64_t rows, std::int64_t columns) {
  std::vector<bfloat16> numbers;
  for (std::int64_t i = 0; i < rows * columns; ++i) numbers.push_back(test_number(i / columns, i % columns));
  return numbers;
}

std::vector<float> exact_product() {
  std::vector<float> product;
  for (std::int64_t i = 0; i < test_m * test_n; ++i) {
    float sum = 0;
    for (std::int64_t l = 0; l < test_k; ++l) {
      sum += static_cast<float>(test_number(i / test_n, l)) * static_cast<float>(test_number(l, i % test_n));
    }
    product.push_back(sum);
  }
  return product;
}

/// The properties with the tiles that are left when those that multiply wrongly are gone.
device_properties without_wrong_tiles(const context& ctx) {
  device_properties left = ctx.device();
  while (const auto tile = gemm_joint_matrix_tile(left)) {
    const bool is_right = multiplies_right(ctx, [&](operation& op, const gemm_call<bfloat16, float>& call) {
      const auto& [batch, m, n] = call.c.extent;
      gemm_joint_matrix(op, call, plan_gemm_joint_matrix(left, lane_layout::of(left), batch, m, n, call.a.extent[2]));
    });
    if (is_right) break;
    remove_tile(left, *tile);
  }
  return left;
}

}  // namespace

bool multiplies_right(const context& like, const product_way& multiply) {
  try {
    context ctx = sibling_of(like);  // the one that asks may have an operation open
    const tensor<bfloat16> a(ctx, {1, test_m, test_k}, test_matrix(test_m, test_k));
    const tensor<bfloat16> b(ctx, {1, test_k, test_n}, test_matrix(test_k, test_n));
    tensor<float> c(ctx, {1, test_m, test_n});
    operation op(ctx, "test of a matrix engine");
    multiply(op, {1, a, b, 0, c});
    op.submit_and_wait();
    std::vector<float> found(static_cast<std::size_t>(c.size()));
    ctx.queue().memcpy(found.data(), c.data(), found.size() * sizeof(float)).wait_and_throw();
    return found == exact_product();
  } catch (const std::exception&) {  // does not compile, or does not run
    return false;
  }
}

const device_properties& tested_properties(const context& ctx) {
  static std::mutex mutex;
  // By name too: a runner stands for another device. Outlives the runtime, on purpose.
  static auto* known = new std::map<std::pair<std::size_t, std::string>, device_properties>;
  if (ctx.device().bf16_tiles.empty()) return ctx.device();
  const std::lock_guard lock(mutex);
  const std::pair key(std::hash<sycl::device>{}(ctx.queue().get_device()), ctx.device().name);
  const auto entry = known->find(key);
  return entry != known->end() ? entry->second : known->emplace(key, without_wrong_tiles(ctx)).first->second;
}

}  // namespace nullscope::detail
