#include <fmt/format.h>

#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/rows.hpp>

#include "kernels/linalg/block_grid.hpp"
#include "lib/src/linalg/gemm_joint_matrix_plan.hpp"
#include "lib/src/linalg/joint_matrix_check.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

using detail::gemm_joint_matrix_plan;
using detail::joint_matrix_tile;

constexpr double bound = 10;  // of a scaled residual

struct sizes {
  std::int64_t batch, m, n, k;
};
std::string text(const sizes& s) { return fmt::format("({}, {}, {}, {})", s.batch, s.m, s.n, s.k); }

/// A batch of matrices on the device: a view (batch, rows, columns) of memory that may be larger than the matrices.
template <class T>
struct operand {
  std::vector<T> host;
  tensor<T> memory;
  view<T, 3> elements;

  operand(const sycl::queue& queue, std::vector<T> numbers, view<T, 3> shape)
      : host(std::move(numbers)), memory(queue, {static_cast<std::int64_t>(host.size())}, host), elements(shape) {
    elements.data = memory.data();
  }
  /// The index of an element in `host`.
  std::size_t at(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(b * elements.stride[0] + i * elements.stride[1] + j * elements.stride[2]);
  }
};

std::vector<bfloat16> random_bfloat16(std::int64_t count, std::uint64_t seed) {
  std::vector<bfloat16> result;
  for (const float x : random_numbers<float>(count, seed)) result.push_back(bfloat16(x));
  return result;
}

template <class T>
view<T, 3> shape(std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  return contiguous(static_cast<T*>(nullptr), batch, rows, columns);
}
template <class T>
view<T, 3> transposed_shape(std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  return transposed(shape<T>(batch, columns, rows));
}

/// alpha a b + beta c in double, in the order of a dense c; NaN in c counts only if beta is not 0.
std::vector<double> expected_product(const sizes& s, double alpha, const operand<bfloat16>& a,
                                     const operand<bfloat16>& b, double beta, const operand<float>& c) {
  std::vector<double> result;
  for (std::int64_t x = 0; x < s.batch; ++x) {
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < s.k; ++l) {
          sum += static_cast<double>(a.host[a.at(x, i, l)]) * static_cast<double>(b.host[b.at(x, l, j)]);
        }
        result.push_back(beta == 0 ? alpha * sum : alpha * sum + beta * static_cast<double>(c.host[c.at(x, i, j)]));
      }
    }
  }
  return result;
}

/// Work-groups of one dimension: batches above 65,535, where the second and third dimension of a range end on some
/// GPUs.
TEST(block_grid, numbers_every_block_of_a_batch_once) {
  for (const kernels::block_grid& grid : {kernels::block_grid{1, 1}, {3, 2}, {1, 5}, {4, 1}}) {
    constexpr std::int64_t batch = 70'000;
    std::int64_t group = 0;
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t row = 0; row < grid.rows; ++row) {
        for (std::int64_t column = 0; column < grid.columns; ++column, ++group) {
          const kernels::block_grid::place place = grid.of(group);
          ASSERT_TRUE(place.batch == b && place.row == row && place.column == column) << group;
        }
      }
    }
    EXPECT_EQ(grid.groups(batch), group);
  }
}

class gemm_joint_matrix_test : public device_test {
 protected:
  void SetUp() override {
    if (!detail::gemm_joint_matrix_serves(detail::tested_properties(ctx_))) GTEST_SKIP() << "no matrix tiles";
  }

  gemm_joint_matrix_plan default_plan(const sizes& s) const {
    return detail::plan_gemm_joint_matrix(ctx_.device(), ctx_.layout(), s.batch, s.m, s.n, s.k);
  }

  /// c = a b with the plan that the library would choose.
  static sycl::event multiply(context& ctx, const operand<bfloat16>& a, const operand<bfloat16>& b, view<float, 3> c,
                              const events& dependencies = {}) {
    operation op(ctx, "test", dependencies);
    detail::gemm_joint_matrix(op, {1, a.elements, b.elements, 0, c});
    return op.submit();
  }

  /// Runs with a workspace of NaN and checks c: its elements against double, and that nothing between them has changed.
  void check(const gemm_joint_matrix_plan& plan, const sizes& s, float alpha, const operand<bfloat16>& a,
             const operand<bfloat16>& b, float beta, operand<float>& c) {
    const auto run = [&](context& ctx) {
      operation op(ctx, "test");
      detail::gemm_joint_matrix(op, {alpha, a.elements, b.elements, beta, c.elements}, plan);
      return op.submit();
    };
    const std::int64_t bytes = required_workspace(ctx_, run);
    tensor<std::byte> workspace(queue_, {bytes},
                                std::vector<std::byte>(static_cast<std::size_t>(bytes), std::byte{255}));
    c.memory.copy_from(c.host);
    ctx_.use_workspace(workspace.span());
    run(ctx_).wait();
    ctx_.use_workspace({});
    const std::vector<float> found = c.memory.to_host();
    std::vector<float> got, rest = found, rest_before = c.host;
    for (std::int64_t x = 0; x < s.batch; ++x) {
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          got.push_back(found[c.at(x, i, j)]);
          rest[c.at(x, i, j)] = rest_before[c.at(x, i, j)] = 0;
        }
      }
    }
    EXPECT_LT(scaled_residual(got, expected_product(s, alpha, a, b, beta, c), std::sqrt(static_cast<double>(s.k))),
              bound)
        << text(s)
        << fmt::format(" alpha {} beta {} blocks {} x {} x {}, tile {}", alpha, beta, plan.block_rows,
                       plan.block_columns, plan.block_steps, static_cast<int>(plan.tile));
    EXPECT_EQ(rest, rest_before) << text(s);
  }

  /// Dense row-major operands; c starts as NaN if beta is 0.
  void check_dense(const gemm_joint_matrix_plan& plan, const sizes& s, float alpha = 1, float beta = 0) {
    const operand<bfloat16> a(queue_, random_bfloat16(s.batch * s.m * s.k, 1), shape<bfloat16>(s.batch, s.m, s.k));
    const operand<bfloat16> b(queue_, random_bfloat16(s.batch * s.k * s.n, 2), shape<bfloat16>(s.batch, s.k, s.n));
    const std::int64_t count = s.batch * s.m * s.n;
    operand<float> c(queue_,
                     beta == 0 ? std::vector<float>(static_cast<std::size_t>(count), std::nanf(""))
                               : random_numbers<float>(count, 3),
                     shape<float>(s.batch, s.m, s.n));
    check(plan, s, alpha, a, b, beta, c);
  }
};
INSTANTIATE_TEST_SUITE_P(devices, gemm_joint_matrix_test, testing::ValuesIn(devices()), device_name);

TEST_P(gemm_joint_matrix_test, multiplies_all_sizes) {
  for (const sizes& s : std::vector<sizes>{{1, 1, 1, 1},
                                           {1, 16, 16, 32},
                                           {1, 32, 32, 32},
                                           {1, 31, 33, 1},
                                           {1, 33, 31, 65},
                                           {3, 17, 5, 40},
                                           {2, 64, 96, 128},
                                           {1, 130, 70, 2100},
                                           {1, 1, 300, 64},
                                           {1, 300, 1, 64}}) {
    check_dense(default_plan(s), s);
    check_dense(default_plan(s), s, 0.75f, -1.5f);
  }
}

TEST_P(gemm_joint_matrix_test, multiplies_with_any_plan) {
  const sizes s{2, 75, 107, 200};
  const gemm_joint_matrix_plan usual = default_plan(s);
  for (const std::int64_t rows : {1, 2, 7}) {
    for (const std::int64_t columns : {1, 3}) {
      for (const std::int64_t steps : {1, 3, 50}) {
        for (const std::int64_t items : {1, 8}) {
          const gemm_joint_matrix_plan plan{usual.tile, rows, columns, steps, items};
          if (detail::gemm_joint_matrix_local_bytes(plan) > ctx_.device().usable_local_bytes()) continue;
          check_dense(plan, s);
          check_dense(plan, s, 2, 0.5f);
        }
      }
    }
  }
}

/// The tiles of GPUs, copied as there by several work-items per work-group.
TEST_P(gemm_joint_matrix_test, multiplies_with_the_tiles_of_other_devices) {
  if (!GetParam().is_cpu()) GTEST_SKIP() << "AMX takes all sizes of tiles up to its own, others do not";
  for (const auto tile : {joint_matrix_tile::m8_n16_k16, joint_matrix_tile::m8_n8_k16,
                          joint_matrix_tile::m16_n16_k16_sub_32, joint_matrix_tile::m16_n16_k16_sub_64}) {
    check_dense({tile, 1, 1, 13, 16}, {2, 75, 107, 200});
    check_dense({tile, 3, 2, 4, 16}, {1, 33, 40, 100}, -1, 1);
  }
}

TEST_P(gemm_joint_matrix_test, takes_any_strides) {
  const sizes s{2, 45, 70, 100};
  using factor = view<bfloat16, 3>;
  const auto spread = [](auto x, std::int64_t inner) {  // room between elements, rows and matrices
    x.stride[2] = inner;
    x.stride[1] = inner * x.extent[2] + 3;
    x.stride[0] = x.stride[1] * x.extent[1] + 5;
    return x;
  };
  const auto once = [](auto x) {
    x.stride[0] = 0;
    return x;
  };
  const std::vector<factor> all_a{shape<bfloat16>(2, 45, 100), transposed_shape<bfloat16>(2, 45, 100),
                                  spread(shape<bfloat16>(2, 45, 100), 1), spread(shape<bfloat16>(2, 45, 100), 2),
                                  once(shape<bfloat16>(2, 45, 100))};
  const std::vector<factor> all_b{
      shape<bfloat16>(2, 100, 70), transposed_shape<bfloat16>(2, 100, 70), spread(shape<bfloat16>(2, 100, 70), 1),
      transposed(spread(shape<bfloat16>(2, 70, 100), 3)), once(transposed_shape<bfloat16>(2, 100, 70))};
  const std::vector<view<float, 3>> all_c{shape<float>(2, 45, 70), transposed_shape<float>(2, 45, 70),
                                          spread(shape<float>(2, 45, 70), 1), spread(shape<float>(2, 45, 70), 2)};
  const auto reach = [](const auto& x) {
    std::int64_t last = 0;
    for (int d = 0; d < 3; ++d) last += (x.extent[d] - 1) * x.stride[d];
    return last + 1;
  };
  for (const factor& a_shape : all_a) {
    for (const factor& b_shape : all_b) {
      for (const auto& c_shape : all_c) {
        const operand<bfloat16> a(queue_, random_bfloat16(reach(a_shape), 4), a_shape);
        const operand<bfloat16> b(queue_, random_bfloat16(reach(b_shape), 5), b_shape);
        operand<float> c(queue_, random_numbers<float>(reach(c_shape), 6), c_shape);
        check(default_plan(s), s, 1, a, b, 0, c);
        check(default_plan(s), s, 1, a, b, 2, c);
      }
    }
  }
}

TEST_P(gemm_joint_matrix_test, spreads_nan_and_infinity_no_further_than_the_formula) {
  // 40 x 40 x 50 has edges in every direction: the padding of the tiles must not meet the NaN
  operand<bfloat16> a(queue_, std::vector<bfloat16>(40 * 50, bfloat16(1)), shape<bfloat16>(1, 40, 50));
  operand<bfloat16> b(queue_, std::vector<bfloat16>(50 * 40, bfloat16(1)), shape<bfloat16>(1, 50, 40));
  a.host[39 * 50 + 49] = bfloat16(std::nanf(""));
  b.host[49 * 40 + 39] = bfloat16(std::numeric_limits<float>::infinity());
  a.memory.copy_from(a.host);
  b.memory.copy_from(b.host);
  tensor<float> c(queue_, {1, 40, 40});
  multiply(ctx_, a, b, c).wait();
  const std::vector<float> got = c.to_host();
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t j = 0; j < 40; ++j) {
      const float x = got[i * 40 + j];
      if (i == 39) {
        EXPECT_TRUE(std::isnan(x)) << i << " " << j;
      } else if (j == 39) {
        EXPECT_TRUE(std::isinf(x)) << i << " " << j;
      } else {
        EXPECT_EQ(x, 50) << i << " " << j;
      }
    }
  }
}

TEST_P(gemm_joint_matrix_test, takes_a_workspace_at_any_address_and_stays_within) {
  const sizes s{1, 50, 60, 70};
  const operand<bfloat16> a(queue_, random_bfloat16(50 * 70, 1), shape<bfloat16>(1, 50, 70));
  const operand<bfloat16> b(queue_, random_bfloat16(70 * 60, 2), shape<bfloat16>(1, 70, 60));
  const std::int64_t bytes =
      required_workspace(ctx_, [&](context& ctx) { multiply(ctx, a, b, shape<float>(1, 50, 60)); });
  const operand<float> none(queue_, std::vector<float>(50 * 60), shape<float>(1, 50, 60));
  const std::vector<double> expected = expected_product(s, 1, a, b, 0, none);
  for (const std::int64_t offset : {0, 2, 62}) {
    tensor<std::byte> memory(queue_, {bytes + 128},
                             std::vector<std::byte>(static_cast<std::size_t>(bytes) + 128, std::byte{7}));
    tensor<float> c(queue_, {1, 50, 60});
    ctx_.use_workspace({memory.data() + offset, static_cast<std::size_t>(bytes)});
    multiply(ctx_, a, b, c).wait();
    ctx_.use_workspace({});
    EXPECT_LT(scaled_residual(c.to_host(), expected, std::sqrt(70.0)), bound);
    const std::vector<std::byte> after = memory.to_host();
    for (std::int64_t i = 0; i < bytes + 128; ++i) {
      const bool is_inside = i >= offset && i < offset + bytes;
      EXPECT_TRUE(is_inside || after[static_cast<std::size_t>(i)] == std::byte{7}) << i;
    }
  }
}

TEST_P(gemm_joint_matrix_test, is_deterministic) {
  const operand<bfloat16> a(queue_, random_bfloat16(200 * 3000, 1), shape<bfloat16>(1, 200, 3000));
  const operand<bfloat16> b(queue_, random_bfloat16(3000 * 300, 2), shape<bfloat16>(1, 3000, 300));
  const auto run = [&] {
    tensor<float> c(queue_, {1, 200, 300});
    multiply(ctx_, a, b, c).wait();
    return c.to_host();
  };
  const std::vector<float> first = run();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(), first);
}

TEST_P(gemm_joint_matrix_test, waits_for_its_dependencies) {
  sycl::queue queue(GetParam());  // out of order
  context ctx(queue);
  const std::int64_t n = 64, long_time = 4'000'000;
  const auto all = [&](float x) { return std::vector<bfloat16>(static_cast<std::size_t>(n * n), bfloat16(x)); };
  operand<bfloat16> a(queue, all(1), shape<bfloat16>(1, n, n)), b(queue, all(0), shape<bfloat16>(1, n, n));
  tensor<bfloat16> later(queue, {1, n, n}, all(2));
  tensor<float> c(queue, {1, n, n}), slow(queue, {long_time});
  sycl::event before = queue.fill(slow.data(), 1.f, static_cast<std::size_t>(long_time));
  before = queue.memcpy(b.memory.data(), later.data(), static_cast<std::size_t>(n * n) * sizeof(bfloat16), before);
  multiply(ctx, a, b, c, {before}).wait();
  EXPECT_EQ(c.to_host(), std::vector<float>(static_cast<std::size_t>(n * n), 128.f));
}

class multiplies_right_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, multiplies_right_test, testing::ValuesIn(devices()), device_name);

TEST_P(multiplies_right_test, tells_a_right_product_from_faulty_ones) {
  using call = detail::gemm_call<bfloat16, float>;
  const auto product = [](operation& op, const call& x) { detail::gemm_tiled(op, x); };
  EXPECT_TRUE(detail::multiplies_right(ctx_, product));
  {
    operation open(ctx_, "open");  // as if a function of the library asked
    EXPECT_TRUE(detail::multiplies_right(ctx_, product));
  }
  const auto with_transposed_tiles = [](operation& op, call x) {  // the upper left 16 x 16 of a is loaded transposed
    const view<bfloat16, 3> a = op.take_array<bfloat16>(x.a.extent[0], x.a.extent[1], x.a.extent[2]);
    copy(op.ctx(), x.a, a);
    const auto tile = [](auto matrix) { return slice(slice(matrix, 1, 0, 16), 2, 0, 16); };
    copy(op.ctx(), transposed(tile(x.a)), tile(a));
    x.a = a;
    detail::gemm_tiled(op, x);
  };
  EXPECT_FALSE(detail::multiplies_right(ctx_, with_transposed_tiles));
  EXPECT_FALSE(detail::multiplies_right(ctx_, [](operation&, const call&) {})) << "does nothing";
  EXPECT_FALSE(detail::multiplies_right(ctx_, [](operation&, const call&) { throw compilation_error("no tiles"); }));
}

TEST_P(multiplies_right_test, leaves_no_tile_untested) {
  const device_properties& tested = detail::tested_properties(ctx_);
  EXPECT_EQ(&tested, &detail::tested_properties(context(queue_))) << "tried once";
  EXPECT_LE(tested.bf16_tiles.size(), ctx_.device().bf16_tiles.size());
}

TEST(gemm_joint_matrix_tile_test, goes_to_the_next_tile_when_one_is_removed) {
  device_properties device{};
  device.local_memory_bytes = 64 << 10;
  device.sub_group_sizes = {8, 16};
  device.bf16_tiles = {{0, 16, 16, 8, 0, 0}, {0, 8, 16, 8, 0, 0}};
#ifdef SYCL_EXT_ONEAPI_MATRIX
  ASSERT_EQ(detail::gemm_joint_matrix_tile(device), joint_matrix_tile::m8_n16_k16);
  detail::remove_tile(device, joint_matrix_tile::m8_n16_k16);
  EXPECT_EQ(detail::gemm_joint_matrix_tile(device), joint_matrix_tile::m8_n8_k16);
#endif
  detail::remove_tile(device, joint_matrix_tile::m8_n8_k16);
  EXPECT_EQ(detail::gemm_joint_matrix_tile(device), std::nullopt);
}

TEST(gemm_joint_matrix_tile_test, follows_what_the_device_reports) {
  device_properties device{};
  device.local_memory_bytes = 64 << 10;
  EXPECT_FALSE(detail::gemm_joint_matrix_serves(device));
  const auto tile = [&](std::vector<std::int64_t> sub_groups, std::vector<matrix_tile> tiles) {
    device.sub_group_sizes = std::move(sub_groups);
    device.bf16_tiles = std::move(tiles);
    return detail::gemm_joint_matrix_tile(device);
  };
#ifdef SYCL_EXT_ONEAPI_MATRIX
  EXPECT_EQ(tile({4, 8, 16, 32, 64}, {{0, 0, 0, 16, 16, 32}}), joint_matrix_tile::m16_n16_k32);
  EXPECT_EQ(tile({16, 32}, {{32, 64, 16, 0, 0, 0}, {0, 16, 16, 8, 0, 0}}), joint_matrix_tile::m8_n16_k16);
  EXPECT_EQ(tile({8, 16, 32}, {{0, 8, 16, 8, 0, 0}}), joint_matrix_tile::m8_n8_k16);
  EXPECT_EQ(tile({32}, {{8, 32, 16, 0, 0, 0}, {16, 16, 16, 0, 0, 0}}), joint_matrix_tile::m16_n16_k16_sub_32);
  EXPECT_EQ(tile({64}, {{32, 32, 8, 0, 0, 0}, {16, 16, 16, 0, 0, 0}}), joint_matrix_tile::m16_n16_k16_sub_64);
#endif
  EXPECT_EQ(tile({4}, {{0, 0, 0, 16, 16, 32}}), std::nullopt);  // no kernel for such sub-groups
  EXPECT_EQ(tile({16}, {{4, 4, 4, 0, 0, 0}}), std::nullopt);    // no kernel for such tiles
}

#ifdef SYCL_EXT_ONEAPI_MATRIX

/// A device with AMX, or a GPU with both tiles of XMX.
device_properties with_tiles(device_kind kind, std::int64_t local_memory_bytes) {
  device_properties device{};
  device.kind = kind;
  device.compute_units = 1;
  device.local_memory_bytes = local_memory_bytes;
  device.sub_group_sizes = {8, 16};
  device.bf16_tiles = kind == device_kind::cpu ? std::vector<matrix_tile>{{0, 0, 0, 16, 16, 32}}
                                               : std::vector<matrix_tile>{{0, 16, 16, 8, 0, 0}, {0, 8, 16, 8, 0, 0}};
  return device;
}

/// What the kernel keeps in local memory: 2 x 2 tiles for each pair of panels, and a tile of zeros.
std::int64_t local_bytes(const gemm_joint_matrix_plan& plan, std::int64_t tile_elements) {
  return (4 * plan.block_rows * plan.block_columns + 1) * tile_elements * 4;
}

TEST(gemm_joint_matrix_plan_test, has_blocks_that_fit_the_local_memory) {
  const auto plan_for = [](const device_properties& device, const sizes& s) {
    return detail::plan_gemm_joint_matrix(device, lane_layout::of(device), s.batch, s.m, s.n, s.k);
  };
  const gemm_joint_matrix_plan roomy = plan_for(with_tiles(device_kind::cpu, 256 << 10), {1, 4096, 4096, 1024});
  EXPECT_EQ(local_bytes(roomy, 16 * 16), 129 << 10);
  for (const std::int64_t kibibytes : {6, 16, 32, 48, 64, 100, 129, 130, 256}) {
    const device_properties device = with_tiles(device_kind::cpu, kibibytes << 10);
    for (const sizes& s :
         std::vector<sizes>{{1, 4096, 4096, 1024}, {64, 512, 512, 64}, {1, 16, 4096, 32}, {1, 4096, 1, 1}}) {
      const gemm_joint_matrix_plan plan = plan_for(device, s);
      EXPECT_EQ(detail::gemm_joint_matrix_local_bytes(plan), local_bytes(plan, 16 * 16));
      EXPECT_LE(local_bytes(plan, 16 * 16), device.usable_local_bytes()) << kibibytes << " KiB, " << text(s);
      EXPECT_GE(plan.block_rows, 1);
      EXPECT_GE(plan.block_columns, 1);
    }
  }
}

TEST(gemm_joint_matrix_plan_test, a_device_without_room_for_one_pair_of_panels_is_not_served) {
  const std::int64_t alignment = 64;  // bytes that a launch may lose to it
  const std::int64_t xmx_bytes = 5 * 8 * 16 * 4, amx_bytes = 5 * 16 * 16 * 4;
  using detail::gemm_joint_matrix_tile;
  EXPECT_EQ(gemm_joint_matrix_tile(with_tiles(device_kind::cpu, amx_bytes + alignment)),
            joint_matrix_tile::m16_n16_k32);
  EXPECT_EQ(gemm_joint_matrix_tile(with_tiles(device_kind::gpu, xmx_bytes + alignment)), joint_matrix_tile::m8_n16_k16);
  EXPECT_EQ(gemm_joint_matrix_tile(with_tiles(device_kind::gpu, xmx_bytes)), joint_matrix_tile::m8_n8_k16);
  EXPECT_FALSE(detail::gemm_joint_matrix_serves(with_tiles(device_kind::gpu, 1024)));
  device_properties only_large = with_tiles(device_kind::cpu, amx_bytes);
  only_large.bf16_tiles = {{16, 16, 32, 0, 0, 0}};
  EXPECT_FALSE(detail::gemm_joint_matrix_serves(only_large));
}

#endif

}  // namespace
}  // namespace nullscope::test
