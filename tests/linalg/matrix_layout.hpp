/// Batches of matrices in memory, with gaps between rows and matrices that a function must leave alone.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nullscope/core/view.hpp>
#include <string>
#include <vector>

namespace nullscope::test {

struct layout {
  std::int64_t batch, rows, columns;
  std::int64_t column_stride = 1, row_gap = 0, batch_gap = 0;

  std::int64_t row_stride() const { return columns * column_stride + row_gap; }
  std::int64_t batch_stride() const { return rows * row_stride() + batch_gap; }
  std::int64_t size() const { return batch * batch_stride() + 1; }
  std::size_t offset(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(b * batch_stride() + i * row_stride() + j * column_stride);
  }

  template <class T>
  view<T, 3> of(T* data) const {
    return {data, {batch, rows, columns}, {batch_stride(), row_stride(), column_stride}};
  }

  /// Calls visit(offset) for all elements, columns fastest.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) visit(offset(b, i, j));
      }
    }
  }

  /// Calls visit(elements of the row) for all rows, in long double, so that a reference for double has digits to spare.
  template <class T, class Visit>
  void for_each_row(const std::vector<T>& memory, Visit visit) const {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t i = 0; i < rows; ++i) {
        std::vector<long double> row;
        for (std::int64_t j = 0; j < columns; ++j) row.push_back(static_cast<long double>(memory[offset(b, i, j)]));
        visit(row);
      }
    }
  }

  /// The elements, in order. Everything between them must still be `rubbish`.
  template <class T>
  std::vector<T> elements(const std::vector<T>& memory, T rubbish) const {
    std::vector<T> result;
    std::vector<bool> is_element(memory.size());
    for_each([&](std::size_t at) {
      result.push_back(memory[at]);
      is_element[at] = true;
    });
    for (std::size_t at = 0; at < memory.size(); ++at) {
      EXPECT_TRUE(is_element[at] || memory[at] == rubbish) << "overwritten between the rows, at " << at;
    }
    return result;
  }

  std::string name() const {
    return fmt::format("({}, {}, {}), column stride {}, row gap {}, batch gap {}", batch, rows, columns, column_stride,
                       row_gap, batch_gap);
  }
};

/// Sizes around the widths of a vector and of a group, long rows, one row, no rows, gaps, columns that are not
/// neighbours.
inline const std::vector<layout> layouts{
    {1, 1, 1},     {1, 1, 2},   {2, 3, 7},     {1, 5, 15},           {3, 2, 16},       {1, 4, 17},
    {2, 3, 63},    {1, 2, 64},  {1, 3, 65},    {1, 2, 127},          {1, 2, 257},      {1, 2, 1000},
    {1, 1, 20000}, {1, 300, 5}, {2, 3, 40, 2}, {2, 3, 40, 1, 5, 11}, {1, 4, 33, 3, 2}, {0, 3, 4},
    {2, 0, 4},
};

}  // namespace nullscope::test
