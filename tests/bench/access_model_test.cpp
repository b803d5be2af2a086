/// The model of memory accesses on known cases, and on the index functions of the kernels for GPUs.
#include <gtest/gtest.h>

#include "bench/machine_code/access_model.hpp"
#include "kernels/attention/local.hpp"
#include "kernels/linalg/gemm_tiled.hpp"
#include "kernels/linalg/transpose.hpp"
#include "lib/src/attention/shapes.hpp"

namespace nullscope {
namespace {

using bench::sub_group_access;

template <class T>
constexpr std::int64_t bytes_of = static_cast<std::int64_t>(sizeof(T));

/// Conflicts of a sub-group of `lanes`, with indices in numbers of type T.
template <class T, class Index>
double conflicts(int lanes, Index index) {
  return sub_group_access(lanes, bytes_of<T>, [&](int id) { return bytes_of<T> * index(id); }).bank_conflicts();
}

template <class T, class Index>
double overhead(int lanes, Index index) {
  return sub_group_access(lanes, bytes_of<T>, [&](int id) { return bytes_of<T> * index(id); }).line_overhead();
}

TEST(access_model, strides_in_local_memory) {
  const auto stride = [](std::int64_t by) { return [by](int id) { return by * id; }; };
  EXPECT_EQ(conflicts<float>(32, stride(1)), 1);
  EXPECT_EQ(conflicts<float>(32, stride(2)), 2);
  EXPECT_EQ(conflicts<float>(32, stride(32)), 32);
  EXPECT_EQ(conflicts<float>(32, stride(33)), 1);
  EXPECT_EQ(conflicts<float>(16, stride(32)), 16);
  EXPECT_EQ(conflicts<float>(64, stride(1)), 1);   // two passes, as many as 64 words need
  EXPECT_EQ(conflicts<float>(64, stride(2)), 2);   // four
  EXPECT_EQ(conflicts<double>(32, stride(1)), 1);  // two passes
  EXPECT_EQ(conflicts<double>(32, stride(16)), 16);
  EXPECT_EQ(conflicts<double>(32, stride(17)), 1);
  EXPECT_EQ(conflicts<float>(32, [](int) { return std::int64_t{7}; }), 1);  // one word for all
}

TEST(access_model, lines_of_global_memory) {
  EXPECT_EQ(overhead<float>(32, [](int id) { return std::int64_t{id}; }), 1);
  EXPECT_EQ(overhead<float>(32, [](int id) { return std::int64_t{id} + 1; }), 2);  // off by one: two lines
  EXPECT_EQ(overhead<float>(32, [](int id) { return std::int64_t{32} * id; }), 32);
  EXPECT_EQ(overhead<double>(32, [](int id) { return std::int64_t{id}; }), 1);
  EXPECT_EQ(overhead<float>(16, [](int id) { return std::int64_t{id}; }), 1);
}

template <class T>
struct of_type : testing::Test {};
using types = testing::Types<float, double>;
TYPED_TEST_SUITE(of_type, types);

TYPED_TEST(of_type, transpose_has_no_conflicts) {
  using kernel = kernels::transpose_tiles<TypeParam, 1, 256, false>;
  const auto row_of = [](int id) { return id / kernel::local_side; };
  const auto lane_of = [](int id) { return id % kernel::local_side; };
  for (const int lanes : {16, 32}) {
    EXPECT_EQ(conflicts<TypeParam>(lanes, [&](int id) { return row_of(id) * kernel::local_stride + lane_of(id); }), 1);
    EXPECT_EQ(conflicts<TypeParam>(lanes, [&](int id) { return lane_of(id) * kernel::local_stride + row_of(id); }), 1);
  }
}

TYPED_TEST(of_type, gemm_tiled_has_none_in_its_loop) {
  using shape = kernels::gemm_shape<1, sizeof(TypeParam) == 8 ? 4 : 8, 4, 16, 16, 16>;
  const auto lane_of = [](int id) { return id % shape::item_lanes; };
  const auto row_of = [](int id) { return id / shape::item_lanes; };
  for (const int lanes : {16, 32, 64}) {
    EXPECT_EQ(conflicts<TypeParam>(lanes, [&](int id) { return row_of(id) * shape::rows * shape::a_stride; }), 1);
    EXPECT_EQ(conflicts<TypeParam>(lanes, [&](int id) { return lane_of(id); }), 1);
    // Staging, once per element: 2 at most. The gap that the loop needs shifts the second row of a by one bank.
    EXPECT_LE(conflicts<TypeParam>(lanes, [&](int id) { return row_of(id) * shape::a_stride + lane_of(id); }), 2);
    EXPECT_LE(conflicts<TypeParam>(lanes, [&](int id) { return lane_of(id) * shape::a_stride + row_of(id); }), 2);
    EXPECT_LE(conflicts<TypeParam>(lanes, [&](int id) { return row_of(id) * shape::panel_columns + lane_of(id); }), 2);
  }
}

/// What the workers of a group, 16 lanes each, read and write side by side.
TYPED_TEST(of_type, attention_has_none_in_its_products) {
  using shape = detail::attention_work_items;
  alignas(128) static std::byte room[1 << 16];
  for (const std::int64_t width : {32, 64, 80, 128}) {
    const kernels::attention_local<TypeParam, shape> memory(room, shape::workers, width, width);
    const auto index = [](const TypeParam* place) {
      return std::int64_t{place - reinterpret_cast<const TypeParam*>(room)};
    };
    const auto lane_of = [](int id) { return id % shape::lanes; };
    const auto worker_of = [](int id) { return id / shape::lanes; };
    for (const int lanes : {16, 32, 64}) {
      SCOPED_TRACE(testing::Message() << width << " wide, sub-groups of " << lanes);
      const auto score = [&](int id) {
        return index(memory.scores) + worker_of(id) * shape::rows * shape::score_stride;
      };
      EXPECT_EQ(conflicts<TypeParam>(lanes, [&](int id) { return index(memory.query_panel(worker_of(id))); }), 1);
      EXPECT_EQ(conflicts<TypeParam>(lanes, [&](int id) { return score(id) + lane_of(id); }), 1);
      // One weight for all lanes of a worker: no gap suits this, the line above, float and double at once.
      EXPECT_EQ(conflicts<TypeParam>(lanes, score), sizeof(TypeParam) == 8 ? lanes / 16 : lanes == 64 ? 2 : 1);
      EXPECT_EQ(
          conflicts<TypeParam>(lanes, [&](int id) { return index(memory.out_panel(worker_of(id))) + lane_of(id); }), 1);
      // The transposed weights of the backward pass: a tile of keys per worker.
      EXPECT_EQ(conflicts<TypeParam>(lanes, [&](int id) { return worker_of(id) * shape::rows; }), 1);
    }
  }
}

}  // namespace
}  // namespace nullscope
