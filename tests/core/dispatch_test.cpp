/// Also compiled alone without the layouts of CPUs, and without those of GPUs: it needs no device and nothing else of
/// the library.
#include "lib/src/core/dispatch.hpp"

#include <gtest/gtest.h>

#include <nullscope/core/errors.hpp>
#include <tuple>
#include <vector>

namespace nullscope::detail {
namespace {

lane_layout vectors(std::int64_t bytes, std::int64_t long_bytes) {
  lane_layout layout;
  layout.vector_bytes = bytes;
  layout.long_vector_bytes = long_bytes;
  layout.group_items = 1;
  return layout;
}

lane_layout work_items() { return {}; }

/// Calls `dispatch`, which must work where the build has the layouts, and otherwise say which it has instead.
template <class Dispatch>
void expect_served(bool has_layouts, Dispatch dispatch) {
  if (has_layouts) return dispatch();
  try {
    dispatch();
    ADD_FAILURE() << "no error";
  } catch (const unsupported_device& failure) {
    const std::string message = failure.what();
    const std::string has = has_cpu_layouts ? "only for vectors of 64 and 32 bytes" : "only for groups of work-items";
    EXPECT_NE(message.find(has), std::string::npos) << message;
    EXPECT_NE(message.find("NULLSCOPE_LAYOUTS"), std::string::npos) << message;
  }
}

TEST(dispatch, vectors_become_constants) {
  const auto bytes_of = [](std::int64_t bytes) { return dispatch_vectors(bytes, []<int Bytes>() { return Bytes; }); };
  expect_served(has_cpu_layouts, [&] { EXPECT_EQ(bytes_of(64), 64); });
  expect_served(has_cpu_layouts, [&] { EXPECT_EQ(bytes_of(32), 32); });
  expect_served(has_gpu_layouts, [&] { EXPECT_EQ(bytes_of(0), 0); });
  for (const std::int64_t bytes : {-1, 1, 16, 48, 128}) EXPECT_THROW(bytes_of(bytes), unsupported_device) << bytes;
}

TEST(dispatch, lanes_are_those_of_a_long_vector) {
  const auto expect_lanes = [](const lane_layout& layout, int floats, int doubles) {
    EXPECT_EQ(dispatch_lanes<float>(layout, []<int W>() { return W; }), floats);
    EXPECT_EQ(dispatch_lanes<double>(layout, []<int W>() { return W; }), doubles);
    EXPECT_EQ(lanes_of<float>(layout), floats);
    EXPECT_EQ(lanes_of<double>(layout), doubles);
  };
  expect_served(has_cpu_layouts, [&] { expect_lanes(vectors(64, 64), 16, 8); });
  expect_served(has_cpu_layouts, [&] { expect_lanes(vectors(32, 64), 16, 8); });
  expect_served(has_cpu_layouts, [&] { expect_lanes(vectors(32, 32), 8, 4); });
  expect_served(has_gpu_layouts, [&] { expect_lanes(work_items(), 1, 1); });
}

TEST(dispatch, rows_get_lanes_work_items_and_streaming) {
  using shape = std::tuple<int, int, bool>;
  const auto of_float = [](const row_shape& rows) {
    return dispatch_streaming_rows<float>(rows, []<int W, int Items, bool Streams>() {
      return shape{W, Items, Streams};
    });
  };
  expect_served(has_cpu_layouts, [&] { EXPECT_EQ(of_float({64, 1, false}), shape(16, 1, false)); });
  expect_served(has_cpu_layouts, [&] { EXPECT_EQ(of_float({64, 1, true}), shape(16, 1, true)); });
  expect_served(has_cpu_layouts, [&] { EXPECT_EQ(of_float({32, 1, true}), shape(8, 1, true)); });
  expect_served(has_gpu_layouts, [&] { EXPECT_EQ(of_float({0, 32, false}), shape(1, 32, false)); });
  expect_served(has_gpu_layouts, [&] { EXPECT_EQ(of_float({0, 256, false}), shape(1, 256, false)); });
  EXPECT_EQ(of_float({0, 1, false}), shape(1, 1, false)) << "on a CPU too, for strides";
  const auto plain = [](const row_shape& rows) {
    return dispatch_rows<double>(rows, []<int W, int Items>() { return std::pair{W, Items}; });
  };
  expect_served(has_cpu_layouts, [&] { EXPECT_EQ(plain({64, 1, true}), std::pair(8, 1)); });
  expect_served(has_gpu_layouts, [&] { EXPECT_EQ(plain({0, 32, false}), std::pair(1, 32)); });
}

template <int Id>
struct numbered {
  static constexpr int id = Id;
};

using shapes = shape_list<shape_for<64, numbered<1>>, shape_for<32, numbered<2>>, shape_for<0, numbered<3>>,
                          shape_for<0, numbered<4>>>;

/// The shape that is taken if those of `fitting` fit, and the ones that were asked about.
std::pair<int, std::vector<int>> chosen(const lane_layout& layout, const std::vector<int>& fitting) {
  std::vector<int> asked;
  const int id = dispatch_shape<shapes>(
      layout,
      [&]<class Shape>() {
        asked.push_back(Shape::id);
        return std::find(fitting.begin(), fitting.end(), Shape::id) != fitting.end();
      },
      []<class Shape>() { return Shape::id; });
  return {id, asked};
}

TEST(dispatch, takes_the_first_shape_that_suits_the_layout_and_fits) {
  using result = std::pair<int, std::vector<int>>;
  expect_served(has_cpu_layouts, [] { EXPECT_EQ(chosen(vectors(64, 64), {1, 2, 3}), result(1, {1})); });
  expect_served(has_gpu_layouts, [] { EXPECT_EQ(chosen(work_items(), {1, 2, 3}), result(3, {3})); });
  expect_served(has_gpu_layouts, [] {
    EXPECT_EQ(chosen(work_items(), {1, 2}), result(4, {3})) << "the last, unasked";
  });
  expect_served(has_cpu_layouts, [] { EXPECT_EQ(chosen(vectors(32, 64), {1, 2}).first, 2); });
  // What a CPU takes for want of local memory: narrower vectors, then, if the build has them, work-items.
  expect_served(has_cpu_layouts, [] { EXPECT_EQ(chosen(vectors(64, 64), {2, 3}).first, 2); });
  expect_served(has_cpu_layouts, [] { EXPECT_EQ(chosen(vectors(64, 64), {3}).first, has_gpu_layouts ? 3 : 2); });
  expect_served(has_cpu_layouts, [] { EXPECT_EQ(chosen(vectors(64, 64), {}).first, has_gpu_layouts ? 4 : 2); });
}

TEST(dispatch, refuses_a_layout_that_is_unknown_or_not_compiled) {
  EXPECT_EQ(is_compiled(vectors(64, 64)), has_cpu_layouts);
  EXPECT_EQ(is_compiled(vectors(32, 64)), has_cpu_layouts);
  EXPECT_EQ(is_compiled(vectors(32, 32)), has_cpu_layouts);
  EXPECT_EQ(is_compiled(work_items()), has_gpu_layouts);
  for (const lane_layout& odd : {vectors(16, 16), vectors(64, 128), vectors(0, 64), vectors(64, 0)}) {
    EXPECT_FALSE(is_compiled(odd));
    EXPECT_THROW(checked_layout(odd), unsupported_device);
    EXPECT_THROW(chosen(odd, {1, 2, 3, 4}), unsupported_device);
  }
  expect_served(has_cpu_layouts, [] { EXPECT_EQ(checked_layout(vectors(64, 64)), vectors(64, 64)); });
  expect_served(has_gpu_layouts, [] { EXPECT_EQ(checked_layout(work_items()), work_items()); });
}

}  // namespace
}  // namespace nullscope::detail
