#include <fmt/format.h>

#include <nullscope/gemm.hpp>
#include <nullscope/launch.hpp>

#include "gemm_joint_matrix_plan.hpp"
#include "gemm_paths.hpp"
#include "support.hpp"

namespace nullscope::test {
namespace {

/// Who multiplies: the public paths, and the tiled kernel in each of its forms.
enum class way { automatic, onemkl, own, vectors_512, vectors_256, work_items };

/// How a matrix lies in memory: dense rows or columns, either with a gap behind each, or no unit stride at all.
enum class layout { rows, columns, rows_with_gap, columns_with_gap, strided };

struct problem {
  std::int64_t batch, m, n, k;
  layout a = layout::rows, b = layout::rows, c = layout::rows;
  double alpha = 1, beta = 0;
  bool one_a = false, one_b = false;  // the same matrix for the whole batch
};

std::ostream& operator<<(std::ostream& out, const problem& p) {
  return out << "batch " << p.batch << ", m " << p.m << ", n " << p.n << ", k " << p.k << ", layouts "
             << static_cast<int>(p.a) << static_cast<int>(p.b) << static_cast<int>(p.c) << ", alpha " << p.alpha
             << ", beta " << p.beta << (p.one_a ? ", one a" : "") << (p.one_b ? ", one b" : "");
}

/// A batch of matrices on the host, and what lies between and behind them.
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
  template <class In, class T>
  sycl::event multiply_by(way by, T alpha, view<const In, 3> a, view<const In, 3> b, T beta, view<T, 3> c) {
    if (by == way::automatic || by == way::onemkl || by == way::own) {
      const gemm_options options{by == way::onemkl ? gemm_path::onemkl
                                 : by == way::own  ? gemm_path::own
                                                   : gemm_path::automatic};
      if constexpr (std::is_same_v<In, bfloat16>) {
        scratchpad_ = tensor<std::byte>(queue_, {gemm_scratchpad_size(queue_, a, b, c, options)});
        return gemm(queue_, alpha, a, b, beta, c, scratchpad(), {}, options);
      } else {
        return gemm(queue_, alpha, a, b, beta, c, {}, options);
      }
    }
    const auto lanes = by == way::vectors_512   ? detail::gemm_lanes::vectors_512
                       : by == way::vectors_256 ? detail::gemm_lanes::vectors_256
                                                : detail::gemm_lanes::work_items;
    return detail::gemm_tiled(queue_, detail::gemm_call<In, T>{alpha, a, b, beta, c}, lanes, {});
  }

  /// Multiplies random matrices, with NaN around the factors and, if beta is 0, in c. Each element must be as near to
  /// the exact one as the worst order of summation allows; everything between and behind the matrices of c stays.
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
      multiply_by<In, T>(by, T(p.alpha), a.on(a_memory.data()), b.on(b_memory.data()), T(p.beta), c.on(c_memory.data()))
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

  std::span<std::byte> scratchpad() { return {scratchpad_.data(), static_cast<std::size_t>(scratchpad_.size())}; }
  tensor<std::byte> scratchpad_;

  bool has_onemkl() const { return detail::onemkl_serves(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(devices, gemm_test, testing::ValuesIn(devices()), device_name);

TEST_P(gemm_test, multiplies_matrices_of_every_small_size) {
  std::mt19937 generator(7);
  const auto size = [&] { return static_cast<std::int64_t>(generator() % 40 + 1); };
  check_types({1, 1, 1, 1});
  check_types({1, 1, 40, 1});
  check_types({1, 40, 1, 3});
  for (int i = 0; i < 20; ++i) check_types({1 + i % 3, size(), size(), size()});
}

TEST_P(gemm_test, multiplies_matrices_larger_than_every_block) {
  check_types({1, 257, 129, 513});
  check_types({1, 450, 100, 40});
  check_types({1, 31, 700, 300});
}

TEST_P(gemm_test, takes_every_combination_of_layouts) {
  const layout all[] = {layout::rows, layout::columns, layout::rows_with_gap, layout::columns_with_gap,
                        layout::strided};
  for (const layout a : all) {
    for (const layout b : all) {
      for (const layout c : all) check_ways<float, float>({2, 41, 53, 37, a, b, c, 1.5, -0.5});
    }
  }
  for (const layout order : all) {
    check_types({2, 70, 67, 65, order, layout::rows, layout::rows});
    check_types({2, 70, 67, 65, layout::rows, order, layout::rows});
    check_types({2, 70, 67, 65, layout::rows, layout::rows, order, 1, 2});
  }
}

TEST_P(gemm_test, scales_by_alpha_and_beta) {
  for (const double alpha : {0.0, 1.0, -2.5}) {
    for (const double beta : {0.0, 1.0, 0.5}) {
      check_types({1, 20, 50, 30, layout::rows, layout::rows, layout::rows, alpha, beta});
      check_types({1, 20, 50, 300, layout::rows, layout::rows, layout::rows_with_gap, alpha, beta});
    }
  }
}

TEST_P(gemm_test, repeats_one_matrix_for_the_whole_batch) {
  for (const bool one_a : {true, false}) {
    problem p{5, 17, 33, 19};
    p.one_a = one_a;
    p.one_b = !one_a;
    check_types(p);
    p.a = p.b = layout::columns;
    check_types(p);
  }
  tensor<float> a(queue_, {1, 2, 2}, std::vector<float>{1, 2, 3, 4});
  tensor<float> b(queue_, {3, 2, 1}, std::vector<float>{1, 0, 0, 1, 1, 1}), c(queue_, {3, 2, 1});
  gemm(queue_, 1, a.as<3>(), b.as<3>(), 0, c.as<3>()).wait();
  EXPECT_EQ(c.to_host(), (std::vector<float>{1, 3, 2, 4, 3, 7}));
}

TEST_P(gemm_test, agrees_on_every_public_path) {
  for (const problem& p : {problem{1, 64, 96, 128}, problem{3, 33, 18, 65, layout::columns, layout::columns_with_gap},
                           problem{2, 40, 21, 7, layout::rows, layout::columns, layout::columns, 2, 1}}) {
    check<float, float>(way::own, p);
    check<bfloat16, float>(way::own, p);
    if (has_fp64()) check<double, double>(way::own, p);
    if (!has_onemkl()) continue;
    check<float, float>(way::onemkl, p);
    check<bfloat16, float>(way::onemkl, p);
    if (has_fp64()) check<double, double>(way::onemkl, p);
  }
}

TEST_P(gemm_test, lets_nan_and_infinity_spread_as_in_the_formula) {
  const std::int64_t m = 21, n = 40, k = 300;
  for (const way by : {way::automatic, way::vectors_512, way::vectors_256, way::work_items}) {
    std::vector<float> a(static_cast<std::size_t>(m * k), 1), b(static_cast<std::size_t>(k * n), 1);
    a[3 * k + 299] = static_cast<float>(not_a_number);  // row 3 is NaN
    a[7 * k + 5] = static_cast<float>(infinity);        // row 7 is infinite
    b[5 * n + 2] = 0;                                   // but infinity times 0 is NaN
    b[9 * n + 39] = static_cast<float>(-infinity);      // column 39: with row 7 infinity - infinity
    tensor<float> da(queue_, {1, m, k}, a), db(queue_, {1, k, n}, b), dc(queue_, {1, m, n});
    multiply_by<float, float>(by, 1, da.as<3>(), db.as<3>(), 0, dc.as<3>()).wait();
    const std::vector<float> c = dc.to_host();
    for (std::int64_t r = 0; r < m; ++r) {
      for (std::int64_t s = 0; s < n; ++s) {
        const float x = c[static_cast<std::size_t>(r * n + s)];
        SCOPED_TRACE(testing::Message() << "row " << r << ", column " << s << ", way " << static_cast<int>(by));
        if (r == 3 || (r == 7 && (s == 2 || s == 39))) {
          EXPECT_TRUE(std::isnan(x));
        } else if (r == 7) {
          EXPECT_EQ(x, static_cast<float>(infinity));
        } else {
          EXPECT_EQ(x, s == 39 ? static_cast<float>(-infinity) : static_cast<float>(s == 2 ? k - 1 : k));
        }
      }
    }
  }
}

TEST_P(gemm_test, does_not_read_the_factors_for_alpha_0_and_gives_beta_c_for_k_0) {
  tensor<float> factor(queue_, {1, 2, 2}, std::vector<float>(4, static_cast<float>(not_a_number)));
  for (const gemm_path path : {gemm_path::automatic, gemm_path::own}) {
    tensor<float> c(queue_, {1, 2, 2}, std::vector<float>{1, 2, 3, 4});
    gemm(queue_, 0, factor.as<3>(), factor.as<3>(), 2, c.as<3>(), {}, {path}).wait();
    EXPECT_EQ(c.to_host(), (std::vector<float>{2, 4, 6, 8}));
    const auto empty = [](std::int64_t rows, std::int64_t columns) {
      return contiguous<const float>(nullptr, 1, rows, columns);
    };
    gemm(queue_, 1, empty(2, 0), empty(0, 2), 0.5, c.as<3>(), {}, {path}).wait();
    EXPECT_EQ(c.to_host(), (std::vector<float>{1, 2, 3, 4}));
    gemm(queue_, 1, empty(2, 0), empty(0, 2), 0, c.as<3>(), {}, {path}).wait();
    EXPECT_EQ(c.to_host(), std::vector<float>(4, 0));
  }
}

TEST_P(gemm_test, does_nothing_for_an_empty_product) {
  const auto empty = [](std::int64_t batch, std::int64_t rows, std::int64_t columns) {
    return contiguous<double>(nullptr, batch, rows, columns);
  };
  if (!has_fp64()) GTEST_SKIP();
  gemm(queue_, 1, empty(0, 2, 3), empty(0, 3, 4), 0, empty(0, 2, 4)).wait();
  tensor<double> x(queue_, {1, 3, 4});
  gemm(queue_, 1, empty(1, 0, 3), x.as<3>(), 0, empty(1, 0, 4)).wait();
  gemm(queue_, 1, transposed(x.as<3>()), empty(1, 3, 0), 0, empty(1, 4, 0)).wait();
}

TEST_P(gemm_test, honours_dependencies_on_an_out_of_order_queue) {
  sycl::queue out_of_order(GetParam());
  const std::int64_t n = 700;
  // Slow products of ones before quick ones on a corner of their result: x -> n in every element, then c = n^2 + ...
  for (const gemm_path path : {gemm_path::automatic, gemm_path::own}) {
    tensor<float> ones(queue_, {1, n, n}, std::vector<float>(static_cast<std::size_t>(n * n), 1));
    tensor<float> x(queue_, {1, n, n}, std::vector<float>(static_cast<std::size_t>(n * n), 0)), c(queue_, {1, 4, 4});
    const auto corner = slice(slice(x.as<3>(), 1, n - 4, 4), 2, n - 4, 4);
    const view<const float, 3> four = slice(slice(ones.as<3>(), 1, 0, 4), 2, 0, 4);
    sycl::event last;
    for (int i = 0; i < 5; ++i) {
      const sycl::event slow = gemm(out_of_order, 1, ones.as<3>(), ones.as<3>(), 1, x.as<3>(), {last}, {path});
      last = gemm(out_of_order, 1, corner, four, i == 0 ? 0 : 1, c.as<3>(), {slow}, {path});
    }
    gemm(out_of_order, 1, contiguous<const float>(nullptr, 0, 1, 1), contiguous<const float>(nullptr, 0, 1, 1), 0,
         contiguous<float>(nullptr, 0, 1, 1), {last}, {path})
        .wait();  // an empty product waits too
    EXPECT_EQ(c.to_host(), std::vector<float>(16, 4 * static_cast<float>(n) * (1 + 2 + 3 + 4 + 5)));
  }
}

TEST_P(gemm_test, reaches_beyond_2_to_the_31_elements) {
  const std::int64_t far = (std::int64_t{1} << 31) + 64, bytes = (far + 256) * static_cast<std::int64_t>(sizeof(float));
  if (properties(GetParam()).max_allocation_bytes < bytes) GTEST_SKIP() << "the device has not " << bytes << " bytes";
  tensor<float> memory(queue_, {far + 256});  // on a CPU only the pages that are touched become real
  const std::vector<float> row0{1, 2}, row1{3, 4};
  float* data = memory.data();
  queue_.copy(row0.data(), data, 2).wait();
  queue_.copy(row1.data(), data + far, 2).wait();
  for (const way by : {way::automatic, way::vectors_512, way::work_items}) {
    view<float, 3> a{data, {1, 2, 2}, {0, far, 1}}, c{data + 16, {1, 2, 2}, {0, far, 1}};
    multiply_by<float, float>(by, 1, a, transposed(a), 0, c).wait();
    std::vector<float> got(4);
    queue_.copy(data + 16, got.data(), 2).wait();
    queue_.copy(data + 16 + far, got.data() + 2, 2).wait();
    EXPECT_EQ(got, (std::vector<float>{5, 11, 11, 25}));
    c = {data + 32, {2, 2, 1}, {far, 1, 1}};  // a far batch
    const view<const float, 3> column{data, {2, 2, 1}, {far, 1, 1}}, one{data, {2, 1, 1}, {0, 1, 1}};
    multiply_by<float, float>(by, 1, column, one, 0, c).wait();
    queue_.copy(data + 32, got.data(), 2).wait();
    queue_.copy(data + 32 + far, got.data() + 2, 2).wait();
    EXPECT_EQ(got, (std::vector<float>{1, 2, 3, 4}));
  }
}

TEST_P(gemm_test, says_which_operand_does_not_fit) {
  tensor<float> x(queue_, {1000});
  const auto matrices = [&](std::int64_t batch, std::int64_t rows, std::int64_t columns) {
    return contiguous(x.data(), batch, rows, columns);
  };
  const auto message = [&](view<const float, 3> a, view<const float, 3> b, view<float, 3> c) {
    return message_of<invalid_argument>([&] { gemm(queue_, 1, a, b, 0, c); });
  };
  EXPECT_EQ(message(matrices(2, 3, 4), matrices(2, 5, 6), matrices(2, 3, 6)),
            "gemm: dimension 2 of a (2, 3, 4) with strides (12, 4, 1) differs from dimension 1 of b (2, 5, 6) with "
            "strides (30, 6, 1)");
  EXPECT_NE(message(matrices(2, 2, 4), matrices(2, 4, 6), matrices(2, 3, 6)).find("dimension 1 of a"),
            std::string::npos);
  EXPECT_NE(message(matrices(2, 3, 4), matrices(2, 4, 5), matrices(2, 3, 6)).find("dimension 2 of b"),
            std::string::npos);
  EXPECT_NE(message(matrices(3, 3, 4), matrices(2, 4, 6), matrices(2, 3, 6)).find("dimension 0 of a"),
            std::string::npos);
  EXPECT_NE(message(matrices(2, 3, 4), matrices(3, 4, 6), matrices(2, 3, 6)).find("dimension 0 of b"),
            std::string::npos);
  view<float, 3> c = matrices(2, 3, 6);
  c.stride[0] = 0;
  EXPECT_NE(
      message(matrices(2, 3, 4), matrices(2, 4, 6), c).find("c (2, 3, 6) with strides (0, 6, 1) has strides that"),
      std::string::npos);
  EXPECT_NE(message(contiguous<const float>(nullptr, 2, 3, 4), matrices(2, 4, 6), matrices(2, 3, 6)).find("null"),
            std::string::npos);
  view<float, 3> b = matrices(2, 4, 6);
  b.stride[2] = -1;
  EXPECT_NE(message(matrices(2, 3, 4), b, matrices(2, 3, 6)).find("negative stride"), std::string::npos);
}

TEST_P(gemm_test, says_when_onemkl_cannot_take_the_operands) {
  tensor<float> x(queue_, {1000});
  const auto call = [&] {
    view<const float, 3> a = contiguous(x.data(), 1, 3, 4);
    a.stride[1] = 8, a.stride[2] = 2;
    gemm(queue_, 1, a, contiguous(x.data(), 1, 4, 6), 0, contiguous(x.data() + 500, 1, 3, 6), {}, {gemm_path::onemkl});
  };
  if (has_onemkl()) {
    EXPECT_NE(message_of<invalid_argument>(call).find("a (1, 3, 4) with strides (12, 8, 2)"), std::string::npos);
  } else {
    EXPECT_NE(message_of<unsupported_device>(call).find("oneMKL does not serve"), std::string::npos);
  }
}

TEST_P(gemm_test, asks_for_the_scratchpad_that_a_matrix_engine_needs) {
  tensor<bfloat16> x(queue_, {1000}, std::vector<bfloat16>(1000, bfloat16(1.0f)));
  tensor<float> c(queue_, {2, 3, 5});
  const auto a = contiguous<const bfloat16>(x.data(), 2, 3, 4), b = contiguous<const bfloat16>(x.data(), 2, 4, 5);
  const gemm_options own{gemm_path::own};
  const std::int64_t size = gemm_scratchpad_size(queue_, a, b, c.as<3>(), own);
  EXPECT_EQ(size > 0, detail::gemm_joint_matrix_serves(properties(GetParam())));
  const auto without_memory = [](auto x) { return x.data = nullptr, x; };
  EXPECT_EQ(gemm_scratchpad_size(queue_, without_memory(a), without_memory(b), without_memory(c.as<3>()), own), size);
  EXPECT_EQ(gemm_scratchpad_size(queue_, contiguous<const bfloat16>(nullptr, 2, 3, 0),
                                 contiguous<const bfloat16>(nullptr, 2, 0, 5), c.as<3>(), own),
            0);
  EXPECT_NE(
      message_of<invalid_argument>([&] { gemm_scratchpad_size(queue_, a, a, c.as<3>(), own); }).find("of b (2, 3"),
      std::string::npos);
  if (size == 0) return;
  tensor<std::byte> memory(queue_, {size});
  const auto run = [&](std::int64_t bytes) {
    gemm(queue_, 1, a, b, 0, c.as<3>(), {memory.data(), static_cast<std::size_t>(bytes)}, {}, own).wait();
  };
  EXPECT_EQ(message_of<invalid_argument>([&] { run(size - 1); }),
            fmt::format("gemm: the scratchpad holds {} elements, {} are needed", size - 1, size));
  run(size);
  EXPECT_EQ(c.to_host(), std::vector<float>(30, 4));
}

TEST_P(gemm_test, multiplies_tensors) {
  tensor<float> a(queue_, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}),
      b(queue_, {3, 1}, std::vector<float>{1, 0, -1});
  const tensor<float> c = multiply(queue_, a, b);
  EXPECT_EQ(c.shape(), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(c.to_host(), (std::vector<float>{-2, -2}));
  tensor<bfloat16> one(queue_, {2, 1, 1}, std::vector<bfloat16>{bfloat16(2.0f), bfloat16(3.0f)});
  tensor<bfloat16> row(queue_, {1, 2}, std::vector<bfloat16>{bfloat16(1.0f), bfloat16(4.0f)});
  const tensor<float> batch = multiply(queue_, one, row);
  EXPECT_EQ(batch.shape(), (std::vector<std::int64_t>{2, 1, 2}));
  EXPECT_EQ(batch.to_host(), (std::vector<float>{2, 8, 3, 12}));
  tensor<float> vector(queue_, {3});
  EXPECT_NE(message_of<invalid_argument>([&] { multiply(queue_, a, vector); }).find("b has shape [3]"),
            std::string::npos);
}

TEST(plan_gemm, fits_local_memory_and_keeps_all_compute_units_busy) {
  for (const std::int64_t units : {1, 2, 7, 64}) {
    for (const std::int64_t batch : {1, 3, 100}) {
      for (const std::int64_t rows : {1, 2, 25, 26, 128, 1000}) {
        for (const std::int64_t columns : {1, 3, 11, 32, 500}) {
          const detail::gemm_plan plan = detail::plan_gemm({batch, rows, columns, 25, 8, 48}, units);
          SCOPED_TRACE(testing::Message() << units << " units, " << batch << " x " << rows << " x " << columns);
          EXPECT_TRUE(plan.row_blocks >= 1 && plan.row_blocks <= rows && plan.column_blocks >= 1);
          EXPECT_LE(plan.column_blocks, columns);
          EXPECT_LE((rows + plan.row_blocks - 1) / plan.row_blocks, 25);
          const std::int64_t groups = batch * plan.row_blocks * plan.column_blocks;
          if (batch * rows * columns >= 16 * units) {
            const std::int64_t rounds = (groups + units - 1) / units;
            const std::int64_t tiles = ((rows + plan.row_blocks - 1) / plan.row_blocks) *
                                       ((columns + plan.column_blocks - 1) / plan.column_blocks);
            EXPECT_GT(static_cast<double>(batch * rows * columns), 0.5 * static_cast<double>(rounds * units * tiles));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace nullscope::test
