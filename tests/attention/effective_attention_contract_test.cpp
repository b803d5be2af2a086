/// The contract of effective attention: determinism, dependencies, workspace, and what it refuses.
#include <fmt/format.h>

#include <nullscope/attention/effective_attention.hpp>

#include "tests/attention/effective_attention_support.hpp"

namespace nullscope::test {
namespace {

TEST_P(effective_attention_test, is_the_same_to_the_bit_in_every_run) {
  const head_shape s{4, 200, 200, 16, 16, 32};
  const head_data<float> data = make_data<float>(s);
  const auto first = compute(ctx_, data, s), second = compute(ctx_, data, s);
  EXPECT_EQ(first.p.to_host(), second.p.to_host());
  EXPECT_EQ(first.received_raw.to_host(), second.received_raw.to_host());
  EXPECT_EQ(first.summary[0].pearson, second.summary[0].pearson);
}

/// The results on views that must be there.
struct required_results {
  required_results(const context& ctx, std::int64_t heads, std::int64_t queries, std::int64_t keys,
                   std::int64_t columns)
      : p(ctx, {heads, queries, columns}),
        u(ctx, {heads, keys, columns}),
        s(ctx, {heads, columns}),
        log_sum_exp(ctx, {heads, queries}),
        rank(ctx, {heads}),
        status(ctx, {heads}) {}

  effective_attention_results<float> views() {
    return {.p = p, .u = u, .s = s, .rank = rank, .status = status, .log_sum_exp = log_sum_exp};
  }

  tensor<float> p, u, s, log_sum_exp;
  tensor<std::int64_t> rank;
  tensor<std::int32_t> status;
};

TEST_P(effective_attention_test, waits_for_its_dependencies) {
  sycl::queue queue(GetParam());  // out of order
  context ctx(queue);
  const head_shape s{2, 100, 100, 16, 8, 24};
  const head_data<float> data = make_data<float>(s);
  const auto expected = compute(ctx_, data, s);
  const tensor<float> source(ctx, {2, 100, 16}, data.q), k(ctx, {2, 100, 16}, data.k), v(ctx, {2, 100, 8}, data.v),
      h(ctx, {2, 8, 24}, data.h);
  tensor<float> q(ctx, {2, 100, 16});
  required_results results(ctx, 2, 100, 100, 8);
  for (int run = 0; run < 5; ++run) {
    const auto bytes = static_cast<std::size_t>(q.size()) * sizeof(float);
    queue.fill(q.data(), NAN, static_cast<std::size_t>(q.size())).wait();
    tensor<float> slow(ctx, {1 << 24});
    const sycl::event busy = queue.fill(slow.data(), 1.0f, static_cast<std::size_t>(slow.size()));
    const sycl::event ready = queue.memcpy(q.data(), source.data(), bytes, busy);
    effective_attention(ctx, {q, k, v, h}, results.views(), {}, {ready}).wait_and_throw();
    ASSERT_EQ(results.p.to_host(), expected.p.to_host());
  }
}

TEST_P(effective_attention_test, the_workspace_of_a_dry_run_is_enough_and_not_too_much) {
  const head_shape s{2, 40, 40, 8, 16, 300};
  const head_data<float> data = make_data<float>(s);
  const tensor<float> q(ctx_, {2, 40, 8}, data.q), k(ctx_, {2, 40, 8}, data.k), v(ctx_, {2, 40, 16}, data.v),
      h(ctx_, {2, 16, 300}, data.h);
  required_results results(ctx_, 2, 40, 40, 16);
  const auto run = [&](context& ctx) { effective_attention(ctx, {q, k, v, h}, results.views()).wait_and_throw(); };
  const std::int64_t bytes = required_workspace(ctx_, [&](context& ctx) {
    effective_attention(ctx, {q, k, v, h}, results.views());
  });
  EXPECT_LT(required_workspace(ctx_,
                               [&](context& ctx) {
                                 effective_attention(ctx, {q, k, v}, results.views());
                               }),
            bytes);
  tensor<std::byte> memory(ctx_, {bytes});
  ctx_.use_workspace(memory.span());
  run(ctx_);
  EXPECT_EQ(results.p.to_host(), compute(ctx_, data, s).p.to_host());
  ctx_.use_workspace(memory.span().first(static_cast<std::size_t>(bytes) / 2));
  EXPECT_EQ(message_of<invalid_argument>([&] { run(ctx_); }),
            fmt::format("effective_attention: the workspace is too small, {} bytes are needed", bytes));
}

TEST_P(effective_attention_test, refuses_values_of_another_number_of_tokens_than_keys) {
  const tensor<float> q(ctx_, {2, 100, 16});
  for (const std::int64_t tokens : {20, 99, 101, 300}) {
    const tensor<float> v(ctx_, {2, tokens, 16});
    for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{}, {15}, {100}}) {
      EXPECT_EQ(
          message_of<invalid_argument>([&] {
            effective_attention(ctx_, q, q, v, {}, {{}, lengths});
          }),
          fmt::format("effective_attention: dimension 1 of k (2, 100, 16) with strides (1600, 16, 1) differs from "
                      "dimension 1 of v (2, {}, 16) with strides ({}, 16, 1)",
                      tokens, 16 * tokens));
    }
  }
}

/// Every extent of every operand one larger, one smaller and zero, in a batch and in an empty one.
TEST_P(effective_attention_test, refuses_extents_that_do_not_agree) {
  using shape = std::vector<std::int64_t>;
  const auto message = [&](const std::vector<shape>& of, const std::vector<std::int64_t>& lengths) {
    return message_of<invalid_argument>([&] {
      effective_attention(ctx_, tensor<float>(ctx_, of[0]), tensor<float>(ctx_, of[1]), tensor<float>(ctx_, of[2]),
                          tensor<float>(ctx_, of[3]), {{}, lengths});
    });
  };
  const char* names[] = {"q", "k", "v", "h"};
  for (const std::int64_t batch : {2, 0}) {
    const std::vector<shape> fitting{{batch, 3, 12, 8}, {batch, 3, 12, 8}, {batch, 3, 12, 5}, {3, 5, 7}};
    const std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch), 4);
    for (std::size_t operand = 0; operand < 4; ++operand) {
      for (std::size_t d = 0; d < fitting[operand].size(); ++d) {
        const std::int64_t extent = fitting[operand][d];
        for (const std::int64_t wrong : {extent + 1, extent - 1, std::int64_t{0}}) {
          const bool is_model_width = operand == 3 && d == 2, is_query = operand == 0 && d == 2;
          if (wrong < 0 || wrong == extent || (is_model_width && wrong > 0)) continue;
          if (is_query && lengths.empty()) continue;  // then it need not be that of the keys
          std::vector<shape> changed = fitting;
          changed[operand][d] = wrong;
          const std::string text = message(changed, lengths);
          EXPECT_EQ(text.find("effective_attention: "), 0) << text;
          EXPECT_NE(text.find(std::string(" ") + names[operand] + " "), std::string::npos)
              << names[operand] << " with " << wrong << " in dimension " << d << ": " << text;
        }
      }
    }
  }
}

TEST_P(effective_attention_test, takes_an_empty_batch) {
  const tensor<float> q(ctx_, {0, 3, 12, 8}), v(ctx_, {0, 3, 12, 5});
  const auto result = effective_attention(ctx_, q, q, v);
  EXPECT_EQ(result.p.shape(), (std::vector<std::int64_t>{0, 3, 12, 5}));
  EXPECT_TRUE(result.rank.empty());
}

TEST_P(effective_attention_test, takes_heads_without_queries) {
  context ctx{sycl::queue(GetParam())};  // out of order
  const head_shape s{2, 0, 50, 8, 5, 12};
  const auto result = compute(ctx, make_data<float>(s), s);
  EXPECT_EQ(result.p.shape(), (std::vector<std::int64_t>{2, 0, 5}));
  EXPECT_EQ(result.rank, (std::vector<std::int64_t>{5, 5}));
  EXPECT_EQ(result.received_raw.to_host(), std::vector<float>(100, 0.0f));
  EXPECT_EQ(result.received_effective.to_host(), std::vector<float>(100, 0.0f));
  for (const auto& summary : result.summary) {
    EXPECT_TRUE(std::isnan(summary.pearson));
    EXPECT_EQ(summary.raw_norm, 0);
    EXPECT_EQ(summary.effective_norm, 0);
  }
}

TEST_P(effective_attention_test, refuses_shapes_that_do_not_fit) {
  const tensor<float> q(ctx_, {2, 4, 8}), k(ctx_, {2, 5, 8}), v(ctx_, {2, 5, 3}), h(ctx_, {2, 4, 6});
  const auto message = [&](auto call) { return message_of<invalid_argument>(call); };
  EXPECT_NE(
      message([&] { effective_attention(ctx_, q, k, v, h); })
          .find("effective_attention: dimension 2 of v (2, 5, 3) with strides (15, 3, 1) differs from dimension 1 "
                "of h (2, 4, 6)"),
      std::string::npos);
  EXPECT_NE(message([&] {
              effective_attention(ctx_, q, k, v, {}, {{}, {4}});
            }).find("differ in their tokens"),
            std::string::npos);
  EXPECT_NE(message([&] {
              effective_attention(ctx_, k, k, v, {}, {{}, {6}});
            }).find("a length of 6 in sequences of 5 tokens"),
            std::string::npos);
  for (const std::int64_t length : {0, -1}) {
    EXPECT_EQ(message([&] {
                effective_attention(ctx_, k, k, v, {}, {{}, {length}});
              }),
              fmt::format("effective_attention: a length of {} in sequences of 5 tokens", length));
  }
  EXPECT_NE(message([&] {
              effective_attention(ctx_, k, k, v, {}, {{}, {1, 2}});
            }).find("2 lengths for 1 sequence"),
            std::string::npos);
  EXPECT_NE(message([&] {
              effective_attention(ctx_, tensor<float>(ctx_, {2, 3}), k, v);
            }).find("q [2, 3] should be [batch, heads, S, d] or [heads, S, d]"),
            std::string::npos);
  EXPECT_EQ(message([&] {
              effective_attention(ctx_, q, k, v, tensor<float>(ctx_, {3, 6}));
            }),
            "effective_attention: h [3, 6] should be [heads, d_v, d]");
  EXPECT_NE(message([&] {
              effective_attention(ctx_, q, k, v, tensor<float>(ctx_, {2, 3, 0}));  // no T = v by mistake
            }).find("or h has no columns"),
            std::string::npos);
  EXPECT_EQ(message([&] {
              effective_attention(ctx_, q, k, v, tensor<float>(ctx_, {0, 0, 0}));
            }),
            "effective_attention: h (0, 0, 0) with strides (0, 0, 1) is empty");
  const tensor<float> wide(ctx_, {1, 600, 513});
  EXPECT_NE(message([&] {
              effective_attention(ctx_, wide, wide, tensor<float>(ctx_, {1, 600, 3}));
            }).find("effective_attention: q (1, 600, 513) with strides (307800, 513, 1) has heads of more than 512"),
            std::string::npos);
  EXPECT_NE(message([&] {
              const tensor<float> narrow(ctx_, {1, 600, 4});
              effective_attention(ctx_, narrow, narrow, wide);
            }).find("and h give a basis of 513 columns, more than 512"),
            std::string::npos);
}

TEST_P(effective_attention_test, refuses_a_basis_whose_columns_are_not_adjacent_before_it_writes) {
  const tensor<float> q(ctx_, {1, 1, 8}), k(ctx_, {1, 50, 8}), v(ctx_, {1, 50, 4});
  tensor<float> p(ctx_, {1, 1, 4}), u(ctx_, {1, 4, 50}, std::vector<float>(200, 7)), s(ctx_, {1, 4}),
      log_sum_exp(ctx_, {1, 1});
  tensor<std::int64_t> rank(ctx_, {1});
  tensor<std::int32_t> status(ctx_, {1});
  EXPECT_EQ(
      message_of<invalid_argument>([&] {
        effective_attention(
            ctx_, {q, k, v},
            {.p = p, .u = transposed(u.as<3>()), .s = s, .rank = rank, .status = status, .log_sum_exp = log_sum_exp});
      }),
      "effective_attention: u (1, 50, 4) with strides (200, 1, 50) has columns that are not adjacent: the last "
      "stride must be 1");
  EXPECT_EQ(u.to_host(), std::vector<float>(200, 7));
}

}  // namespace
}  // namespace nullscope::test
