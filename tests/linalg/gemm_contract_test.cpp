/// What gemm promises besides the numbers: empty operands, dependencies, far memory, messages, workspace, plans.
#include <fmt/format.h>

#include "kernels/linalg/stage.hpp"
#include "lib/src/linalg/gemm_joint_matrix_plan.hpp"
#include "lib/src/linalg/joint_matrix_check.hpp"
#include "tests/linalg/gemm_support.hpp"

namespace nullscope::test {
namespace {

/// A tile in local memory has as many rows as a group needs, not always a multiple of W; the matrix continues below.
template <class T, int W>
void check_staging_of_columns() {
  const int rows = W + W / 2 + 1, columns = 2 * W, stride = columns + 3;
  const std::int64_t all_rows = 5 * W;
  const std::vector<T> matrix = random_numbers<T>(all_rows * columns, 3);  // one column after the other
  const T rubbish = T(77);
  std::vector<T> staged(static_cast<std::size_t>(2 * rows * stride), rubbish);
  kernels::stage<W, 1, 1>(kernels::block<T>{matrix.data(), 1, all_rows, all_rows, columns}, rows, columns,
                          staged.data(), stride, 0, 0);
  for (int r = 0; r < 2 * rows; ++r) {
    for (int c = 0; c < stride; ++c) {
      const bool is_inside = r < rows && c < columns;
      const T expected = is_inside ? matrix[static_cast<std::size_t>(c * all_rows + r)] : rubbish;
      ASSERT_EQ(staged[static_cast<std::size_t>(r * stride + c)], expected) << "row " << r << ", column " << c;
    }
  }
}

TEST(stage, writes_no_rows_beyond_those_asked_for) {
  check_staging_of_columns<float, 16>();
  check_staging_of_columns<float, 8>();
  check_staging_of_columns<double, 4>();
  check_staging_of_columns<float, 1>();
}

TEST_P(gemm_test, does_not_read_the_factors_for_alpha_0_and_gives_beta_c_for_k_0) {
  tensor<float> factor(queue_, {1, 2, 2}, std::vector<float>(4, static_cast<float>(not_a_number)));
  for (const gemm_path path : {gemm_path::automatic, gemm_path::own}) {
    tensor<float> c(queue_, {1, 2, 2}, std::vector<float>{1, 2, 3, 4});
    gemm(ctx_, {factor, factor}, c, {.alpha = 0, .beta = 2, .path = path}).wait();
    EXPECT_EQ(c.to_host(), (std::vector<float>{2, 4, 6, 8}));
    const auto empty = [](std::int64_t rows, std::int64_t columns) {
      return contiguous<const float>(nullptr, 1, rows, columns);
    };
    gemm(ctx_, {empty(2, 0), empty(0, 2)}, c, {.beta = 0.5, .path = path}).wait();
    EXPECT_EQ(c.to_host(), (std::vector<float>{1, 2, 3, 4}));
    gemm(ctx_, {empty(2, 0), empty(0, 2)}, c, {.alpha = infinity, .beta = 1, .path = path}).wait();
    EXPECT_EQ(c.to_host(), (std::vector<float>{1, 2, 3, 4}));
    gemm(ctx_, {empty(2, 0), empty(0, 2)}, c, {.path = path}).wait();
    EXPECT_EQ(c.to_host(), std::vector<float>(4, 0));
  }
}

TEST_P(gemm_test, does_nothing_for_an_empty_product) {
  const auto empty = [](std::int64_t batch, std::int64_t rows, std::int64_t columns) {
    return contiguous<double>(nullptr, batch, rows, columns);
  };
  if (!has_fp64()) GTEST_SKIP();
  gemm(ctx_, {empty(0, 2, 3), empty(0, 3, 4)}, empty(0, 2, 4)).wait();
  tensor<double> x(queue_, {1, 3, 4});
  gemm(ctx_, {empty(1, 0, 3), x}, empty(1, 0, 4)).wait();
  gemm(ctx_, {transposed(x.as<3>()), empty(1, 3, 0)}, empty(1, 4, 0)).wait();
}

TEST_P(gemm_test, honours_dependencies_on_an_out_of_order_queue) {
  context out_of_order{sycl::queue(GetParam())};
  const std::int64_t n = 700;
  // Slow products of ones, each followed by a quick one on a corner of its result.
  for (const gemm_path path : {gemm_path::automatic, gemm_path::own}) {
    tensor<float> ones(queue_, {1, n, n}, std::vector<float>(static_cast<std::size_t>(n * n), 1));
    tensor<float> x(queue_, {1, n, n}, std::vector<float>(static_cast<std::size_t>(n * n), 0)), c(queue_, {1, 4, 4});
    const auto corner = slice(slice(x.as<3>(), 1, n - 4, 4), 2, n - 4, 4);
    const view<const float, 3> four = slice(slice(ones.as<3>(), 1, 0, 4), 2, 0, 4);
    sycl::event last;
    for (int i = 0; i < 5; ++i) {
      const sycl::event slow = gemm(out_of_order, {ones, ones}, x, {.beta = 1, .path = path}, {last});
      last = gemm(out_of_order, {corner, four}, c, {.beta = i == 0 ? 0.0 : 1.0, .path = path}, {slow});
    }
    const view<float, 3> empty = contiguous<float>(nullptr, 0, 1, 1);
    gemm(out_of_order, {empty, empty}, empty, {.path = path}, {last}).wait();  // an empty product waits too
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
    multiply_by<float, float>(by, {a, transposed(a)}, c).wait();
    std::vector<float> got(4);
    queue_.copy(data + 16, got.data(), 2).wait();
    queue_.copy(data + 16 + far, got.data() + 2, 2).wait();
    EXPECT_EQ(got, (std::vector<float>{5, 11, 11, 25}));
    c = {data + 32, {2, 2, 1}, {far, 1, 1}};  // a far batch
    const view<const float, 3> column{data, {2, 2, 1}, {far, 1, 1}}, one{data, {2, 1, 1}, {0, 1, 1}};
    multiply_by<float, float>(by, {column, one}, c).wait();
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
    return message_of<invalid_argument>([&] { gemm(ctx_, {a, b}, c); });
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

TEST_P(gemm_test, says_when_the_vendors_library_cannot_take_the_operands) {
  tensor<float> x(queue_, {1000});
  const auto call = [&] {
    view<const float, 3> a = contiguous(x.data(), 1, 3, 4);
    a.stride[1] = 8, a.stride[2] = 2;
    gemm(ctx_, {a, contiguous(x.data(), 1, 4, 6)}, contiguous(x.data() + 500, 1, 3, 6), {.path = gemm_path::vendor});
  };
  if (has_vendor()) {
    EXPECT_NE(message_of<invalid_argument>(call).find("a (1, 3, 4) with strides (12, 8, 2)"), std::string::npos);
  } else {
    EXPECT_NE(message_of<unsupported_device>(call).find("no vendor's library for"), std::string::npos);
  }
}

TEST_P(gemm_test, matrices_of_c_may_interleave_but_not_for_the_vendors_library) {
  const std::int64_t batch = 3, m = 4, n = 5, k = 2;
  const std::vector<float> ones(static_cast<std::size_t>(batch * std::max(m, n) * k), 1);
  const tensor<float> x(queue_, {batch * std::max(m, n) * k}, ones);
  const auto a = contiguous(x.data(), batch, m, k), b = contiguous(x.data(), batch, k, n);
  tensor<float> memory(queue_, {batch * m * n});
  const view<float, 3> side_by_side{memory.data(), {batch, m, n}, {n, batch * n, 1}};
  const view<float, 3> transposed_so{memory.data(), {batch, m, n}, {m, 1, batch * m}};
  for (const view<float, 3>& c : {side_by_side, transposed_so}) {
    for (const gemm_path path : {gemm_path::automatic, gemm_path::own}) {
      memory.copy_from(std::vector<float>(static_cast<std::size_t>(memory.size()), -1));
      gemm(ctx_, {a, b}, c, {.path = path}).wait();
      EXPECT_EQ(memory.to_host(), std::vector<float>(static_cast<std::size_t>(memory.size()), k));
    }
    if (!has_vendor()) continue;
    EXPECT_NE(message_of<invalid_argument>([&] {
                gemm(ctx_, {a, b}, c, {.path = gemm_path::vendor});
              }).find("each matrix of c to end before"),
              std::string::npos);
  }
}

TEST_P(gemm_test, takes_the_workspace_that_a_matrix_engine_needs) {
  tensor<bfloat16> x(queue_, {1000}, std::vector<bfloat16>(1000, bfloat16(1.0f)));
  tensor<float> c(queue_, {2, 3, 5});
  const auto a = contiguous<const bfloat16>(x.data(), 2, 3, 4), b = contiguous<const bfloat16>(x.data(), 2, 4, 5);
  const gemm_options own{.path = gemm_path::own};
  const auto size_of = [&](const gemm_operands<bfloat16>& operands) {
    return required_workspace(ctx_, [&](context& ctx) { gemm(ctx, operands, c, own); });
  };
  const std::int64_t size = size_of({a, b});
  EXPECT_EQ(size > 0, detail::gemm_joint_matrix_serves(detail::tested_properties(ctx_)));
  EXPECT_EQ(size_of({contiguous<const bfloat16>(nullptr, 2, 3, 0), contiguous<const bfloat16>(nullptr, 2, 0, 5)}), 0);
  EXPECT_NE(message_of<invalid_argument>([&] { size_of({a, a}); }).find("of b (2, 3"), std::string::npos);
  EXPECT_EQ(message_of<invalid_argument>([&] {
              size_of({contiguous<const bfloat16>(nullptr, 1, -1, 4), b});
            }),
            "gemm: a (1, -1, 4) with strides (-4, 4, 1) has a negative extent");
  EXPECT_EQ(required_workspace(
                context_of(way::own),
                [&](context& ctx) {
                  gemm(ctx, {contiguous<const float>(c.data(), 1, 3, 5), contiguous<const float>(c.data(), 1, 5, 3)},
                       contiguous(c.data() + 16, 1, 3, 3), own);
                }),
            0);
  const auto run = [&] { gemm(ctx_, {a, b}, c, own).wait(); };
  if (size > 0) {
    tensor<std::byte> memory(queue_, {size});
    ctx_.use_workspace(memory.span().first(static_cast<std::size_t>(size / 2)));
    EXPECT_EQ(message_of<invalid_argument>(run),
              fmt::format("gemm: the workspace is too small, {} bytes are needed", size));
    ctx_.use_workspace(memory.span());
    run();
    ctx_.use_workspace({});
  } else {
    run();
  }
  EXPECT_EQ(c.to_host(), std::vector<float>(30, 4));
}

TEST_P(gemm_test, multiplies_tensors) {
  tensor<float> a(queue_, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}),
      b(queue_, {3, 1}, std::vector<float>{1, 0, -1});
  const tensor<float> c = matrix_product(ctx_, a, b);
  EXPECT_EQ(c.shape(), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(c.to_host(), (std::vector<float>{-2, -2}));
  tensor<bfloat16> one(queue_, {2, 1, 1}, std::vector<bfloat16>{bfloat16(2.0f), bfloat16(3.0f)});
  tensor<bfloat16> row(queue_, {1, 2}, std::vector<bfloat16>{bfloat16(1.0f), bfloat16(4.0f)});
  const tensor<float> batch = matrix_product(ctx_, one, row);
  EXPECT_EQ(batch.shape(), (std::vector<std::int64_t>{2, 1, 2}));
  EXPECT_EQ(batch.to_host(), (std::vector<float>{2, 8, 3, 12}));
  tensor<float> vector(queue_, {3});
  EXPECT_NE(message_of<invalid_argument>([&] {
              matrix_product(ctx_, a, vector);
            }).find("matrix_product: b [3] is neither a matrix"),
            std::string::npos);
  EXPECT_EQ(matrix_product(ctx_, a, b, {.alpha = -2}).to_host(), (std::vector<float>{4, 4}));
  EXPECT_NE(message_of<invalid_argument>([&] { matrix_product(ctx_, a, b, {.beta = 1}); }).find("beta is 1"),
            std::string::npos);
  EXPECT_NE(message_of<invalid_argument>([&] { matrix_product(ctx_, b, b); }).find("dimension 2 of a (1, 3, 1)"),
            std::string::npos);
  const tensor<float> three(queue_, {3, 1, 2}), two(queue_, {2, 2, 1});
  EXPECT_NE(message_of<invalid_argument>([&] { matrix_product(ctx_, three, two); }).find("dimension 0 of a (3, 1, 2)"),
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
