#include <nullscope/rows.hpp>
#include <nullscope/tensor.hpp>

#include "support.hpp"
#include "team_shape.hpp"

namespace nullscope::test {
namespace {

using detail::team_shape;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// A batch of matrices on the device and on the host, with room between rows and matrices that must stay as it is.
struct layout {
  std::int64_t batch, rows, columns;
  std::int64_t column_stride = 1, row_gap = 0, batch_gap = 0;

  std::int64_t row_stride() const { return columns * column_stride + row_gap; }
  std::int64_t batch_stride() const { return rows * row_stride() + batch_gap; }
  std::int64_t size() const { return batch * batch_stride() + 1; }
  std::int64_t offset(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return b * batch_stride() + i * row_stride() + j * column_stride;
  }
  template <class T>
  view<T, 3> of(T* data) const {
    return {data, {batch, rows, columns}, {batch_stride(), row_stride(), column_stride}};
  }
};

const std::vector<layout> layouts{
    {1, 1, 1},     {1, 1, 2},      {2, 3, 7},       {1, 5, 15},           {3, 2, 16},           {1, 4, 17},
    {2, 3, 63},    {1, 2, 64},     {1, 3, 65},      {1, 2, 127},          {1, 2, 1000},         {2, 2, 1031},
    {1, 1, 20000}, {1, 300, 5},    {2, 3, 40, 2},   {2, 3, 40, 1, 5, 11}, {1, 4, 33, 3, 2, 0},  {0, 3, 4},
    {2, 0, 4},     {1, 64, 12, 1, 0, 0},
};

std::string describe(const layout& l) {
  return "batch " + std::to_string(l.batch) + ", rows " + std::to_string(l.rows) + ", columns " +
         std::to_string(l.columns) + ", column stride " + std::to_string(l.column_stride) + ", row gap " +
         std::to_string(l.row_gap);
}

class rows_test : public device_test {
 protected:
  ~rows_test() override { detail::force_team_shape({}); }

  /// Runs `check` for the team that the device gets, and for those that other kinds of device get.
  template <class Check>
  void with_all_teams(Check check) {
    check();
    for (const auto& [shape, name] : {std::pair{team_shape::vector, "vector"}, {team_shape::scalar, "scalar"},
                                      {team_shape::group_32, "group of 32"}, {team_shape::group_256, "group of 256"}}) {
      SCOPED_TRACE(name);
      detail::force_team_shape(shape);
      check();
    }
    detail::force_team_shape({});
  }

  template <class T, class Check>
  void with_all_layouts(Check check) {
    if (std::is_same_v<T, double> && !has_fp64()) return;
    with_all_teams([&] {
      for (const layout& l : layouts) {
        SCOPED_TRACE(describe(l));
        check(l);
      }
    });
  }

  /// The rows of a softmax in f64, and their log-sum-exp.
  template <class T>
  static std::pair<std::vector<double>, std::vector<double>> reference_softmax(const layout& l, const std::vector<T>& x) {
    std::vector<double> y, lse;
    for (std::int64_t b = 0; b < l.batch; ++b) {
      for (std::int64_t i = 0; i < l.rows; ++i) {
        double largest = -infinity, sum = 0;
        for (std::int64_t j = 0; j < l.columns; ++j) largest = std::max<double>(largest, x[l.offset(b, i, j)]);
        for (std::int64_t j = 0; j < l.columns; ++j) sum += std::exp(x[l.offset(b, i, j)] - largest);
        for (std::int64_t j = 0; j < l.columns; ++j) y.push_back(std::exp(x[l.offset(b, i, j)] - largest) / sum);
        lse.push_back(largest + std::log(sum));
      }
    }
    return {y, lse};
  }

  /// The elements of a view, in order; the gaps must still hold `rubbish`.
  template <class T>
  static std::vector<T> elements(const layout& l, const std::vector<T>& memory, T rubbish) {
    std::vector<T> result;
    std::vector<bool> is_element(memory.size());
    for (std::int64_t b = 0; b < l.batch; ++b) {
      for (std::int64_t i = 0; i < l.rows; ++i) {
        for (std::int64_t j = 0; j < l.columns; ++j) {
          result.push_back(memory[l.offset(b, i, j)]);
          is_element[l.offset(b, i, j)] = true;
        }
      }
    }
    for (std::size_t k = 0; k < memory.size(); ++k) {
      EXPECT_TRUE(is_element[k] || memory[k] == rubbish) << "overwritten between the rows, at " << k;
    }
    return result;
  }

  template <class T>
  void check_softmax(const layout& l, T spread) {
    std::vector<T> host = random_numbers<T>(l.size(), 7);
    for (T& number : host) number *= spread;
    const auto [expected, expected_lse] = reference_softmax(l, host);
    const T rubbish = 77;
    tensor<T> x(queue_, {l.size()}, host), y(queue_, {l.size()}, std::vector<T>(l.size(), rubbish));
    tensor<T> lse(queue_, {l.batch, l.rows});
    softmax(queue_, l.of(x.data()), l.of(y.data()), lse.template as<2>()).wait();
    EXPECT_LT(scaled_residual(elements(l, y.to_host(), rubbish), expected, 1), 4.0 + double(spread) / 8);
    EXPECT_LT(scaled_residual(lse.to_host(), expected_lse, 1), 4.0);
    softmax(queue_, l.of(x.data()), l.of(x.data())).wait();  // in place, and without log_sum_exp
    std::vector<T> in_place;
    for (std::int64_t b = 0; b < l.batch; ++b) {
      for (std::int64_t i = 0; i < l.rows; ++i) {
        for (std::int64_t j = 0; j < l.columns; ++j) in_place.push_back(x.to_host()[l.offset(b, i, j)]);
      }
    }
    EXPECT_LT(scaled_residual(in_place, expected, 1), 4.0 + double(spread) / 8);
  }
};

INSTANTIATE_TEST_SUITE_P(devices, rows_test, testing::ValuesIn(devices()), device_name);

TEST_P(rows_test, softmax_f32) {
  with_all_layouts<float>([&](const layout& l) { check_softmax<float>(l, 3); });
}

}  // namespace
}  // namespace nullscope::test
