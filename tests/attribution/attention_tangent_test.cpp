#include <nullscope/attribution/jacobian.hpp>
#include <nullscope/core/tensor.hpp>

#include "tests/attention/attention_layouts.hpp"

namespace nullscope::test {
namespace {

struct tangent_case {
  std::int64_t tangents, batch, heads, queries, keys, dk, dv;
  bool causal = false;
  std::vector<std::int64_t> lengths = {};
  double magnitude = 1;
};

template <class T>
const T& at(const std::vector<T>& x, std::int64_t i) {
  return x[static_cast<std::size_t>(i)];
}

/// Operands on the host, each with its shape in front of the last two dimensions: (matrices, tokens, size), and for the
/// tangents (tangents, matrices, tokens, size).
template <class T>
struct host_operands {
  std::vector<T> q, k, v, dq, dk, dv;

  explicit host_operands(const tangent_case& c) {
    const std::int64_t matrices = c.batch * c.heads;
    const auto numbers = [](std::int64_t count, std::uint64_t seed, double factor = 1) {
      std::vector<T> result;
      for (const float x : random_numbers<float>(count, seed)) result.push_back(static_cast<T>(x * factor));
      return result;
    };
    q = numbers(matrices * c.queries * c.dk, 1, c.magnitude);
    k = numbers(matrices * c.keys * c.dk, 2);
    v = numbers(matrices * c.keys * c.dv, 3);
    dq = numbers(c.tangents * matrices * c.queries * c.dk, 4);
    dk = numbers(c.tangents * matrices * c.keys * c.dk, 5);
    dv = numbers(c.tangents * matrices * c.keys * c.dv, 6);
  }
};

/// d_out from the formulas, in Number: in long double the reference, in T the yardstick for errors.
template <class Number, class T>
std::vector<Number> plain_tangent(const tangent_case& c, const host_operands<T>& x) {
  const Number scale = Number(1) / std::sqrt(static_cast<Number>(c.dk));
  const std::int64_t matrices = c.batch * c.heads;
  std::vector<Number> result;
  for (std::int64_t row = 0; row < c.tangents * matrices * c.queries; ++row) {
    const std::int64_t query = row % c.queries, matrix = row / c.queries % matrices, t = row / c.queries / matrices;
    std::int64_t visible = c.lengths.empty() ? c.keys : std::min(at(c.lengths, matrix / c.heads), c.keys);
    if (c.causal) visible = std::min(visible, query + c.keys - c.queries + 1);
    const auto dot = [&](const std::vector<T>& a, std::int64_t i, const std::vector<T>& b, std::int64_t j) {
      Number sum = 0;
      for (std::int64_t e = 0; e < c.dk; ++e) {
        sum += static_cast<Number>(at(a, i * c.dk + e)) * static_cast<Number>(at(b, j * c.dk + e));
      }
      return sum;
    };
    std::vector<Number> weight, product;
    Number largest = -std::numeric_limits<Number>::infinity(), total = 0, product_sum = 0;
    for (std::int64_t j = 0; j < visible; ++j) {
      weight.push_back(scale * dot(x.q, matrix * c.queries + query, x.k, matrix * c.keys + j));
      largest = std::max(largest, weight.back());
    }
    for (Number& w : weight) total += w = std::exp(w - largest);
    for (std::int64_t j = 0; j < visible; ++j) {
      Number& w = weight[static_cast<std::size_t>(j)];
      w /= total;
      const Number ds = scale * (dot(x.dq, row, x.k, matrix * c.keys + j) +
                                 dot(x.q, matrix * c.queries + query, x.dk, (t * matrices + matrix) * c.keys + j));
      product.push_back(w * ds);
      product_sum += product.back();
    }
    for (std::int64_t e = 0; e < c.dv; ++e) {
      Number out = 0, sum = 0;
      for (std::int64_t j = 0; j < visible; ++j) {
        const auto v = static_cast<Number>(at(x.v, (matrix * c.keys + j) * c.dv + e));
        const auto dv = static_cast<Number>(at(x.dv, ((t * matrices + matrix) * c.keys + j) * c.dv + e));
        out += at(weight, j) * v;
        sum += at(product, j) * v + at(weight, j) * dv;
      }
      result.push_back(sum - product_sum * out);
    }
  }
  return result;
}

class attention_tangent_test : public testing::TestWithParam<attention_layout> {
 protected:
  /// Attention and its tangents on the device; d_out and the workspace are full of rubbish before.
  template <class T>
  std::vector<T> run(const tangent_case& c, const host_operands<T>& x) {
    const tensor<T> q(ctx_, {c.batch, c.heads, c.queries, c.dk}, x.q), k(ctx_, {c.batch, c.heads, c.keys, c.dk}, x.k),
        v(ctx_, {c.batch, c.heads, c.keys, c.dv}, x.v);
    const tensor<T> dq(ctx_, {c.tangents, c.batch, c.heads, c.queries, c.dk}, x.dq),
        dk(ctx_, {c.tangents, c.batch, c.heads, c.keys, c.dk}, x.dk),
        dv(ctx_, {c.tangents, c.batch, c.heads, c.keys, c.dv}, x.dv);
    const tensor<std::int64_t> lengths(ctx_, {static_cast<std::int64_t>(c.lengths.size())}, c.lengths);
    attention_options options{.causal = c.causal};
    if (!c.lengths.empty()) options.lengths = lengths;
    tensor<T> out(ctx_, {c.batch, c.heads, c.queries, c.dv}), sums(ctx_, {c.batch, c.heads, c.queries});
    const std::int64_t size = c.tangents * c.batch * c.heads * c.queries * c.dv;
    tensor<T> d_out(ctx_, {c.tangents, c.batch, c.heads, c.queries, c.dv},
                    std::vector<T>(static_cast<std::size_t>(size), T(-77)));
    attention(ctx_, {q, k, v}, {.out = out, .log_sum_exp = sums}, options);
    const auto tangent = [&](context& ctx) {
      return attention_tangent(ctx, {q, k, v, out, sums, dq, dk, dv}, d_out, options);
    };
    tensor<std::byte> memory(ctx_, {required_workspace(ctx_, tangent)});
    if (memory.size() > 0) queue_.fill(memory.data(), std::byte{0xff}, memory.span().size());  // NaN
    ctx_.use_workspace(memory.span());
    tangent(ctx_).wait_and_throw();
    ctx_.use_workspace({});
    return d_out.to_host();
  }

  /// The error against the reference is at most twice that of a plain implementation in the same precision.
  template <class T>
  void check(const tangent_case& c) {
    SCOPED_TRACE(testing::Message() << c.tangents << " tangents, batch " << c.batch << " heads " << c.heads
                                    << " queries " << c.queries << " keys " << c.keys << " dk " << c.dk << " dv "
                                    << c.dv << (c.causal ? " causal" : ""));
    const host_operands<T> x(c);
    const std::vector<long double> expected = plain_tangent<long double>(c, x);
    const auto error = [&](const std::vector<T>& got) {
      return scaled_residual<T>(got, {expected.begin(), expected.end()}, 1);
    };
    EXPECT_LE(error(run(c, x)), 2 * error(plain_tangent<T>(c, x)) + 4 * c.magnitude);
  }

  sycl::queue queue_{std::get<0>(GetParam()), sycl::property::queue::in_order{}};
  context ctx_{queue_, layout_of(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(devices, attention_tangent_test,
                         attention_layouts({attention_kernels::matrix_engine, attention_kernels::work_items}),
                         attention_layout_name);

TEST_P(attention_tangent_test, agrees_with_the_reference_at_odd_sizes) {
  for (const std::int64_t s : {1, 2, 13, 33, 193}) check<float>({3, 1, 2, s, s, 17, 5});
  check<float>({2, 2, 3, 40, 300, 64, 64});
  check<float>({1, 1, 1, 300, 40, 3, 70});
  check<float>({21, 2, 1, 30, 25, 1, 1});
  check<double>({2, 2, 1, 67, 230, 20, 33});
}

TEST_P(attention_tangent_test, takes_more_tangents_than_fit_at_once) { check<float>({200, 1, 8, 32, 32, 48, 40}); }

TEST_P(attention_tangent_test, masks_by_causality_and_by_length) {
  check<float>({3, 2, 2, 70, 70, 16, 24, true});
  check<float>({2, 1, 2, 20, 250, 16, 24, true});
  check<float>({2, 1, 2, 50, 20, 16, 24, true});  // the first 30 queries see nothing
  check<float>({2, 4, 1, 30, 290, 8, 8, false, {290, 2, 259, 0}});
  check<double>({2, 2, 1, 65, 65, 8, 8, true, {65, 40}});
}

TEST_P(attention_tangent_test, large_scores_and_large_heads_are_no_problem) {
  check<float>({2, 1, 1, 40, 40, 16, 8, false, {}, 100});
  check<float>({1, 1, 1, 25, 40, 512, 512});
}

TEST_P(attention_tangent_test, without_queries_keys_or_tangents_there_is_nothing_or_zero) {
  for (const tangent_case& c : {tangent_case{2, 1, 2, 0, 5, 3, 4}, tangent_case{0, 1, 2, 5, 5, 3, 4}}) {
    EXPECT_TRUE(run(c, host_operands<float>(c)).empty());
  }
  const tangent_case no_keys{2, 1, 2, 5, 0, 3, 4};
  EXPECT_EQ(run(no_keys, host_operands<float>(no_keys)), std::vector<float>(2 * 2 * 5 * 4));
}

TEST_P(attention_tangent_test, agrees_with_finite_differences) {
  const tangent_case c{2, 1, 1, 6, 7, 4, 3, true};
  const host_operands<double> x(c);
  const std::vector<double> got = run(c, x);
  constexpr double step = 1e-5;
  const auto moved_out = [&](std::int64_t t, double by) {
    host_operands<double> moved = x;
    const auto move = [&](std::vector<double>& value, const std::vector<double>& tangent) {
      const auto size = static_cast<std::int64_t>(value.size());
      for (std::int64_t i = 0; i < size; ++i) value[static_cast<std::size_t>(i)] += by * at(tangent, t * size + i);
    };
    move(moved.q, x.dq);
    move(moved.k, x.dk);
    move(moved.v, x.dv);
    const tensor<double> q(ctx_, {1, 1, 6, 4}, moved.q), k(ctx_, {1, 1, 7, 4}, moved.k), v(ctx_, {1, 1, 7, 3}, moved.v);
    tensor<double> out(ctx_, {1, 1, 6, 3});
    attention(ctx_, {q, k, v}, {.out = out}, {.causal = true}).wait_and_throw();
    return out.to_host();
  };
  for (std::int64_t t = 0; t < 2; ++t) {
    const std::vector<double> above = moved_out(t, step), below = moved_out(t, -step);
    for (std::int64_t i = 0; i < 18; ++i) {
      EXPECT_NEAR(at(got, t * 18 + i), (at(above, i) - at(below, i)) / (2 * step), 1e-8) << t << ", " << i;
    }
  }
}

TEST_P(attention_tangent_test, nan_stays_with_those_who_see_it) {
  const tangent_case c{1, 2, 1, 20, 30, 3, 3, false, {30, 11}};
  host_operands<float> x(c);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  x.dk[30 * 3 + 15 * 3] = x.dv[30 * 3 + 15 * 3] = nan;  // padding of batch entry 1
  for (const float number : run(c, x)) EXPECT_FALSE(std::isnan(number));
  x.dk[0] = nan;  // seen by all queries of batch entry 0
  const std::vector<float> got = run(c, x);
  for (std::int64_t i = 0; i < 2 * 60; ++i) EXPECT_EQ(std::isnan(at(got, i)), i < 60) << i;
}

TEST_P(attention_tangent_test, takes_and_writes_tangents_that_are_interleaved_with_tokens) {
  const tangent_case c{3, 2, 2, 20, 20, 8, 8};
  const host_operands<float> x(c);
  const std::vector<float> expected = run(c, x);
  // (batch, tokens, tangents, heads, d), as the sweep over layers keeps them
  constexpr std::int64_t extent[] = {3, 2, 2, 20, 8}, stride[] = {16, 960, 8, 48, 1};
  const auto interleaved = [&](const std::vector<float>& from) {
    std::vector<float> to(from.size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(from.size()); ++i) {
      std::int64_t rest = i, place = 0;
      for (int d = 4; d >= 0; --d) {
        place += rest % extent[d] * stride[d];
        rest /= extent[d];
      }
      to[static_cast<std::size_t>(place)] = at(from, i);
    }
    return to;
  };
  const auto by_tangents = [&](auto* data) {
    view<std::remove_pointer_t<decltype(data)>, 5> result{data, {}, {}};
    std::copy(extent, extent + 5, result.extent);
    std::copy(stride, stride + 5, result.stride);
    return result;
  };
  const tensor<float> q(ctx_, {2, 2, 20, 8}, x.q), k(ctx_, {2, 2, 20, 8}, x.k), v(ctx_, {2, 2, 20, 8}, x.v);
  const tensor<float> dq(ctx_, {1920}, interleaved(x.dq)), dk(ctx_, {1920}, interleaved(x.dk)),
      dv(ctx_, {1920}, interleaved(x.dv));
  tensor<float> out(ctx_, {2, 2, 20, 8}), sums(ctx_, {2, 2, 20}), d_out(ctx_, {1920});
  attention(ctx_, {q, k, v}, {.out = out, .log_sum_exp = sums});
  attention_tangent(ctx_, {q, k, v, out, sums, by_tangents(dq.data()), by_tangents(dk.data()), by_tangents(dv.data())},
                    by_tangents(d_out.data()))
      .wait_and_throw();
  EXPECT_EQ(d_out.to_host(), interleaved(expected));
}

}  // namespace
}  // namespace nullscope::test
