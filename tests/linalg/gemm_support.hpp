/// What the tests of gemm share: products of every shape on every path, checked element by element.
#pragma once

#include <nullscope/linalg/gemm.hpp>

#include "lib/src/core/dispatch.hpp"
#include "lib/src/linalg/gemm_paths.hpp"
#include "lib/src/vendor/gemm.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {

/// Which implementation multiplies: the public paths, and the tiled kernel in each of its layouts.
enum class way { automatic, vendor, own, vectors_512, vectors_256, work_items };

/// How a matrix is stored: dense rows or columns, either with a gap after each, or without any unit stride.
enum class layout { rows, columns, rows_with_gap, columns_with_gap, strided };

struct problem {
  std::int64_t batch, m, n, k;
  layout a = layout::rows, b = layout::rows, c = layout::rows;
  double alpha = 1, beta = 0;
  bool one_a = false, one_b = false;  // the same matrix for the whole batch
};

inline std::ostream& operator<<(std::ostream& out, const problem& p) {
  return out << "batch " << p.batch << ", m " << p.m << ", n " << p.n << ", k " << p.k << ", layouts "
             << static_cast<int>(p.a) << static_cast<int>(p.b) << static_cast<int>(p.c) << ", alpha " << p.alpha
             << ", beta " << p.beta << (p.one_a ? ", one a" : "") << (p.one_b ? ", one b" : "");
}

/// A batch of matrices on the host, with what lies between and after them.
template <class T>
struct host_batch {
  std::vector<T> memory;
  std::int64_t extent[3], stride[3] = {};

  host_batch(std::int64_t batch, std::int64_t rows, std::int64_t columns, layout order, bool is_one, T gap)
      : extent{batch, rows, columns} {
    switch (order) {
      case layout::rows: stride[1] = columns, stride[2] = 1; break;
      case layout::columns: stride[1] = 1, stride[2] = rows; break;
      case layout::rows_with_gap: stride[1] = columns + 3, stride[2] = 1; break;
      case layout::columns_with_gap: stride[1] = 1, stride[2] = rows + 5; break;
      case layout::strided: stride[1] = 2 * columns + 1, stride[2] = 2; break;
    }
    const std::int64_t matrix = std::max(rows * stride[1], columns * stride[2]) + 7;
    stride[0] = is_one ? 0 : matrix;
    memory.assign(static_cast<std::size_t>(matrix * (is_one ? 1 : batch) + 64), gap);
  }

  T& at(std::int64_t i, std::int64_t r, std::int64_t c) {
    return memory[static_cast<std::size_t>(i * stride[0] + r * stride[1] + c * stride[2])];
  }

  void randomise(std::uint64_t seed) {
    const std::vector<double> numbers = random_numbers<double>(extent[0] * extent[1] * extent[2], seed);
    std::size_t next = 0;
    for (std::int64_t i = 0; i < extent[0]; ++i) {
      for (std::int64_t r = 0; r < extent[1]; ++r) {
        for (std::int64_t c = 0; c < extent[2]; ++c) at(i, r, c) = T(static_cast<float>(numbers[next++]));
      }
    }
  }

  template <class Element>
  view<Element, 3> on(Element* data) const {
    return {data, {extent[0], extent[1], extent[2]}, {stride[0], stride[1], stride[2]}};
  }
};

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

class gemm_test : public device_test {
 protected:
  context& context_of(way by) {
    switch (by) {
      case way::vectors_512: return vectors_512_;
      case way::vectors_256: return vectors_256_;
      case way::work_items: return work_items_;
      default: return ctx_;
    }
  }

  template <class In, class T>
  sycl::event multiply_by(way by, const gemm_operands<In>& operands, view<T, 3> c, double alpha = 1, double beta = 0) {
    const gemm_path path = by == way::automatic ? gemm_path::automatic
                           : by == way::vendor  ? gemm_path::vendor
                                                : gemm_path::own;
    return gemm(context_of(by), operands, c, {alpha, beta, path});
  }

  /// Multiplies random matrices, with NaN around the factors and, if beta is 0, in c. Each element must be as close to
  /// the exact one as the worst order of summation allows; everything between and after the matrices of c stays.
  template <class In, class T>
  void check(way by, const problem& p) {
    SCOPED_TRACE(testing::Message() << p << ", way " << static_cast<int>(by) << ", " << sizeof(In) << " bytes in, "
                                    << sizeof(T) << " out");
    host_batch<In> a(p.batch, p.m, p.k, p.a, p.one_a, In(static_cast<float>(not_a_number)));
    host_batch<In> b(p.batch, p.k, p.n, p.b, p.one_b, In(static_cast<float>(not_a_number)));
    host_batch<T> c(p.batch, p.m, p.n, p.c, false, T(12345));
    a.randomise(1);
    b.randomise(2);
    c.randomise(3);
    const host_batch<T> before = c;
    if (p.beta == 0) {
      for (T& x : c.memory) x = x == T(12345) ? x : T(not_a_number);
    }
    tensor<In> a_memory(queue_, {std::ssize(a.memory)}, a.memory), b_memory(queue_, {std::ssize(b.memory)}, b.memory);
    tensor<T> c_memory(queue_, {std::ssize(c.memory)}, c.memory);
    const auto run = [&] {
      multiply_by<In, T>(by, {a.on(a_memory.data()), b.on(b_memory.data())}, c.on(c_memory.data()), p.alpha, p.beta)
          .wait_and_throw();
      return c_memory.to_host();
    };
    host_batch<T> got = before, expected = before;
    got.memory = run();
    double worst = 0;
    for (std::int64_t i = 0; i < p.batch; ++i) {
      for (std::int64_t r = 0; r < p.m; ++r) {
        for (std::int64_t s = 0; s < p.n; ++s) {
          long double sum = 0, size = 0;
          for (std::int64_t t = 0; t < p.k; ++t) {
            const long double term = static_cast<long double>(static_cast<double>(a.at(i, r, t))) *
                                     static_cast<long double>(static_cast<double>(b.at(i, t, s)));
            sum += term;
            size += std::abs(term);
          }
          const long double old = p.beta == 0 ? 0.0L : static_cast<long double>(expected.at(i, r, s));
          const long double exact = static_cast<long double>(p.alpha) * sum + static_cast<long double>(p.beta) * old;
          const long double allowed =
              static_cast<long double>(std::numeric_limits<T>::epsilon()) * static_cast<long double>(p.k + 4) *
              (std::abs(static_cast<long double>(p.alpha)) * size + std::abs(static_cast<long double>(p.beta) * old));
          const long double error = std::abs(static_cast<long double>(got.at(i, r, s)) - exact);
          const double ratio = allowed > 0 ? static_cast<double>(error / allowed) : (error == 0 ? 0 : infinity);
          worst = ratio <= worst ? worst : ratio;  // NaN counts
          got.at(i, r, s) = expected.at(i, r, s) = T(0);
        }
      }
    }
    EXPECT_LE(worst, 1) << "largest error, relative to the bound of any order of summation";
    EXPECT_EQ(got.memory, expected.memory) << "something outside of c was written";
    if (p.beta == 0) {
      const std::vector<T> again = run();
      got.memory = run();
      EXPECT_EQ(again, got.memory) << "not the same bits again";
    }
  }

  template <class In, class T>
  void check_ways(const problem& p) {
    for (const way by : {way::vectors_512, way::vectors_256, way::work_items}) check<In, T>(by, p);
    check<In, T>(way::automatic, p);
    check<In, T>(way::own, p);
  }

  void check_types(const problem& p) {
    check_ways<float, float>(p);
    if (has_fp64()) check_ways<double, double>(p);
    check_ways<bfloat16, float>(p);
  }

  bool has_vendor() const { return detail::gemm_library_of(ctx_) != detail::gemm_library::none; }

 private:
  /// Without matrix engine, in this layout, or in the device's own if this build has it not.
  context context_with(lane_layout layout) const {
    if (!detail::is_compiled(layout)) layout = ctx_.layout();
    layout.matrix_engine = false;
    return {queue_, layout};
  }

  context vectors_512_ = context_with(lane_layout::vectors(ctx_.device(), 64));
  context vectors_256_ = context_with(lane_layout::vectors(ctx_.device(), 32));
  context work_items_ = context_with(lane_layout::work_items(ctx_.device()));
};

}  // namespace nullscope::test
