/// What gemm passes to cuBLAS and rocBLAS, by stand-ins for them that multiply on the host.
#include <dlfcn.h>
#include <fmt/format.h>

#include <nullscope/core/tensor.hpp>

#include "lib/src/vendor/gemm.hpp"
#include "lib/src/vendor/gemm_libraries.hpp"
#include "tests/core/support.hpp"
#include "tests/vendor/recorded_gemm.hpp"

namespace nullscope::test {
namespace {

const recorded_gemm& last_call(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  return *reinterpret_cast<const recorded_gemm* (*)()>(dlsym(handle, "last_gemm"))();
}

/// A batch of matrices with room between elements of one direction: unit stride along rows, or along columns.
struct shape {
  bool is_transposed;
  std::int64_t gap;        // after a row
  bool is_shared = false;  // one matrix for the whole batch
};

view<float, 3> placed(const shape& x, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  const std::int64_t row = (x.is_transposed ? rows : columns) + x.gap;
  view<float, 3> result{nullptr, {batch, rows, columns}, {0, row, 1}};
  if (x.is_transposed) std::swap(result.stride[1], result.stride[2]);
  if (!x.is_shared) result.stride[0] = row * (x.is_transposed ? columns : rows) + 2;
  return result;
}

class vendor_gemm_test : public device_test {
 protected:
  /// A batch of random numbers on the device, and as the host sees it.
  template <class T>
  struct operand {
    view<float, 3> place;
    std::vector<T> host;
    tensor<T> memory;

    operand(const sycl::queue& queue, const view<float, 3>& where, std::uint64_t seed)
        : place(where), memory(queue, {0}) {
      std::int64_t last = 0;
      for (int d = 0; d < 3; ++d) last += (where.extent[d] - 1) * where.stride[d];
      for (const float x : random_numbers<float>(last + 1, seed)) host.push_back(T(x));
      memory = tensor<T>(queue, {last + 1}, host);
    }
    view<T, 3> on_device() {
      return {memory.data(),
              {place.extent[0], place.extent[1], place.extent[2]},
              {place.stride[0], place.stride[1], place.stride[2]}};
    }
    std::size_t at(std::int64_t i, std::int64_t j, std::int64_t k) const {
      return static_cast<std::size_t>(i * place.stride[0] + j * place.stride[1] + k * place.stride[2]);
    }
  };

  /// Multiplies by `library` and compares with the definition; nothing else in the memory of c changes.
  template <class In, class T, class Multiply>
  void check(const Multiply& multiply, const shape& a_shape, const shape& b_shape, const shape& c_shape, T beta) {
    constexpr std::int64_t batch = 3, m = 5, n = 7, k = 4;
    operand<In> a(queue_, placed(a_shape, batch, m, k), 1), b(queue_, placed(b_shape, batch, k, n), 2);
    operand<T> c(queue_, placed(c_shape, batch, m, n), 3);
    operation op(ctx_, "test");
    multiply(op, detail::gemm_call<In, T>{T(0.5), a.on_device(), b.on_device(), beta, c.on_device()});
    op.submit_and_wait();
    std::vector<T> expected = c.host;
    for (std::int64_t x = 0; x < batch; ++x) {
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < k; ++l) {
            sum += static_cast<double>(a.host[a.at(x, i, l)]) * static_cast<double>(b.host[b.at(x, l, j)]);
          }
          T& to = expected[c.at(x, i, j)];
          to = static_cast<T>(0.5 * sum + (beta == 0 ? 0 : static_cast<double>(beta) * static_cast<double>(to)));
        }
      }
    }
    const std::vector<T> found = c.memory.to_host();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 4 * std::numeric_limits<T>::epsilon() * (1 + std::abs(expected[i]))) << i;
    }
  }

  /// All transpositions and leading dimensions, with one matrix for the batch in between.
  template <class In, class T, class Multiply>
  void check_shapes(const Multiply& multiply) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        for (const bool c : {false, true}) {
          check<In, T>(multiply, {a, 0}, {b, 3}, {c, 1}, T(0));
          check<In, T>(multiply, {a, 2, true}, {b, 0}, {c, 0}, T(-1.5));
          check<In, T>(multiply, {a, 1}, {b, 0, true}, {c, 2}, T(1));
        }
      }
    }
  }

  /// As gemm's door does it: the library gets a c that is row-major.
  template <class In, class T, class Multiply>
  static void with_row_major_result(const detail::gemm_call<In, T>& call, const Multiply& multiply) {
    return call.c.stride[1] == 1 && call.c.stride[2] != 1 ? multiply(transposed(call)) : multiply(call);
  }
};

INSTANTIATE_TEST_SUITE_P(devices, vendor_gemm_test, testing::ValuesIn(devices()), device_name);

TEST_P(vendor_gemm_test, cublas_gets_what_blas_would) {
  if (!GetParam().is_cpu()) GTEST_SKIP() << "the stand-in works on the host";
  const detail::cublas::functions* const library = detail::cublas::open(FAKE_CUBLAS);
  ASSERT_NE(library, nullptr);
  const recorded_gemm& recorded = last_call(FAKE_CUBLAS);
  bool tf32 = false;
  const auto multiply = [&](operation& op, const auto& call) {
    with_row_major_result(call, [&](const auto& row_major) { gemm_cublas(op, *library, row_major, tf32); });
  };
  check_shapes<float, float>(multiply);
  EXPECT_EQ(recorded.calls, 24);
  EXPECT_EQ(recorded.compute, 68) << "CUBLAS_COMPUTE_32F";
  EXPECT_NE(recorded.workspace, nullptr) << "after the stream was set";
  EXPECT_EQ(recorded.workspace_bytes, std::size_t{32} << 20);
  check_shapes<bfloat16, float>(multiply);
  EXPECT_EQ(recorded.compute, 68);
  if (has_fp64()) {
    check_shapes<double, double>(multiply);
    EXPECT_EQ(recorded.compute, 70) << "CUBLAS_COMPUTE_64F";
  }
  tf32 = true;
  check<float, float>(multiply, {false, 0}, {false, 0}, {false, 0}, 0.f);
  EXPECT_EQ(recorded.compute, 77) << "CUBLAS_COMPUTE_32F_FAST_TF32";
  check<bfloat16, float>(multiply, {false, 0}, {false, 0}, {false, 0}, 0.f);
  EXPECT_EQ(recorded.compute, 68) << "the factors are short already";
}

TEST_P(vendor_gemm_test, rocblas_gets_what_blas_would) {
  if (!GetParam().is_cpu()) GTEST_SKIP() << "the stand-in works on the host";
  const detail::rocblas::functions* const library = detail::rocblas::open(FAKE_ROCBLAS);
  ASSERT_NE(library, nullptr);
  const recorded_gemm& recorded = last_call(FAKE_ROCBLAS);
  const auto multiply = [&](operation& op, const auto& call) {
    with_row_major_result(call, [&](const auto& row_major) { gemm_rocblas(op, *library, row_major); });
  };
  check_shapes<float, float>(multiply);
  EXPECT_EQ(recorded.calls, 24);
  EXPECT_EQ(recorded.compute, 151) << "rocblas_datatype_f32_r";
  EXPECT_EQ(recorded.atomics, 0) << "the same bits every time";
  check_shapes<bfloat16, float>(multiply);
  EXPECT_EQ(recorded.compute, 151);
  if (has_fp64()) {
    check_shapes<double, double>(multiply);
    EXPECT_EQ(recorded.compute, 152) << "rocblas_datatype_f64_r";
  }
}

TEST_P(vendor_gemm_test, says_which_function_failed) {
  if (!GetParam().is_cpu()) GTEST_SKIP() << "the stand-in works on the host";
  detail::cublas::functions failing = *detail::cublas::open(FAKE_CUBLAS);
  failing.set_workspace = [](void*, void*, std::size_t) { return 14; };
  const sycl::device device = GetParam();
  context ctx(device);
  tensor<float> x(ctx, {1, 4, 4});
  operation op(ctx, "test");
  gemm_cublas(op, failing, detail::gemm_call<float, float>{1, x, x, 0, x}, false);
  EXPECT_EQ(message_of<error>([&] { op.submit_and_wait(); }), "cublasSetWorkspace failed with status 14");
}

TEST(vendor_libraries, that_lack_a_function_are_not_taken) {
  EXPECT_EQ(detail::cublas::open("no such library"), nullptr);
  EXPECT_EQ(detail::cublas::open(FAKE_ROCBLAS), nullptr);
  EXPECT_EQ(detail::rocblas::open(FAKE_CUBLAS), nullptr);
}

TEST(vendor_libraries, take_matrices_with_unit_stride_in_one_direction) {
  using detail::can_express;
  using detail::gemm_library;
  const auto call = [](std::int64_t rows, std::int64_t row_stride, std::int64_t stride) {
    const view<float, 3> x{nullptr, {2, rows, 4}, {rows * row_stride, row_stride, stride}};
    const view<float, 3> square = contiguous<float>(nullptr, 2, 4, 4);
    return detail::gemm_call<float, float>{1, x, square, 0, contiguous<float>(nullptr, 2, rows, 4)};
  };
  for (const gemm_library library : {gemm_library::onemkl, gemm_library::cublas, gemm_library::rocblas}) {
    EXPECT_TRUE(can_express(library, call(5, 4, 1)));
    EXPECT_TRUE(can_express(library, call(5, 9, 1)));
    EXPECT_FALSE(can_express(library, call(5, 9, 2)));
    EXPECT_FALSE(can_express(library, call(5, 3, 1))) << "rows overlap";
  }
  const auto large = call(std::int64_t{1} << 31, 4, 1);
  EXPECT_TRUE(can_express(gemm_library::cublas, large));
  EXPECT_FALSE(can_express(gemm_library::rocblas, large)) << "it counts in 32 bits";
}

}  // namespace
}  // namespace nullscope::test
