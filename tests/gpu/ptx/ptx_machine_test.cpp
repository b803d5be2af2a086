/// Flow, memory, what warps do together, and the counts.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/gpu/ptx/ptx_program.hpp"

namespace nullscope::ptx {
namespace {

using s32 = std::vector<std::int32_t>;
using u32 = std::vector<std::uint32_t>;
using u64 = std::vector<std::uint64_t>;

u32 lane_numbers() {
  u32 result(lanes);
  std::iota(result.begin(), result.end(), 0u);
  return result;
}
template <class F>
u32 of_lanes(F f) {
  u32 result;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) result.push_back(f(lane));
  return result;
}

std::string message_of(const std::string& body, std::uint32_t items = lanes) {
  try {
    run_program(".visible .entry test()\n{\n" + body + "\n}\n", {}, items);
  } catch (const failure& why) {
    return why.what();
  }
  return "";
}

TEST(ptx_flow, branches_part_lanes_and_they_meet_again) {
  const std::string code = R"(
    setp.lt.u32 %p, %lane, 10;
    @%p bra small;
    mov.u32 %to, 2;
    bra joined;
  small:
    mov.u32 %to, 1;
  joined:
    add.u32 %to, %to, 10;)";
  EXPECT_EQ(lanes_of<std::uint32_t>(code), of_lanes([](std::uint32_t l) { return l < 10 ? 11u : 12u; }));
}

TEST(ptx_flow, loops_run_as_often_as_each_lane_wants) {
  const std::string code = R"(
    .reg .u32 %i;
    mov.u32 %i, 0; mov.u32 %to, 0;
  again:
    setp.ge.u32 %p, %i, %lane;
    @%p bra done;
    add.u32 %i, %i, 1; add.u32 %to, %to, %i;
    bra again;
  done:)";
  EXPECT_EQ(lanes_of<std::uint32_t>(code), of_lanes([](std::uint32_t l) { return l * (l + 1) / 2; }));
}

TEST(ptx_flow, tables_of_labels_and_lanes_that_leave) {
  const std::string code = R"(
    table: .branchtargets one, two, three;
    mov.u32 %to, 7;
    .reg .u32 %i;
    rem.u32 %i, %lane, 3;
    brx.idx %i, table;
  one: mov.u32 %to, 1; bra out;
  two: mov.u32 %to, 2; bra out;
  three: exit;
  out:)";
  EXPECT_EQ(lanes_of<std::uint32_t>(code), of_lanes([](std::uint32_t l) { return l % 3 == 2 ? 0u : l % 3 + 1; }));
}

TEST(ptx_flow, calls_pass_scalars_and_arrays) {
  const std::string program = R"(
    .func (.param .b32 result) twice(.param .b32 x)
    { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.s32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret; }
    .func (.param .align 8 .b8 result[8]) pair(.param .b32 x)
    { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.s32 %r2, %r1, 1; st.param.v2.b32 [result], {%r1, %r2}; ret; }
    .visible .entry test(.param .u64 p0)
    {
      .reg .b32 %r<9>; .reg .b64 %rd<3>;
      mov.u32 %r1, %laneid;
      { .param .b32 given; .param .b32 returned; st.param.b32 [given], %r1;
        call.uni (returned), twice, (given); ld.param.b32 %r2, [returned]; }
      { .param .b32 given; .param .align 8 .b8 returned[8]; st.param.b32 [given], %r2;
        call.uni (returned), pair, (given); ld.param.b32 %r3, [returned+4]; }
      ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd1, %r1, 4, %rd1; st.global.b32 [%rd1], %r3; ret;
    })";
  u32 got(lanes);
  run_program(program, {got.data()});
  EXPECT_EQ(got, of_lanes([](std::uint32_t l) { return 2 * l + 1; }));
}

TEST(ptx_memory, loads_extend_to_their_register) {
  const s32 from{-2};
  EXPECT_EQ(lanes_of<std::int32_t>("ld.global.s8 %to, [%a];", std::vector<const void*>{from.data()}), (s32{-2}));
  EXPECT_EQ(lanes_of<std::int32_t>("ld.global.u8 %to, [%a];", std::vector<const void*>{from.data()}), (s32{254}));
  EXPECT_EQ(lanes_of<std::int64_t>("ld.global.s32 %to, [%a];", std::vector<const void*>{from.data()}),
            (std::vector<std::int64_t>{-2}));
}

TEST(ptx_memory, vectors_are_neighbours) {
  alignas(16) const std::uint32_t from[] = {1, 2, 3, 4};
  const std::string code =
      ".reg .b32 %x<4>; ld.global.v4.u32 {%x0, %x1, %x2, %x3}, [%a]; mad.lo.u32 %to, %x3, 10, %x1;";
  EXPECT_EQ(lanes_of<std::uint32_t>(code, std::vector<const void*>{from}), (u32{42}));
  EXPECT_NE(message_of(".reg .b64 %a; .reg .b32 %x<2>; mov.u64 %a, 65540; ld.global.v2.u32 {%x0, %x1}, [%a]; ret;"),
            "");
}

TEST(ptx_memory, local_memory_belongs_to_a_lane) {
  const std::string code = R"(
    .local .align 4 .b8 mine[8];
    .reg .b64 %l, %g;
    mov.u64 %l, mine;
    st.local.u32 [%l+4], %lane;
    cvta.local.u64 %g, %l;
    ld.u32 %to, [%g+4];)";
  EXPECT_EQ(lanes_of<std::uint32_t>(code), lane_numbers());
}

TEST(ptx_memory, shared_memory_ends) {
  EXPECT_NE(message_of(".reg .b64 %a; mov.u64 %a, 0; st.shared.u32 [%a], 1; ret;").find("of shared memory"),
            std::string::npos);
  EXPECT_NE(message_of(".local .align 4 .b8 mine[8]; .reg .b64 %a; mov.u64 %a, 16; st.local.u32 [%a], 1; ret;"), "");
  EXPECT_NE(message_of(".reg .b64 %a; mov.u64 %a, 8; st.global.u32 [%a], 1; ret;"), "");
}

/// Every work-item writes, all wait, every one reads its opposite; also through generic addresses.
TEST(ptx_memory, barriers_order_the_warps_of_a_group) {
  const std::string program = R"(
    .shared .align 4 .b8 common[512];
    .visible .entry test(.param .u64 p0)
    {
      .reg .b32 %r<4>; .reg .b64 %rd<9>;
      mov.u32 %r1, %tid.x;
      mov.u64 %rd1, common;
      mad.wide.u32 %rd2, %r1, 4, %rd1;
      st.shared.u32 [%rd2], %r1;
      bar.sync 0;
      sub.u32 %r2, 127, %r1;
      cvta.shared.u64 %rd3, %rd1;
      mad.wide.u32 %rd4, %r2, 4, %rd3;
      ld.u32 %r3, [%rd4];
      ld.param.u64 %rd5, [p0]; mad.wide.u32 %rd6, %r1, 4, %rd5; st.global.u32 [%rd6], %r3;
      ret;
    })";
  u32 got(128);
  run_program(program, {got.data()}, 128);
  for (std::uint32_t i = 0; i < 128; ++i) EXPECT_EQ(got[i], 127 - i);
  std::string without = program;
  without.erase(without.find("bar.sync 0;"), 11);
  run_program(without, {got.data()}, 128);
  EXPECT_NE(got[0], 127u) << "a missing barrier must show";
}

TEST(ptx_memory, different_barriers_are_an_error) {
  const std::string code = R"(
    .reg .b32 %r; .reg .pred %p;
    mov.u32 %r, %tid.x; setp.lt.u32 %p, %r, 32;
    @%p bra first;
    bar.sync 0; ret;
  first: bar.sync 0; ret;)";
  EXPECT_NE(message_of(code, 64).find("different barriers"), std::string::npos);
}

TEST(ptx_memory, asynchronous_copies_arrive_when_they_are_waited_for) {
  alignas(16) const std::uint32_t from[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto program = [](const std::string& wait) {
    return R"(
    .shared .align 16 .b8 to[32];
    .visible .entry test(.param .u64 p0, .param .u64 p1)
    {
      .reg .b32 %r<4>; .reg .b64 %rd<9>;
      mov.u64 %rd1, to; ld.param.u64 %rd2, [p1];
      st.shared.u32 [%rd1], 100; st.shared.u32 [%rd1+20], 200;
      cp.async.cg.shared.global [%rd1], [%rd2], 16;
      cp.async.commit_group;
      add.u64 %rd3, %rd1, 16; add.u64 %rd4, %rd2, 16;
      cp.async.cg.shared.global [%rd3], [%rd4], 16, 4;
      cp.async.commit_group;
      )" + wait +
           R"(
      ld.shared.u32 %r1, [%rd1]; ld.shared.u32 %r2, [%rd1+20];
      ld.param.u64 %rd5, [p0]; st.global.u32 [%rd5], %r1; st.global.u32 [%rd5+4], %r2; ret;
    })";
  };
  u32 got(2);
  const auto run = [&](const std::string& wait) { return run_program(program(wait), {got.data(), from}, 1), got; };
  EXPECT_EQ(run(""), (u32{100, 200}));
  EXPECT_EQ(run("cp.async.wait_group 1;"), (u32{1, 200}));
  EXPECT_EQ(run("cp.async.wait_group 0;"), (u32{1, 0})) << "what is not copied becomes zeros";
  EXPECT_EQ(run("cp.async.wait_all;"), (u32{1, 0}));
}

TEST(ptx_memory, atomics_give_what_was_there) {
  std::uint32_t sum = 5;
  const u32 before = lanes_of<std::uint32_t>("atom.global.add.u32 %to, [%a], 2;", std::vector<const void*>{&sum});
  EXPECT_EQ(sum, 5u + 64);
  EXPECT_EQ(before[0], 5u);
  std::int32_t least = 7;
  lanes_of<std::uint32_t>("mov.u32 %to, 0; .reg .s32 %n; neg.s32 %n, %lane; red.global.min.s32 [%a], %n;",
                          std::vector<const void*>{&least});
  EXPECT_EQ(least, -31);
  std::uint32_t swapped = 3;
  const u32 seen = lanes_of<std::uint32_t>("atom.cas.b32 %to, [%a], %lane, 100;", std::vector<const void*>{&swapped});
  EXPECT_EQ(swapped, 100u);
  float total = 1;
  lanes_of<std::uint32_t>("mov.u32 %to, 0; .reg .f32 %f; mov.f32 %f, 0f3F000000; red.global.add.f32 [%a], %f;",
                          std::vector<const void*>{&total});
  EXPECT_EQ(total, 17);
}

TEST(ptx_warp, shuffles) {
  const auto shuffled = [](const std::string& how) {
    return lanes_of<std::uint32_t>("add.u32 %to, %lane, 100; shfl.sync." + how + ", -1; selp.b32 %to, %to, 7, %p;");
  };
  EXPECT_EQ(shuffled("up.b32 %to|%p, %to, 1, 0"), of_lanes([](std::uint32_t l) { return l == 0 ? 7 : 99 + l; }));
  EXPECT_EQ(shuffled("down.b32 %to|%p, %to, 2, 31"), of_lanes([](std::uint32_t l) { return l > 29 ? 7 : 102 + l; }));
  EXPECT_EQ(shuffled("bfly.b32 %to|%p, %to, 5, 31"), of_lanes([](std::uint32_t l) { return 100 + (l ^ 5); }));
  EXPECT_EQ(shuffled("idx.b32 %to|%p, %to, 3, 31"), of_lanes([](std::uint32_t) { return 103u; }));
  // in segments of 8 lanes: bits 8 to 12 are 24
  EXPECT_EQ(shuffled("idx.b32 %to|%p, %to, 3, 6175"), of_lanes([](std::uint32_t l) { return 103 + l / 8 * 8; }));
  EXPECT_EQ(shuffled("down.b32 %to|%p, %to, 6, 6175"),
            of_lanes([](std::uint32_t l) { return l % 8 < 2 ? 106 + l : 7; }));
}

TEST(ptx_warp, votes_and_reductions) {
  EXPECT_EQ(lanes_of<std::uint32_t>("setp.lt.u32 %p, %lane, 3; vote.sync.ballot.b32 %to, %p, -1;"),
            of_lanes([](auto) { return 7u; }));
  EXPECT_EQ(lanes_of<std::uint32_t>("setp.lt.u32 %p, %lane, 3; vote.sync.any.pred %q, %p, -1; selp.b32 %to, 1, 0, %q;"),
            of_lanes([](auto) { return 1u; }));
  EXPECT_EQ(lanes_of<std::uint32_t>("setp.lt.u32 %p, %lane, 3; vote.sync.all.pred %q, %p, -1; selp.b32 %to, 1, 0, %q;"),
            of_lanes([](auto) { return 0u; }));
  EXPECT_EQ(lanes_of<std::uint32_t>("redux.sync.add.u32 %to, %lane, -1;"), of_lanes([](auto) { return 496u; }));
  EXPECT_EQ(lanes_of<std::uint32_t>(".reg .u32 %i; and.b32 %i, %lane, 1; match.any.sync.b32 %to, %i, -1;"),
            of_lanes([](std::uint32_t l) { return l % 2 == 0 ? 0x55555555u : 0xaaaaaaaau; }));
}

/// The lanes of each half shuffle among themselves, at two places of the code; a member that never comes is an error.
TEST(ptx_warp, a_mask_says_who_meets) {
  const std::string code = R"(
    setp.lt.u32 %p, %lane, 16;
    @%p bra low;
    shfl.sync.idx.b32 %to, %lane, 20, 31, 0xffff0000; bra out;
  low: shfl.sync.idx.b32 %to, %lane, 4, 31, 0xffff;
  out:)";
  EXPECT_EQ(lanes_of<std::uint32_t>(code), of_lanes([](std::uint32_t l) { return l < 16 ? 4u : 20u; }));
  const std::string alone = R"(
    .reg .b32 %r<3>; .reg .pred %p;
    mov.u32 %r1, %laneid; setp.lt.u32 %p, %r1, 16;
    @%p bra out;
    shfl.sync.idx.b32 %r2, %r1, 20, 31, -1;
  out: bar.sync 0; ret;)";
  EXPECT_NE(message_of(alone).find("never come"), std::string::npos);
}

// Counts.

counts counted_access(const std::string& access, std::uint32_t stride) {
  std::vector<float> memory(lanes * 64);
  const std::string program = R"(
    .shared .align 16 .b8 common[16384];
    .visible .entry test(.param .u64 p0)
    {
      .reg .b32 %r<6>; .reg .b64 %rd<6>;
      mov.u32 %r0, %laneid; mov.u64 %rd0, common; ld.param.u64 %rd1, [p0];
      mad.wide.u32 %rd2, %r0, )" +
                              std::to_string(stride) + R"(, %rd0; mad.wide.u32 %rd3, %r0, )" + std::to_string(stride) +
                              ", %rd1;\n" + access + "\nret;\n}";
  return run_program(program, {memory.data()});
}

TEST(ptx_counts, conflicts_of_banks) {
  EXPECT_EQ(counted_access("st.shared.b32 [%rd2], %r0;", 4).shared_conflicts, 0u);
  EXPECT_EQ(counted_access("st.shared.b32 [%rd2], %r0;", 8).shared_conflicts, 1u);
  EXPECT_EQ(counted_access("st.shared.b32 [%rd2], %r0;", 128).shared_conflicts, 31u);
  EXPECT_EQ(counted_access("st.shared.b32 [%rd2], %r0;", 132).shared_conflicts, 0u);
  EXPECT_EQ(counted_access("ld.shared.b32 %r1, [%rd2];", 0).shared_conflicts, 0u) << "all want the same word";
  const counts vectors = counted_access("ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%rd2];", 16);
  EXPECT_EQ(vectors.shared_conflicts, 0u);
  EXPECT_EQ(vectors.shared_wavefronts, 4u) << "512 bytes at 128 per cycle";
}

TEST(ptx_counts, sectors_of_global_memory) {
  const counts dense = counted_access("ld.global.b32 %r1, [%rd3];", 4);
  EXPECT_GE(dense.sectors_read, 4u);
  EXPECT_LE(dense.sectors_read, 5u) << "128 bytes that may begin inside of a sector";
  EXPECT_EQ(dense.bytes_read, 128u);
  EXPECT_EQ(counted_access("st.global.b32 [%rd3], %r0;", 64).sectors_written, 32u);
  EXPECT_EQ(counted_access("ld.global.b32 %r1, [%rd3];", 0).sectors_read, 1u);
}

TEST(ptx_counts, kinds_of_instructions) {
  const counts counted =
      counted_access("st.shared.b32 [%rd2], %r0; ld.shared.b32 %r1, [%rd2]; add.u32 %r1, %r1, 1; bar.sync 0;", 4);
  EXPECT_EQ(counted.of(kind::store_shared), 1u);
  EXPECT_EQ(counted.of(kind::load_shared), 1u);
  EXPECT_EQ(counted.of(kind::barrier), 1u);
  EXPECT_EQ(counted.of(kind::integer), 3u) << "the sum and two addresses";
  EXPECT_EQ(counted.lanes_executed, counted.total() * lanes);
}

TEST(ptx_language, what_is_not_known_is_refused) {
  EXPECT_NE(message_of("unknown.op.b32;").find("unknown.op.b32"), std::string::npos);
  EXPECT_NE(message_of(".reg .b64 %a; add.s32 %a, %a, 1; ret;").find("another size"), std::string::npos);
  EXPECT_NE(message_of("add.s32 %x, %x, 1; ret;"), "");
  EXPECT_NE(message_of("call.uni missing, (); ret;"), "");
}

}  // namespace
}  // namespace nullscope::ptx
