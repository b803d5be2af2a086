/// Instructions that compute: known results, at the edges of their types.
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "tests/gpu/ptx/ptx_program.hpp"

namespace nullscope::ptx {
namespace {

using f32 = std::vector<float>;
using f64 = std::vector<double>;
using s16 = std::vector<std::int16_t>;
using s32 = std::vector<std::int32_t>;
using s64 = std::vector<std::int64_t>;
using u16 = std::vector<std::uint16_t>;
using u32 = std::vector<std::uint32_t>;
using u64 = std::vector<std::uint64_t>;

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int32_t lowest = std::numeric_limits<std::int32_t>::min(),
                       highest = std::numeric_limits<std::int32_t>::max();

/// Bits, so that NaN and the sign of zero count.
u32 bits(const f32& x) {
  u32 result;
  for (const float one : x) result.push_back(std::bit_cast<std::uint32_t>(one));
  return result;
}

TEST(ptx_integer, sums_wrap_around_or_saturate) {
  EXPECT_EQ(lanes_of<std::int32_t>("add.s32 %to, %a, %b;", s32{highest, -1, 5}, s32{1, 1, -7}), (s32{lowest, 0, -2}));
  EXPECT_EQ(lanes_of<std::int32_t>("add.sat.s32 %to, %a, %b;", s32{highest, lowest, 5}, s32{1, -1, -7}),
            (s32{highest, lowest, -2}));
  EXPECT_EQ(lanes_of<std::int64_t>("sub.s64 %to, %a, %b;", s64{0, 1}, s64{1, -1}), (s64{-1, 2}));
  EXPECT_EQ(lanes_of<std::uint16_t>("add.s16 %to, %a, %b;", u16{65535}, u16{2}), (u16{1}));
}

TEST(ptx_integer, products_have_a_low_and_a_high_half) {
  EXPECT_EQ(lanes_of<std::int32_t>("mul.lo.s32 %to, %a, %b;", s32{65536, -3}, s32{65536, 7}), (s32{0, -21}));
  EXPECT_EQ(lanes_of<std::int32_t>("mul.hi.s32 %to, %a, %b;", s32{65536, -3}, s32{65536, 7}), (s32{1, -1}));
  EXPECT_EQ(lanes_of<std::uint32_t>("mul.hi.u32 %to, %a, %b;", u32{~0u}, u32{~0u}), (u32{~0u - 1}));
  EXPECT_EQ(lanes_of<std::uint64_t>("mul.hi.u64 %to, %a, %b;", u64{~0ull}, u64{16}), (u64{15}));
  EXPECT_EQ(lanes_of<std::int64_t>("mul.hi.s64 %to, %a, %b;", s64{-1}, s64{16}), (s64{-1}));
  EXPECT_EQ(lanes_of<std::int64_t>("mul.wide.s32 %to, %a, %b;", s32{lowest, -3}, s32{lowest, 7}),
            (s64{std::int64_t{1} << 62, -21}));
  EXPECT_EQ(lanes_of<std::uint64_t>("mul.wide.u32 %to, %a, %b;", u32{~0u}, u32{~0u}), (u64{0xfffffffe00000001}));
  EXPECT_EQ(lanes_of<std::uint32_t>("mul.wide.u16 %to, %a, %b;", u16{65535}, u16{65535}), (u32{0xfffe0001}));
  EXPECT_EQ(lanes_of<std::int64_t>("mad.wide.s32 %to, %a, %b, %c;", s32{-3}, s32{7}, s64{1}), (s64{-20}));
  EXPECT_EQ(lanes_of<std::int64_t>("mad.lo.s64 %to, %a, %b, %c;", s64{-3}, s64{7}, s64{1}), (s64{-20}));
}

TEST(ptx_integer, quotients_go_towards_zero) {
  EXPECT_EQ(lanes_of<std::int32_t>("div.s32 %to, %a, %b;", s32{-7, 7, lowest}, s32{2, -2, -1}), (s32{-3, -3, lowest}));
  EXPECT_EQ(lanes_of<std::int32_t>("rem.s32 %to, %a, %b;", s32{-7, 7, lowest}, s32{2, -2, -1}), (s32{-1, 1, 0}));
  EXPECT_EQ(lanes_of<std::uint32_t>("div.u32 %to, %a, %b;", u32{~0u}, u32{2}), (u32{0x7fffffff}));
  EXPECT_EQ(lanes_of<std::uint64_t>("rem.u64 %to, %a, %b;", u64{~0ull}, u64{10}), (u64{5}));
}

TEST(ptx_integer, shifts_beyond_the_width_leave_zeros_or_the_sign) {
  EXPECT_EQ(lanes_of<std::uint32_t>("shl.b32 %to, %a, %b;", u32{3, 3, 3, 3}, u32{1, 31, 32, 4000000000u}),
            (u32{6, 0x80000000, 0, 0}));
  EXPECT_EQ(lanes_of<std::uint32_t>("shr.u32 %to, %a, %b;", u32{0x80000000, 0x80000000}, u32{31, 32}), (u32{1, 0}));
  EXPECT_EQ(lanes_of<std::int32_t>("shr.s32 %to, %a, %b;", s32{-8, -8, 8}, u32{1, 32, 64}), (s32{-4, -1, 0}));
  EXPECT_EQ(lanes_of<std::uint64_t>("shl.b64 %to, %a, %b;", u64{1, 1}, u32{63, 64}), (u64{1ull << 63, 0}));
  EXPECT_EQ(lanes_of<std::int64_t>("shr.s64 %to, %a, %b;", s64{-8}, u32{100}), (s64{-1}));
  EXPECT_EQ(lanes_of<std::uint32_t>("shf.l.wrap.b32 %to, %a, %b, %c;", u32{0x12345678}, u32{0x9abcdef0}, u32{40}),
            (u32{0xbcdef012}));
  EXPECT_EQ(lanes_of<std::uint32_t>("shf.r.clamp.b32 %to, %a, %b, %c;", u32{0x12345678}, u32{0x9abcdef0}, u32{40}),
            (u32{0x9abcdef0}));
}

TEST(ptx_integer, bits_are_counted_extracted_and_inserted) {
  EXPECT_EQ(lanes_of<std::uint32_t>("popc.b64 %to, %a;", u64{~0ull, 5}), (u32{64, 2}));
  EXPECT_EQ(lanes_of<std::uint32_t>("clz.b32 %to, %a;", u32{0, 1}), (u32{32, 31}));
  EXPECT_EQ(lanes_of<std::uint32_t>("brev.b32 %to, %a;", u32{1}), (u32{0x80000000}));
  EXPECT_EQ(lanes_of<std::uint32_t>("bfind.u32 %to, %a;", u32{0, 0x1000}), (u32{~0u, 12}));
  EXPECT_EQ(lanes_of<std::uint32_t>("bfe.u32 %to, %a, %b, %c;", u32{0xabcd1234, 0xabcd1234}, u32{8, 28}, u32{8, 16}),
            (u32{0x12, 0xa}));
  EXPECT_EQ(lanes_of<std::int32_t>("bfe.s32 %to, %a, %b, %c;", s32{0x00f0, 0x00f0}, u32{4, 4}, u32{4, 0}),
            (s32{-1, 0}));
  EXPECT_EQ(lanes_of<std::uint32_t>("bfi.b32 %to, %a, %b, %c, 4;", u32{0xf}, u32{0}, u32{8}), (u32{0xf00}));
  EXPECT_EQ(lanes_of<std::uint32_t>("prmt.b32 %to, %a, %b, %c;", u32{0x33221180}, u32{0x77665544}, u32{0x8740}),
            (u32{0xff774480}));
  EXPECT_EQ(lanes_of<std::uint32_t>("lop3.b32 %to, %a, %b, %c, 0x96;", u32{0b1100}, u32{0b1010}, u32{0b1111}),
            (u32{0b1001}));
  EXPECT_EQ(lanes_of<std::uint32_t>("not.b32 %to, %a;", u32{1}), (u32{~1u}));
  EXPECT_EQ(lanes_of<std::int32_t>("min.s32 %to, %a, %b;", s32{-1}, s32{1}), (s32{-1}));
  EXPECT_EQ(lanes_of<std::uint32_t>("min.u32 %to, %a, %b;", u32{~0u}, u32{1}), (u32{1}));
}

TEST(ptx_integer, registers_are_cut_and_joined) {
  EXPECT_EQ(lanes_of<std::uint64_t>("mov.b64 %to, {%a, %b};", u32{1}, u32{2}), (u64{0x200000001}));
  EXPECT_EQ(lanes_of<std::uint32_t>("mov.b32 {%a, %b}, %c; mov.b32 %to, {%b, %a};", u16{0}, u16{0}, u32{0x12345678}),
            (u32{0x56781234}));
  EXPECT_EQ(lanes_of<std::uint32_t>("mov.b64 {_, %to}, %a;", u64{0x700000001}), (u32{7}));
}

TEST(ptx_float, sums_round_as_they_say) {
  const f32 a{1, -1}, b{0x1p-30f, -0x1p-30f};
  EXPECT_EQ(lanes_of<float>("add.rn.f32 %to, %a, %b;", a, b), (f32{1, -1}));
  EXPECT_EQ(lanes_of<float>("add.rz.f32 %to, %a, %b;", a, b), (f32{1, -1}));
  EXPECT_EQ(lanes_of<float>("add.rm.f32 %to, %a, %b;", a, b), (f32{1, -1 - 0x1p-23f}));
  EXPECT_EQ(lanes_of<float>("add.rp.f32 %to, %a, %b;", a, b), (f32{1 + 0x1p-23f, -1}));
  EXPECT_EQ(lanes_of<double>("add.rp.f64 %to, %a, %b;", f64{1}, f64{0x1p-80}), (f64{1 + 0x1p-52}));
  EXPECT_EQ(lanes_of<float>("div.rz.f32 %to, %a, %b;", f32{2}, f32{3}), (f32{0x1.555554p-1f}));
  EXPECT_EQ(lanes_of<float>("div.rp.f32 %to, %a, %b;", f32{2}, f32{3}), (f32{0x1.555556p-1f}));
}

TEST(ptx_float, multiply_add_rounds_once) {
  const float x = 1 + 0x1p-12f;
  EXPECT_EQ(lanes_of<float>("fma.rn.f32 %to, %a, %b, %c;", f32{x}, f32{x}, f32{-1}), (f32{0x1p-11f + 0x1p-24f}));
  EXPECT_EQ(lanes_of<float>("mul.rn.f32 %a, %a, %b; add.rn.f32 %to, %a, %c;", f32{x}, f32{x}, f32{-1}),
            (f32{0x1p-11f}));
  EXPECT_EQ(lanes_of<float>("fma.rm.f32 %to, %a, %b, %c;", f32{-1}, f32{0x1p-40f}, f32{1}), (f32{1 - 0x1p-24f}));
  EXPECT_EQ(lanes_of<double>("fma.rn.f64 %to, %a, %b, %c;", f64{1 + 0x1p-30}, f64{1 + 0x1p-30}, f64{-1}),
            (f64{0x1p-29 + 0x1p-60}));
}

TEST(ptx_float, subnormals_stay_unless_they_are_flushed) {
  EXPECT_EQ(lanes_of<float>("add.f32 %to, %a, %b;", f32{0x1p-140f}, f32{0x1p-140f}), (f32{0x1p-139f}));
  EXPECT_EQ(bits(lanes_of<float>("add.ftz.f32 %to, %a, %b;", f32{0x1p-140f, -0x1p-140f}, f32{0x1p-140f, -0x1p-140f})),
            bits({0.0f, -0.0f}));
  EXPECT_EQ(lanes_of<float>("mul.ftz.f32 %to, %a, %b;", f32{0x1p-100f}, f32{0x1p-40f}), (f32{0}));
}

TEST(ptx_float, saturation_keeps_results_within_one) {
  EXPECT_EQ(lanes_of<float>("add.sat.f32 %to, %a, %b;", f32{1, -1, nan, 0.25f}, f32{1, 0, 0, 0.5f}),
            (f32{1, 0, 0, 0.75f}));
}

TEST(ptx_float, minimum_and_maximum_prefer_numbers_to_nan) {
  const f32 a{1, nan, -0.0f, nan}, b{2, 3, 0.0f, nan};
  EXPECT_EQ(bits(lanes_of<float>("min.f32 %to, %a, %b;", a, b)), bits({1, 3, -0.0f, nan}));
  EXPECT_EQ(bits(lanes_of<float>("max.f32 %to, %a, %b;", a, b)), bits({2, 3, 0.0f, nan}));
  EXPECT_TRUE(std::isnan(lanes_of<float>("min.NaN.f32 %to, %a, %b;", a, b)[1]));
}

TEST(ptx_float, functions) {
  EXPECT_EQ(lanes_of<float>("ex2.approx.f32 %to, %a;", f32{3, -infinity, 0}), (f32{8, 0, 1}));
  EXPECT_EQ(lanes_of<float>("ex2.approx.ftz.f32 %to, %a;", f32{-130}), (f32{0}));
  EXPECT_EQ(lanes_of<float>("lg2.approx.f32 %to, %a;", f32{8, 0}), (f32{3, -infinity}));
  EXPECT_EQ(lanes_of<float>("rsqrt.approx.f32 %to, %a;", f32{4, 0, -0.0f}), (f32{0.5f, infinity, -infinity}));
  EXPECT_EQ(lanes_of<float>("sqrt.rn.f32 %to, %a;", f32{2}), (f32{0x1.6a09e6p+0f}));
  EXPECT_EQ(lanes_of<float>("rcp.rn.f32 %to, %a;", f32{4, 0}), (f32{0.25f, infinity}));
  EXPECT_TRUE(std::isnan(lanes_of<float>("sqrt.rn.f32 %to, %a;", f32{-1})[0]));
  EXPECT_EQ(bits(lanes_of<float>("copysign.f32 %to, %a, %b;", f32{-0.0f}, f32{3})), bits({-3}));
  EXPECT_EQ(bits(lanes_of<float>("neg.f32 %to, %a;", f32{0})), bits({-0.0f}));
  EXPECT_EQ(lanes_of<float>("abs.f32 %to, %a;", f32{-2}), (f32{2}));
  const double rough = lanes_of<double>("rcp.approx.ftz.f64 %to, %a;", f64{3})[0];
  EXPECT_NEAR(rough, 1.0 / 3, 1e-6);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(rough) & 0xffffffff, 0u) << "only the upper word is approximated";
}

TEST(ptx_float, numbers_of_16_bits) {
  constexpr std::uint16_t one = 0x3f80, three = 0x4040;  // bfloat16
  EXPECT_EQ(lanes_of<std::uint16_t>("fma.rn.bf16 %to, %a, %b, %c;", u16{three}, u16{three}, u16{one}),
            (u16{0x4120}));  // 10
  EXPECT_EQ(
      lanes_of<std::uint32_t>("fma.rn.bf16x2 %to, %a, %b, %c;", u32{0x3f804040}, u32{0x3f804040}, u32{0x00003f80}),
      (u32{0x3f804120}));
  constexpr std::uint16_t half_one = 0x3c00, half_large = 0x7bff;
  EXPECT_EQ(lanes_of<std::uint16_t>("add.f16 %to, %a, %b;", u16{half_one, half_large}, u16{half_one, half_large}),
            (u16{0x4000, 0x7c00}));
  EXPECT_EQ(lanes_of<std::uint16_t>("mul.f16 %to, %a, %b;", u16{0x0400}, u16{0x3800}), (u16{0x0200}));  // subnormal
}

TEST(ptx_comparison, nan_is_unordered) {
  const f32 a{1, 2, nan, -0.0f}, b{2, 2, 1, 0.0f};
  const auto truth = [&](const std::string& name) {
    return lanes_of<std::uint32_t>("setp." + name + ".f32 %p, %a, %b; selp.b32 %to, 1, 0, %p;", a, b);
  };
  EXPECT_EQ(truth("lt"), (u32{1, 0, 0, 0}));
  EXPECT_EQ(truth("eq"), (u32{0, 1, 0, 1}));
  EXPECT_EQ(truth("ne"), (u32{1, 0, 0, 0}));
  EXPECT_EQ(truth("ge"), (u32{0, 1, 0, 1}));
  EXPECT_EQ(truth("neu"), (u32{1, 0, 1, 0}));
  EXPECT_EQ(truth("equ"), (u32{0, 1, 1, 1}));
  EXPECT_EQ(truth("ltu"), (u32{1, 0, 1, 0}));
  EXPECT_EQ(truth("leu"), (u32{1, 1, 1, 1}));
  EXPECT_EQ(truth("gtu"), (u32{0, 0, 1, 0}));
  EXPECT_EQ(truth("geu"), (u32{0, 1, 1, 1}));
  EXPECT_EQ(truth("num"), (u32{1, 1, 0, 1}));
  EXPECT_EQ(truth("nan"), (u32{0, 0, 1, 0}));
}

TEST(ptx_comparison, integers_have_a_sign_or_none) {
  EXPECT_EQ(lanes_of<std::uint32_t>("setp.lt.s32 %p, %a, %b; selp.b32 %to, 1, 0, %p;", s32{-1}, s32{1}), (u32{1}));
  EXPECT_EQ(lanes_of<std::uint32_t>("setp.lt.u32 %p, %a, %b; selp.b32 %to, 1, 0, %p;", s32{-1}, s32{1}), (u32{0}));
  EXPECT_EQ(lanes_of<std::uint32_t>("setp.hi.u32 %p|%q, %a, %b; selp.b32 %to, 1, 0, %q;", u32{2, 1}, u32{1, 1}),
            (u32{0, 1}));
  EXPECT_EQ(lanes_of<std::uint32_t>("setp.ne.b16 %p, %a, 0; setp.eq.and.s32 %q, %b, 7, %p; selp.b32 %to, 1, 0, %q;",
                                    u16{0, 1, 1}, s32{7, 7, 8}),
            (u32{0, 1, 0}));
  EXPECT_EQ(
      lanes_of<std::uint32_t>(
          "setp.eq.s32 %p, %a, 1; setp.eq.s32 %q, %b, 1; xor.pred %p, %p, %q; not.pred %p, %p; selp.b32 %to, 1, 0, %p;",
          s32{0, 0, 1, 1}, s32{0, 1, 0, 1}),
      (u32{1, 0, 0, 1}));
}

TEST(ptx_convert, integers_are_cut_and_extended) {
  EXPECT_EQ(lanes_of<std::int32_t>("cvt.s32.s8 %to, %a;", s32{0x1ff, 0x17f}), (s32{-1, 127}));
  EXPECT_EQ(lanes_of<std::uint32_t>("cvt.u32.u8 %to, %a;", u16{0x1ff}), (u32{255}));
  EXPECT_EQ(lanes_of<std::int64_t>("cvt.s64.s32 %to, %a;", s32{-5}), (s64{-5}));
  EXPECT_EQ(lanes_of<std::uint64_t>("cvt.u64.u32 %to, %a;", s32{-5}), (u64{0xfffffffb}));
  EXPECT_EQ(lanes_of<std::uint32_t>("cvt.u32.u64 %to, %a;", u64{0x1234567890}), (u32{0x34567890}));
  EXPECT_EQ(lanes_of<std::int32_t>("cvt.sat.s8.s32 %to, %a;", s32{1000, -1000, 5}), (s32{127, -128, 5}));
}

TEST(ptx_convert, floats_become_integers_in_range) {
  const f32 a{2.5f, -2.5f, 3.5f, nan, 1e20f, -infinity};
  EXPECT_EQ(lanes_of<std::int32_t>("cvt.rni.s32.f32 %to, %a;", a), (s32{2, -2, 4, 0, highest, lowest}));
  EXPECT_EQ(lanes_of<std::int32_t>("cvt.rzi.s32.f32 %to, %a;", a), (s32{2, -2, 3, 0, highest, lowest}));
  EXPECT_EQ(lanes_of<std::int32_t>("cvt.rmi.s32.f32 %to, %a;", a), (s32{2, -3, 3, 0, highest, lowest}));
  EXPECT_EQ(lanes_of<std::int32_t>("cvt.rpi.s32.f32 %to, %a;", a), (s32{3, -2, 4, 0, highest, lowest}));
  EXPECT_EQ(lanes_of<std::uint32_t>("cvt.rzi.u32.f32 %to, %a;", f32{-3, 3e9f}), (u32{0, 3000000000u}));
  EXPECT_EQ(lanes_of<std::int64_t>("cvt.rzi.s64.f64 %to, %a;", f64{-1e18, 1e30}),
            (s64{-1000000000000000000, std::numeric_limits<std::int64_t>::max()}));
  EXPECT_EQ(lanes_of<float>("cvt.rmi.f32.f32 %to, %a;", f32{-1.5f, 1.5f}), (f32{-2, 1}));
  EXPECT_EQ(lanes_of<float>("cvt.sat.f32.f32 %to, %a;", f32{-1.5f, 0.5f, 7, nan}), (f32{0, 0.5f, 1, 0}));
}

TEST(ptx_convert, integers_become_floats_by_rounding) {
  EXPECT_EQ(lanes_of<float>("cvt.rn.f32.s32 %to, %a;", s32{16777217, -16777219}), (f32{16777216, -16777220}));
  EXPECT_EQ(lanes_of<float>("cvt.rz.f32.s32 %to, %a;", s32{16777219, -16777219}), (f32{16777218, -16777218}));
  EXPECT_EQ(lanes_of<float>("cvt.rp.f32.u32 %to, %a;", u32{16777217}), (f32{16777218}));
  EXPECT_EQ(lanes_of<double>("cvt.rn.f64.u64 %to, %a;", u64{~0ull}), (f64{0x1p64}));
}

TEST(ptx_convert, between_floats) {
  EXPECT_EQ(lanes_of<float>("cvt.rn.f32.f64 %to, %a;", f64{1 + 0x1p-30}), (f32{1}));
  EXPECT_EQ(lanes_of<float>("cvt.rp.f32.f64 %to, %a;", f64{1 + 0x1p-30}), (f32{1 + 0x1p-23f}));
  EXPECT_EQ(lanes_of<double>("cvt.f64.f32 %to, %a;", f32{0.1f}), (f64{static_cast<double>(0.1f)}));
  // halfway cases go to even
  EXPECT_EQ(lanes_of<std::uint16_t>("cvt.rn.bf16.f32 %to, %a;", f32{1 + 0x1p-8f, 1 + 0x1.8p-7f, nan}),
            (u16{0x3f80, 0x3f82, 0x7fff}));
  EXPECT_EQ(lanes_of<std::uint16_t>("cvt.rz.bf16.f32 %to, %a;", f32{1 + 0x1.8p-7f}), (u16{0x3f81}));
  EXPECT_EQ(lanes_of<std::uint32_t>("cvt.rn.bf16x2.f32 %to, %a, %b;", f32{1}, f32{3}), (u32{0x3f804040}));
  EXPECT_EQ(lanes_of<std::uint16_t>("cvt.rn.f16.f32 %to, %a;", f32{1, 65520, 65519, 0x1p-24f, 0x1p-25f, -2}),
            (u16{0x3c00, 0x7c00, 0x7bff, 1, 0, 0xc000}));
  EXPECT_EQ(lanes_of<float>("cvt.f32.f16 %to, %a;", u16{0x3c01, 0x0001, 0xfc00}),
            (f32{1 + 0x1p-10f, 0x1p-24f, -infinity}));
  EXPECT_EQ(lanes_of<float>("cvt.f32.bf16 %to, %a;", u16{0x4049}), (f32{3.140625f}));
  EXPECT_EQ(lanes_of<std::uint32_t>("cvt.rna.tf32.f32 %to, %a;", f32{1 + 0x1p-11f}), (u32{0x3f802000}));
}

}  // namespace
}  // namespace nullscope::ptx
