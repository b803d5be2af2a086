#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/view.hpp>

#include "lib/src/core/checks.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

TEST(view, indexes_by_strides_and_slices_and_transposes) {
  std::vector<int> memory(2 * 3 * 4);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<int>(i);
  const auto x = contiguous(memory.data(), 2, 3, 4);
  EXPECT_EQ(x.size(), 24);
  EXPECT_EQ(x(1, 2, 3), 23);
  EXPECT_EQ(transposed(x)(1, 3, 2), 23);
  EXPECT_EQ(transposed(x).extent[1], 4);
  const auto rows = slice(x, 1, 1, 2);
  EXPECT_EQ(rows.extent[1], 2);
  EXPECT_EQ(rows(0, 0, 0), 4);
  const view<const int, 3> reading = rows;
  EXPECT_EQ(reading(1, 1, 1), 21);
}

template <class T, int Rank>
std::vector<std::int64_t> extents(const view<T, Rank>& x) {
  return {x.extent, x.extent + Rank};
}

using shape = std::vector<std::int64_t>;

class view_of_24_numbers : public testing::Test {
 protected:
  view_of_24_numbers() {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<int>(i);
  }

  std::vector<int> memory_ = std::vector<int>(24);
  view<int, 3> x_ = contiguous(memory_.data(), 2, 3, 4);
};

TEST_F(view_of_24_numbers, select_takes_one_index_of_any_dimension) {
  EXPECT_EQ(extents(select(x_, 0, 1)), (shape{3, 4}));
  EXPECT_EQ(select(x_, 0, 1)(2, 3), x_(1, 2, 3));
  EXPECT_EQ(extents(select(x_, 1, 2)), (shape{2, 4}));
  EXPECT_EQ(select(x_, 1, 2)(1, 3), x_(1, 2, 3));
  EXPECT_EQ(extents(select(x_, 2, 3)), (shape{2, 3}));
  EXPECT_EQ(select(x_, 2, 3)(1, 2), x_(1, 2, 3));
  EXPECT_EQ(select(transposed(x_), 2, 1)(1, 3), x_(1, 1, 3));
}

TEST_F(view_of_24_numbers, add_dimension_puts_an_extent_of_1_anywhere) {
  EXPECT_EQ(extents(add_dimension(x_, 0)), (shape{1, 2, 3, 4}));
  EXPECT_EQ(extents(add_dimension(x_, 1)), (shape{2, 1, 3, 4}));
  EXPECT_EQ(extents(add_dimension(x_, 3)), (shape{2, 3, 4, 1}));
  EXPECT_EQ(add_dimension(x_, 0)(0, 1, 2, 3), 23);
  EXPECT_EQ(add_dimension(x_, 1)(1, 0, 2, 3), 23);
  EXPECT_EQ(add_dimension(x_, 3)(1, 2, 3, 0), 23);
  EXPECT_EQ(extents(select(add_dimension(x_, 2), 2, 0)), extents(x_)) << "select undoes it";
}

TEST_F(view_of_24_numbers, merge_makes_two_dimensions_one_where_the_strides_allow_it) {
  ASSERT_TRUE(can_merge(x_, 0));
  EXPECT_EQ(extents(merge(x_, 0)), (shape{6, 4}));
  EXPECT_EQ(merge(x_, 0)(5, 3), x_(1, 2, 3));
  EXPECT_EQ(merge(x_, 0)(3, 1), x_(1, 0, 1));
  ASSERT_TRUE(can_merge(x_, 1));
  EXPECT_EQ(extents(merge(x_, 1)), (shape{2, 12}));
  EXPECT_EQ(merge(x_, 1)(1, 11), x_(1, 2, 3));

  EXPECT_FALSE(can_merge(transposed(x_), 0));
  EXPECT_FALSE(can_merge(transposed(x_), 1));
  const auto two_rows = slice(x_, 1, 0, 2);
  EXPECT_FALSE(can_merge(two_rows, 0)) << "a gap after the rows of each matrix";
  EXPECT_TRUE(can_merge(two_rows, 1));

  const auto columns = slice(x_, 2, 0, 2);
  ASSERT_TRUE(can_merge(columns, 0)) << "gaps inside the rows do not matter";
  EXPECT_EQ(merge(columns, 0)(4, 1), x_(1, 1, 1));
}

TEST_F(view_of_24_numbers, merge_takes_the_stride_of_the_dimension_that_is_longer_than_1) {
  const auto one_row = slice(x_, 1, 2, 1);  // (2, 1, 4)
  ASSERT_TRUE(can_merge(one_row, 0));
  EXPECT_EQ(extents(merge(one_row, 0)), (shape{2, 4}));
  EXPECT_EQ(merge(one_row, 0)(1, 3), x_(1, 2, 3));
  const auto one_matrix = slice(x_, 0, 1, 1);  // (1, 3, 4)
  ASSERT_TRUE(can_merge(one_matrix, 0));
  EXPECT_EQ(merge(one_matrix, 0)(2, 3), x_(1, 2, 3));
}

TEST_F(view_of_24_numbers, converts_to_const_and_to_more_dimensions) {
  const view<const int, 3> reading = x_;
  EXPECT_EQ(reading(1, 2, 3), 23);
  const view<int, 5> more = x_;
  EXPECT_EQ(extents(more), (shape{1, 1, 2, 3, 4}));
  EXPECT_EQ(more(0, 0, 1, 2, 3), 23);
  const view<const int, 4> both = x_;
  EXPECT_EQ(extents(both), (shape{1, 2, 3, 4}));
  EXPECT_EQ(both(0, 1, 2, 3), 23);
  static_assert(!std::is_convertible_v<view<const int, 3>, view<int, 3>>, "what is const is not written");
  static_assert(!std::is_convertible_v<view<int, 3>, view<int, 2>>, "no dimension is lost");
  static_assert(!std::is_convertible_v<view<int, 3>, view<float, 3>>);
}

TEST(view, is_absent_without_data_and_extents_only) {
  int number = 0;
  EXPECT_TRUE((view<int, 2>{}.is_absent()));
  EXPECT_FALSE((view<int, 2>{&number, {0, 0}, {}}.is_absent()));
  EXPECT_FALSE((view<int, 2>{nullptr, {0, 3}, {}}.is_absent()));
  const view<const int, 4> more = view<int, 2>{};
  EXPECT_TRUE(more.is_absent()) << "also with more dimensions";
  const view<const int, 4> empty = view<int, 2>{nullptr, {0, 3}, {3, 1}};
  EXPECT_EQ(extents(empty), (shape{1, 1, 0, 3}));
}

TEST(view, of_no_elements_is_empty) {
  EXPECT_TRUE((contiguous(static_cast<float*>(nullptr), 3, 0, 2)).empty());
  EXPECT_NO_THROW(check::input("f", "x", contiguous(static_cast<float*>(nullptr), 3, 0, 2)));
}

TEST(check, refuses_bad_views_and_names_function_operand_and_shape) {
  float memory[64];
  const auto message = [&](auto x, bool is_output) {
    return message_of<invalid_argument>([&] { is_output ? check::output("f", "x", x) : check::input("f", "x", x); });
  };
  const view<float, 2> good{memory, {4, 8}, {8, 1}};
  EXPECT_NO_THROW(check::output("f", "x", good));
  view<float, 2> bad = good;
  bad.extent[0] = -4;
  EXPECT_EQ(message(bad, false), "f: x (-4, 8) with strides (8, 1) has a negative extent");
  bad = good;
  bad.stride[1] = -1;
  EXPECT_EQ(message(bad, false), "f: x (4, 8) with strides (8, -1) has a negative stride");
  bad = good;
  bad.data = nullptr;
  EXPECT_EQ(message(bad, false), "f: x (4, 8) with strides (8, 1) has a null pointer");
  bad = good;
  bad.stride[0] = 0;
  EXPECT_NO_THROW(check::input("f", "x", bad)) << "an input may repeat";
  EXPECT_EQ(message(bad, true), "f: x (4, 8) with strides (0, 1) has strides that overlap");
  bad.stride[0] = 7;
  EXPECT_EQ(message(bad, true), "f: x (4, 8) with strides (7, 1) has strides that overlap");
}

TEST(check, refuses_views_whose_size_or_reach_exceeds_64_bits) {
  float memory[4];
  constexpr std::int64_t large = std::int64_t{1} << 32, far = std::int64_t{1} << 60;
  const auto message = [&](const view<float, 2>& x) {
    return message_of<invalid_argument>([&] { check::input("f", "x", x); });
  };
  EXPECT_EQ(message({memory, {large, large}, {0, 0}}),  // 2^64 elements, which wrap round to none
            "f: x (4294967296, 4294967296) with strides (0, 0) is too large for 64-bit sizes");
  EXPECT_NE(message({memory, {large / 2, large / 4}, {0, 0}}).find("too large"), std::string::npos) << "2^63 bytes";
  EXPECT_NE(message({memory, {large, 2}, {large, 1}}).find("too large"), std::string::npos);
  EXPECT_NE(message({memory, {2, 2}, {far, far}}).find("too large"), std::string::npos);
  EXPECT_NO_THROW(check::input("f", "x", view<float, 2>{memory, {large, large / 16}, {0, 0}}));
  EXPECT_NO_THROW(check::input("f", "x", view<float, 3>{nullptr, {large, large, 0}, {0, 0, 1}}));
  EXPECT_FALSE((view<float, 2>{memory, {large, large}, {0, 0}}.empty()));
}

TEST(check, accepts_outputs_that_interleave_without_overlap) {
  float memory[64];
  EXPECT_NO_THROW(check::output("f", "x", transposed(contiguous(memory, 4, 8))));
  EXPECT_NO_THROW(check::output("f", "x", view<float, 3>{memory, {2, 1, 3}, {3, 0, 1}}));
}

TEST(bfloat16, rounds_to_nearest_even_and_keeps_nan_and_infinity) {
  const auto bits = [](float x) { return bfloat16(x).bits; };
  EXPECT_EQ(static_cast<float>(bfloat16(1.5f)), 1.5f);
  EXPECT_EQ(bits(std::bit_cast<float>(0x3f808000u)), 0x3f80) << "tie goes to even";
  EXPECT_EQ(bits(std::bit_cast<float>(0x3f818000u)), 0x3f82) << "tie goes to even";
  EXPECT_EQ(bits(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(bits(std::numeric_limits<float>::max()), 0x7f80) << "rounds up to infinity";
  EXPECT_EQ(bits(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace nullscope::test
