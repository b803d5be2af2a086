#include <nullscope/attention/attention.hpp>
#include <nullscope/core/tensor.hpp>

#include "tests/attention/attention_layouts.hpp"

namespace nullscope::test {
namespace {

struct gradient_case {
  std::int64_t batch, heads, queries, keys, dk, dv;
  bool causal = false;
  std::vector<std::int64_t> lengths = {};
  double magnitude = 1;
};

template <class T>
struct plain_gradients {
  std::vector<T> out, log_sum_exp, d_q, d_k, d_v;
};

template <class T>
T& at(std::vector<T>& x, std::int64_t i) {
  return x[static_cast<std::size_t>(i)];
}
template <class T>
const T& at(const std::vector<T>& x, std::int64_t i) {
  return x[static_cast<std::size_t>(i)];
}

/// Attention and its gradients, plainly in T: in long double the reference, in T the yardstick for errors.
template <class T, class In>
plain_gradients<T> plain_backward(const gradient_case& c, const std::vector<In>& q_in, const std::vector<In>& k_in,
                                  const std::vector<In>& v_in, const std::vector<double>& d_out_in) {
  const auto converted = [](const auto& from) {
    std::vector<T> to;
    for (const auto x : from) to.push_back(static_cast<T>(x));
    return to;
  };
  const std::vector<T> q = converted(q_in), k = converted(k_in), v = converted(v_in), d_out = converted(d_out_in);
  plain_gradients<T> r;
  r.d_q.resize(q.size());
  r.d_k.resize(k.size());
  r.d_v.resize(v.size());
  const T scale = T(1) / std::sqrt(static_cast<T>(c.dk));
  for (std::int64_t row = 0; row < c.batch * c.heads * c.queries; ++row) {
    const std::int64_t first_key = row / c.queries * c.keys;  // of this matrix
    std::int64_t visible = c.lengths.empty() ? c.keys : at(c.lengths, row / c.queries / c.heads);
    if (c.causal) visible = std::min(visible, row % c.queries + c.keys - c.queries + 1);
    const auto dot = [&](const std::vector<T>& a, std::int64_t i, const std::vector<T>& b, std::int64_t j,
                         std::int64_t d) {
      T sum = 0;
      for (std::int64_t e = 0; e < d; ++e) sum += at(a, i * d + e) * at(b, j * d + e);
      return sum;
    };
    std::vector<T> weight;
    T maximum = -std::numeric_limits<T>::infinity(), sum = 0, product = 0;
    for (std::int64_t j = 0; j < visible; ++j) {
      weight.push_back(scale * dot(q, row, k, first_key + j, c.dk));
      maximum = std::max(maximum, weight.back());
    }
    for (T& w : weight) sum += w = std::exp(w - maximum);
    for (T& w : weight) w /= sum;
    r.log_sum_exp.push_back(visible > 0 ? maximum + std::log(sum) : maximum);
    for (std::int64_t e = 0; e < c.dv; ++e) {
      T total = 0;
      for (std::int64_t j = 0; j < visible; ++j) total += at(weight, j) * at(v, (first_key + j) * c.dv + e);
      r.out.push_back(total);
      product += total * at(d_out, row * c.dv + e);
    }
    for (std::int64_t j = 0; j < visible; ++j) {
      const std::int64_t key = first_key + j;
      const T d_score = at(weight, j) * (dot(d_out, row, v, key, c.dv) - product) * scale;
      for (std::int64_t e = 0; e < c.dv; ++e) at(r.d_v, key * c.dv + e) += at(weight, j) * at(d_out, row * c.dv + e);
      for (std::int64_t e = 0; e < c.dk; ++e) {
        at(r.d_q, row * c.dk + e) += d_score * at(k, key * c.dk + e);
        at(r.d_k, key * c.dk + e) += d_score * at(q, row * c.dk + e);
      }
    }
  }
  return r;
}

/// The norm of the error relative to the norm of what is expected.
template <class T>
double relative_error(const std::vector<T>& got, const std::vector<long double>& expected) {
  return scaled_residual<T>(got, {expected.begin(), expected.end()}, 1) *
         static_cast<double>(std::numeric_limits<T>::epsilon());
}

class attention_backward_test : public testing::TestWithParam<attention_layout> {
 protected:
  template <class In>
  static std::vector<In> numbers(std::int64_t count, std::uint64_t seed, double factor = 1) {
    std::vector<In> result;
    for (const float x : random_numbers<float>(count, seed)) {
      result.push_back(static_cast<In>(x * static_cast<float>(factor)));
    }
    return result;
  }

  /// Operands and results of a case on the device, contiguous, the gradients full of rubbish.
  template <class In, class T>
  struct data {
    data(context& ctx, const gradient_case& c)
        : ctx(ctx),
          shape(c),
          q(numbers<In>(c.batch * c.heads * c.queries * c.dk, 1, c.magnitude)),
          k(numbers<In>(c.batch * c.heads * c.keys * c.dk, 2)),
          v(numbers<In>(c.batch * c.heads * c.keys * c.dv, 3)),
          d_out(numbers<double>(c.batch * c.heads * c.queries * c.dv, 4)) {}

    plain_gradients<T> run() {
      const gradient_case& c = shape;
      sycl::queue& queue = ctx.queue();
      const tensor<In> q_device(queue, {c.batch, c.heads, c.queries, c.dk}, q);
      const tensor<In> k_device(queue, {c.batch, c.heads, c.keys, c.dk}, k);
      const tensor<In> v_device(queue, {c.batch, c.heads, c.keys, c.dv}, v);
      const tensor<T> d_out_device(queue, {c.batch, c.heads, c.queries, c.dv},
                                   std::vector<T>(d_out.begin(), d_out.end()));
      const tensor<std::int64_t> lengths(queue, {static_cast<std::int64_t>(c.lengths.size())}, c.lengths);
      attention_options options{.causal = c.causal};
      if (!c.lengths.empty()) options.lengths = lengths;
      tensor<T> out(queue, {c.batch, c.heads, c.queries, c.dv}), sums(queue, {c.batch, c.heads, c.queries});
      const std::vector<T> rubbish(std::max({q.size(), k.size(), v.size()}), T(-77));
      const auto filled = [&](const std::vector<In>& like) {
        return std::vector<T>(rubbish.begin(), rubbish.begin() + static_cast<std::ptrdiff_t>(like.size()));
      };
      tensor<T> d_q(queue, q_device.shape(), filled(q)), d_k(queue, k_device.shape(), filled(k));
      tensor<T> d_v(queue, v_device.shape(), filled(v));
      attention(ctx, {q_device, k_device, v_device}, {.out = out, .log_sum_exp = sums}, options);
      const auto backward = [&](context& with) {
        return attention_backward(with, {q_device, k_device, v_device, out, sums, d_out_device},
                                  {.d_q = d_q, .d_k = d_k, .d_v = d_v}, options);
      };
      tensor<std::byte> memory(queue, {required_workspace(ctx, backward)});
      if (memory.size() > 0) {
        queue.fill(memory.data(), std::byte{0xff}, memory.span().size());  // NaN wherever the gradients should not look
      }
      ctx.use_workspace(memory.span());
      backward(ctx).wait_and_throw();
      ctx.use_workspace({});
      return {out.to_host(), sums.to_host(), d_q.to_host(), d_k.to_host(), d_v.to_host()};
    }

    context& ctx;
    gradient_case shape;
    std::vector<In> q, k, v;
    std::vector<double> d_out;
  };

  /// The error against the reference is at most twice that of a plain implementation in the same precision.
  template <class In, class T>
  void check(const gradient_case& c) {
    SCOPED_TRACE(testing::Message() << "batch " << c.batch << " heads " << c.heads << " queries " << c.queries
                                    << " keys " << c.keys << " dk " << c.dk << " dv " << c.dv
                                    << (c.causal ? " causal" : ""));
    data<In, T> operands(ctx_, c);
    const plain_gradients<T> got = operands.run();
    const auto expected = plain_backward<long double>(c, operands.q, operands.k, operands.v, operands.d_out);
    const auto plain = plain_backward<T>(c, operands.q, operands.k, operands.v, operands.d_out);
    const double rounding = 4 * static_cast<double>(std::numeric_limits<T>::epsilon()) * c.magnitude;
    EXPECT_LE(relative_error(got.d_q, expected.d_q), 2 * relative_error(plain.d_q, expected.d_q) + rounding);
    EXPECT_LE(relative_error(got.d_k, expected.d_k), 2 * relative_error(plain.d_k, expected.d_k) + rounding);
    EXPECT_LE(relative_error(got.d_v, expected.d_v), 2 * relative_error(plain.d_v, expected.d_v) + rounding);
  }

  sycl::queue queue_{std::get<0>(GetParam()), sycl::property::queue::in_order{}};
  context ctx_{queue_, layout_of(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(devices, attention_backward_test, attention_layouts(), attention_layout_name);

TEST_P(attention_backward_test, agrees_with_the_reference_at_odd_sizes) {
  for (const std::int64_t s : {2, 13, 31, 33, 100, 193}) check<float, float>({1, 2, s, s, 17, 5});
  check<float, float>({2, 3, 40, 300, 64, 64});
  check<float, float>({1, 1, 300, 40, 3, 70});
  check<float, float>({1, 1, 30, 600, 1, 1});
  check<double, double>({2, 1, 137, 230, 20, 33});
}

TEST_P(attention_backward_test, one_head_is_cut_into_chunks_of_queries_and_keys) {
  check<float, float>({1, 1, 700, 900, 8, 8});
  check<float, float>({1, 1, 800, 800, 8, 8, true});
}

TEST_P(attention_backward_test, masks_by_causality_and_by_length) {
  check<float, float>({2, 2, 70, 70, 16, 24, true});
  check<float, float>({1, 2, 20, 50, 16, 24, true});
  check<float, float>({1, 2, 50, 20, 16, 24, true});  // the first 30 queries see nothing
  check<float, float>({4, 1, 30, 290, 8, 8, false, {290, 2, 259, 0}});
  check<float, float>({2, 1, 265, 265, 8, 8, true, {265, 140}});
  check<double, double>({2, 1, 65, 65, 8, 8, true, {65, 40}});
}

TEST_P(attention_backward_test, takes_bfloat16_and_gives_float) {
  check<bfloat16, float>({1, 2, 67, 131, 64, 48});
  check<bfloat16, float>({2, 1, 33, 33, 9, 7, true});
}

TEST_P(attention_backward_test, large_logits_and_large_heads_are_no_problem) {
  check<float, float>({1, 1, 40, 40, 16, 8, false, {}, 100});
  check<float, float>({1, 1, 25, 40, 512, 512});
  check<float, float>({1, 1, 5, 40, 300, 2});
}

TEST_P(attention_backward_test, one_key_takes_all_and_gives_nothing) {
  data<float, float> operands(ctx_, {1, 2, 5, 1, 3, 4});  // A = 1 whatever q and k are
  const plain_gradients<float> got = operands.run();
  for (const float x : got.d_q) EXPECT_NEAR(x, 0, 1e-6);
  for (const float x : got.d_k) EXPECT_NEAR(x, 0, 1e-6);
  for (std::int64_t i = 0; i < 8; ++i) {
    double sum = 0;
    for (std::int64_t row = 0; row < 5; ++row) sum += at(operands.d_out, (i / 4 * 5 + row) * 4 + i % 4);
    EXPECT_NEAR(at(got.d_v, i), sum, 1e-5);
  }
}

TEST_P(attention_backward_test, without_queries_or_keys_gradients_are_zero) {
  const plain_gradients<float> no_queries = data<float, float>(ctx_, {1, 2, 0, 5, 3, 4}).run();
  EXPECT_EQ(no_queries.d_k, std::vector<float>(2 * 5 * 3));
  EXPECT_EQ(no_queries.d_v, std::vector<float>(2 * 5 * 4));
  const plain_gradients<float> no_keys = data<float, float>(ctx_, {1, 2, 5, 0, 3, 4}).run();
  EXPECT_EQ(no_keys.d_q, std::vector<float>(2 * 5 * 3));
  data<float, float>(ctx_, {0, 2, 5, 5, 3, 4}).run();
}

TEST_P(attention_backward_test, agrees_with_finite_differences) {
  const gradient_case c{1, 1, 6, 7, 4, 3, true};
  data<double, double> operands(ctx_, c);
  const plain_gradients<double> got = operands.run();
  const auto loss = [&] {
    const std::vector<double> out = data<double, double>(operands).run().out;
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * operands.d_out[i];
    return sum;
  };
  const auto compare = [&](std::vector<double>& x, const std::vector<double>& gradient) {
    constexpr double step = 1e-4;
    for (std::size_t i = 0; i < x.size(); i += 3) {
      const double before = x[i];
      x[i] = before + step;
      const double above = loss();
      x[i] = before - step;
      const double below = loss();
      x[i] = before;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-8) << i;
    }
  };
  compare(operands.q, got.d_q);
  compare(operands.k, got.d_k);
  compare(operands.v, got.d_v);
}

TEST_P(attention_backward_test, is_the_same_to_the_bit_in_every_run) {
  data<float, float> operands(ctx_, {1, 1, 500, 700, 8, 8});
  const plain_gradients<float> first = operands.run();
  for (int i = 0; i < 3; ++i) {
    const plain_gradients<float> again = operands.run();
    EXPECT_EQ(again.d_q, first.d_q);
    EXPECT_EQ(again.d_k, first.d_k);
    EXPECT_EQ(again.d_v, first.d_v);
  }
}

TEST_P(attention_backward_test, nan_stays_with_those_who_see_it) {
  data<float, float> operands(ctx_, {2, 1, 20, 30, 3, 3, false, {30, 11}});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  operands.k[30 * 3 + 15 * 3] = operands.v[30 * 3 + 15 * 3] = nan;  // padding of batch entry 1
  const plain_gradients<float> got = operands.run();
  for (const auto* gradient : {&got.d_q, &got.d_k, &got.d_v}) {
    EXPECT_TRUE(std::none_of(gradient->begin(), gradient->end(), [](float x) { return std::isnan(x); }));
  }
  operands.v[0] = nan;  // seen by all queries of batch entry 0
  const plain_gradients<float> spread = operands.run();
  EXPECT_TRUE(std::all_of(spread.d_q.begin(), spread.d_q.begin() + 20 * 3, [](float x) { return std::isnan(x); }));
  EXPECT_TRUE(std::none_of(spread.d_q.begin() + 20 * 3, spread.d_q.end(), [](float x) { return std::isnan(x); }));
}

TEST_P(attention_backward_test, takes_and_writes_heads_that_are_interleaved_with_tokens) {
  const gradient_case c{2, 3, 50, 50, 8, 8};
  data<float, float> operands(ctx_, c);
  const plain_gradients<float> expected = operands.run();
  // (batch, tokens, heads, d), as a model's projection writes it
  const auto interleaved = [&](const std::vector<float>& x) {
    std::vector<float> result(x.size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.size()); ++i) {
      const std::int64_t d = i % 8, token = i / 8 % 50, head = i / 400 % 3, batch = i / 1200;
      at(result, ((batch * 50 + token) * 3 + head) * 8 + d) = at(x, i);
    }
    return result;
  };
  const auto by_heads = [](auto* data) {
    return view<std::remove_pointer_t<decltype(data)>, 4>{data, {2, 3, 50, 8}, {1200, 8, 24, 1}};
  };
  const std::vector<std::int64_t> shape{2, 50, 3, 8};
  const tensor<float> q(queue_, shape, interleaved(operands.q)), k(queue_, shape, interleaved(operands.k));
  const tensor<float> v(queue_, shape, interleaved(operands.v)), out(queue_, shape, interleaved(expected.out));
  const tensor<float> d_out(queue_, shape, interleaved({operands.d_out.begin(), operands.d_out.end()}));
  const tensor<float> sums(queue_, {2, 3, 50}, expected.log_sum_exp);
  tensor<float> d_q(queue_, shape), d_k(queue_, shape), d_v(queue_, shape);
  attention_backward(
      ctx_,
      {by_heads(q.data()), by_heads(k.data()), by_heads(v.data()), by_heads(out.data()), sums, by_heads(d_out.data())},
      {by_heads(d_q.data()), by_heads(d_k.data()), by_heads(d_v.data())})
      .wait_and_throw();
  EXPECT_EQ(d_q.to_host(), interleaved(expected.d_q));
  EXPECT_EQ(d_k.to_host(), interleaved(expected.d_k));
  EXPECT_EQ(d_v.to_host(), interleaved(expected.d_v));
}

TEST_P(attention_backward_test, refuses_shapes_that_do_not_fit_and_a_workspace_that_is_too_small) {
  tensor<float> x(queue_, {1, 2, 4, 8}), narrow(queue_, {1, 2, 4, 7}), sums(queue_, {1, 2, 4});
  const auto message = [&](view<const float, 4> d_out, view<float, 4> d_k) {
    return message_of<invalid_argument>([&] {
      attention_backward(ctx_, {x, x, x, x, sums, d_out}, {.d_q = x, .d_k = d_k, .d_v = x});
    });
  };
  EXPECT_EQ(message(x, narrow),
            "attention_backward: dimension 3 of k (1, 2, 4, 8) with strides (64, 32, 8, 1) differs from dimension 3 of "
            "d_k (1, 2, 4, 7) with strides (56, 28, 7, 1)");
  EXPECT_NE(message(narrow, x).find("differs from dimension 3 of d_out"), std::string::npos);
  view<float, 4> overlapping = x;
  overlapping.stride[1] = 0;
  EXPECT_NE(message(x, overlapping).find("strides that overlap"), std::string::npos);
  tensor<std::byte> small(queue_, {100});
  ctx_.use_workspace(small.span());
  EXPECT_NE(message(x, x).find("attention_backward: the workspace is too small"), std::string::npos);
}

}  // namespace
}  // namespace nullscope::test
