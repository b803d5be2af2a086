/// Tensor cores. Matrices of small integers; where an element stands is written as in NVIDIA's description of PTX.
#include <gtest/gtest.h>

#include "tests/gpu/ptx/ptx_program.hpp"

namespace nullscope::ptx {
namespace {

template <std::size_t Rows, std::size_t Columns>
using matrix = std::array<std::array<float, Columns>, Rows>;

template <std::size_t Rows, std::size_t Columns>
matrix<Rows, Columns> numbers(int seed) {
  matrix<Rows, Columns> result;
  for (std::size_t r = 0; r < Rows; ++r) {
    for (std::size_t c = 0; c < Columns; ++c)
      result[r][c] = static_cast<float>((static_cast<int>(r * 7 + c * 3) + seed) % 11 - 5);
  }
  return result;
}
template <std::size_t M, std::size_t K, std::size_t N>
matrix<M, N> product(const matrix<M, K>& a, const matrix<K, N>& b, const matrix<M, N>& c) {
  matrix<M, N> d = c;
  for (std::size_t i = 0; i < M; ++i) {
    for (std::size_t j = 0; j < N; ++j) {
      for (std::size_t k = 0; k < K; ++k) d[i][j] += a[i][k] * b[k][j];
    }
  }
  return d;
}
std::uint32_t pair_of(float low, float high) {
  return std::uint32_t{float_to_bfloat16(high)} << 16 | float_to_bfloat16(low);
}

TEST(ptx_matrix, mma_m16n8k16_takes_fragments_as_documented) {
  const auto a = numbers<16, 16>(1);
  const auto b = numbers<16, 8>(4);
  const auto c = numbers<16, 8>(9), d = product(a, b, c);
  std::vector<std::uint32_t> ra(128), rb(64);
  std::vector<float> rc(128), rd(128);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const std::size_t group = lane / 4, in_group = lane % 4;
    for (std::size_t i = 0; i < 8; i += 2) {
      const std::size_t row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
      const std::size_t column = in_group * 2 + (i < 4 ? 0 : 8);
      ra[lane * 4 + i / 2] = pair_of(a[row][column], a[row][column + 1]);
    }
    for (std::size_t i = 0; i < 4; i += 2) {
      const std::size_t row = in_group * 2 + (i < 2 ? 0 : 8);
      rb[lane * 2 + i / 2] = pair_of(b[row][group], b[row + 1][group]);
    }
    for (std::size_t i = 0; i < 4; ++i) rc[lane * 4 + i] = c[i < 2 ? group : group + 8][in_group * 2 + i % 2];
  }
  const std::string program = R"(
    .visible .entry test(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
    {
      .reg .b32 %a<4>; .reg .b32 %b<2>; .reg .f32 %c<4>; .reg .f32 %d<4>; .reg .b32 %lane; .reg .b64 %at;
      mov.u32 %lane, %laneid;
      ld.param.u64 %at, [pa]; mad.wide.u32 %at, %lane, 16, %at; ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%at];
      ld.param.u64 %at, [pb]; mad.wide.u32 %at, %lane, 8, %at; ld.global.v2.b32 {%b0, %b1}, [%at];
      ld.param.u64 %at, [pc]; mad.wide.u32 %at, %lane, 16, %at; ld.global.v4.f32 {%c0, %c1, %c2, %c3}, [%at];
      mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};
      ld.param.u64 %at, [pd]; mad.wide.u32 %at, %lane, 16, %at; st.global.v4.f32 [%at], {%d0, %d1, %d2, %d3};
      ret;
    })";
  const counts counted = run_program(program, {ra.data(), rb.data(), rc.data(), rd.data()});
  EXPECT_EQ(counted.of(kind::mma), 1u);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(rd[lane * 4 + i], d[i < 2 ? lane / 4 : lane / 4 + 8][lane % 4 * 2 + i % 2])
          << "lane " << lane << ", element " << i;
    }
  }
}

TEST(ptx_matrix, wmma_multiplies_tiles_that_stand_by_rows_or_columns) {
  const auto a = numbers<16, 16>(1), b = numbers<16, 16>(4), c = numbers<16, 16>(9), d = product(a, b, c);
  constexpr std::size_t stride = 24;
  std::vector<std::uint16_t> memory_a(16 * stride), memory_b(16 * stride);
  std::vector<float> memory_c(16 * stride), memory_d(16 * stride);
  for (std::size_t r = 0; r < 16; ++r) {
    for (std::size_t s = 0; s < 16; ++s) {
      memory_a[r * stride + s] = float_to_bfloat16(a[r][s]);
      memory_b[s * stride + r] = float_to_bfloat16(b[r][s]);  // column by column
      memory_c[r * stride + s] = c[r][s];
    }
  }
  const std::string registers = "{%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}";
  const std::string program = R"(
    .visible .entry test(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
    {
      .reg .b32 %a<4>; .reg .b32 %b<4>; .reg .f32 %c<8>; .reg .b64 %at;
      ld.param.u64 %at, [pa]; wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {%a0, %a1, %a2, %a3}, [%at], 24;
      ld.param.u64 %at, [pb]; wmma.load.b.sync.aligned.col.m16n16k16.global.bf16 {%b0, %b1, %b2, %b3}, [%at], 24;
      ld.param.u64 %at, [pc]; wmma.load.c.sync.aligned.row.m16n16k16.global.f32 )" +
                              registers + R"(, [%at], 24;
      wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32 )" +
                              registers + ", {%a0, %a1, %a2, %a3}, {%b0, %b1, %b2, %b3}, " + registers + R"(;
      ld.param.u64 %at, [pd]; wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%at], )" +
                              registers + R"(, 24;
      ret;
    })";
  run_program(program, {memory_a.data(), memory_b.data(), memory_c.data(), memory_d.data()});
  for (std::size_t r = 0; r < 16; ++r) {
    for (std::size_t s = 0; s < 16; ++s) EXPECT_EQ(memory_d[r * stride + s], d[r][s]) << r << ", " << s;
  }
}

/// Matrix n holds 100 n + 10 row + column.
TEST(ptx_matrix, ldmatrix_spreads_rows_over_lanes) {
  const auto run = [](const std::string& transposed) {
    std::vector<std::uint16_t> from(4 * 64);
    for (std::size_t e = 0; e < from.size(); ++e)
      from[e] = static_cast<std::uint16_t>(e / 64 * 100 + e % 64 / 8 * 10 + e % 8);
    std::vector<std::uint32_t> got(4 * lanes);
    const std::string program = R"(
      .shared .align 16 .b8 tiles[512];
      .visible .entry test(.param .u64 p0, .param .u64 p1)
      {
        .reg .b32 %r<6>; .reg .b64 %rd<6>;
        mov.u32 %r0, %laneid; mov.u64 %rd0, tiles; mad.wide.u32 %rd1, %r0, 16, %rd0;
        ld.param.u64 %rd2, [p1]; mad.wide.u32 %rd2, %r0, 16, %rd2;
        ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd2]; st.shared.v4.b32 [%rd1], {%r1, %r2, %r3, %r4};
        ldmatrix.sync.aligned.m8n8.x4)" +
                                transposed + R"(.shared.b16 {%r1, %r2, %r3, %r4}, [%rd1];
        ld.param.u64 %rd3, [p0]; mad.wide.u32 %rd3, %r0, 16, %rd3; st.global.v4.b32 [%rd3], {%r1, %r2, %r3, %r4}; ret;
      })";
    run_program(program, {got.data(), from.data()});
    return got;
  };
  const std::vector<std::uint32_t> plain = run(""), turned = run(".trans");
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    for (std::uint32_t n = 0; n < 4; ++n) {
      const std::uint32_t row = lane / 4, column = lane % 4 * 2;
      EXPECT_EQ(plain[lane * 4 + n], (100 * n + 10 * row + column + 1) << 16 | (100 * n + 10 * row + column));
      EXPECT_EQ(turned[lane * 4 + n], (100 * n + 10 * (column + 1) + row) << 16 | (100 * n + 10 * column + row));
    }
  }
}

}  // namespace
}  // namespace nullscope::ptx
