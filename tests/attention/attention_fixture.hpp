/// Attention on a device, compared with a plain implementation.
#pragma once

#include <nullscope/attention/attention.hpp>
#include <nullscope/core/tensor.hpp>

#include "kernels/simd/pack.hpp"
#include "lib/src/attention/common.hpp"
#include "tests/attention/attention_layouts.hpp"

namespace nullscope::test {

struct attention_case {
  std::int64_t batch, heads, queries, keys, dk, dv;
  bool causal = false;
  std::vector<std::int64_t> lengths = {};
  double magnitude = 1;
};

/// What attention computes, plainly in T: the f64 instance is the reference, the T instance the yardstick for errors.
template <class T>
struct plain_result {
  std::vector<T> out, log_sum_exp, squares;
};

template <class T, class In>
plain_result<T> plain_attention(const attention_case& c, const std::vector<In>& q, const std::vector<In>& k,
                                const std::vector<In>& v, bool rounds_weights = false) {
  plain_result<T> result;
  const T scale = T(1) / std::sqrt(T(c.dk));
  for (std::int64_t bh = 0; bh < c.batch * c.heads; ++bh) {
    for (std::int64_t i = 0; i < c.queries; ++i) {
      std::int64_t visible = c.lengths.empty() ? c.keys : c.lengths[static_cast<std::size_t>(bh / c.heads)];
      if (c.causal) visible = std::min(visible, i + c.keys - c.queries + 1);
      visible = std::max<std::int64_t>(visible, 0);
      std::vector<T> weight(static_cast<std::size_t>(visible));
      T maximum = -std::numeric_limits<T>::infinity(), sum = 0, squares = 0;
      for (std::int64_t j = 0; j < visible; ++j) {
        T score = 0;
        for (std::int64_t d = 0; d < c.dk; ++d) {
          score += static_cast<T>(q[static_cast<std::size_t>((bh * c.queries + i) * c.dk + d)]) *
                   static_cast<T>(k[static_cast<std::size_t>((bh * c.keys + j) * c.dk + d)]);
        }
        weight[static_cast<std::size_t>(j)] = score * scale;
        maximum = std::max(maximum, score * scale);
      }
      for (T& w : weight) sum += w = std::exp(w - maximum);
      for (T& w : weight) w /= sum, squares += w * w;
      if (rounds_weights) {  // as a plain implementation in bfloat16 does
        for (T& w : weight) w = static_cast<T>(static_cast<float>(bfloat16(static_cast<float>(w))));
      }
      for (std::int64_t d = 0; d < c.dv; ++d) {
        T total = 0;
        for (std::int64_t j = 0; j < visible; ++j) {
          total += weight[static_cast<std::size_t>(j)] *
                   static_cast<T>(v[static_cast<std::size_t>((bh * c.keys + j) * c.dv + d)]);
        }
        result.out.push_back(total);
      }
      result.log_sum_exp.push_back(maximum + std::log(sum));
      result.squares.push_back(squares);
    }
  }
  return result;
}

template <class T>
double largest_error(const std::vector<T>& got, const std::vector<double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (static_cast<double>(got[i]) == expected[i]) continue;  // infinities too
    const double difference = std::abs(static_cast<double>(got[i]) - expected[i]);
    error = std::max(error, std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
  }
  return error;
}

template <class T>
struct head_result {
  std::vector<T> out, log_sum_exp;
};

class attention_fixture : public testing::TestWithParam<attention_layout> {
 protected:
  static attention_kernels kernels_under_test() { return std::get<1>(GetParam()); }

  /// The layout of the test; for one_worker, with local memory that just does not hold several workers.
  template <class T>
  static lane_layout layout_for(std::int64_t dk, std::int64_t dv) {
    lane_layout layout = layout_of(GetParam());
    if (kernels_under_test() == attention_kernels::one_worker) {
      using shape = detail::attention_work_items;
      layout.local_bytes = kernels::attention_local<T, shape>::bytes(shape::workers, dk, dv) - 1;
    }
    return layout;
  }

  /// The error against f64 is at most twice that of a plain implementation in the same precision.
  template <class In, class T>
  void check(const attention_case& c) {
    SCOPED_TRACE(testing::Message() << "batch " << c.batch << " heads " << c.heads << " queries " << c.queries
                                    << " keys " << c.keys << " dk " << c.dk << " dv " << c.dv
                                    << (c.causal ? " causal" : ""));
    const auto numbers = [&](std::int64_t count, std::uint64_t seed, double factor) {
      std::vector<In> result;
      for (const double x : random_numbers<double>(count, seed)) {
        result.push_back(static_cast<In>(static_cast<T>(x * factor)));
      }
      return result;
    };
    const auto q = numbers(c.batch * c.heads * c.queries * c.dk, 1, c.magnitude);
    const auto k = numbers(c.batch * c.heads * c.keys * c.dk, 2, 1);
    const auto v = numbers(c.batch * c.heads * c.keys * c.dv, 3, 1);
    const tensor<In> q_device(queue_, {c.batch, c.heads, c.queries, c.dk}, q);
    const tensor<In> k_device(queue_, {c.batch, c.heads, c.keys, c.dk}, k);
    const tensor<In> v_device(queue_, {c.batch, c.heads, c.keys, c.dv}, v);
    const tensor<std::int64_t> lengths(queue_, {static_cast<std::int64_t>(c.lengths.size())}, c.lengths);
    const std::vector<T> rubbish(static_cast<std::size_t>(c.batch * c.heads * c.queries * c.dv), T(-77));
    tensor<T> out(queue_, {c.batch, c.heads, c.queries, c.dv}, rubbish);
    tensor<T> log_sum_exp(queue_, {c.batch, c.heads, c.queries}), squares(queue_, {c.batch, c.heads, c.queries});
    attention_options options{.causal = c.causal};
    if (!c.lengths.empty()) options.lengths = lengths;
    context ctx(queue_, layout_for<T>(c.dk, c.dv));
    attention(ctx, {q_device, k_device, v_device}, {.out = out, .log_sum_exp = log_sum_exp, .sum_of_squares = squares},
              options)
        .wait_and_throw();
    const auto expected = plain_attention<double>(c, q, k, v);
    const bool is_rounded = std::is_same_v<In, bfloat16> && kernels_under_test() == attention_kernels::matrix_engine;
    const auto plain = plain_attention<T>(c, q, k, v, is_rounded);
    const double rounding = 4 * static_cast<double>(std::numeric_limits<T>::epsilon());  // where the plain one is exact
    EXPECT_LE(largest_error(out.to_host(), expected.out), 2 * largest_error(plain.out, expected.out) + rounding);
    EXPECT_LE(largest_error(log_sum_exp.to_host(), expected.log_sum_exp),
              2 * largest_error(plain.log_sum_exp, expected.log_sum_exp) + rounding * (8 + 8 * c.magnitude));
    EXPECT_LE(largest_error(squares.to_host(), expected.squares),
              2 * largest_error(plain.squares, expected.squares) + rounding);
  }

  /// out of heads (1, 1, rows, d) of q, k and v.
  template <class In>
  std::vector<kernels::number_of<In>> run(const std::vector<In>& q, const std::vector<In>& k, const std::vector<In>& v,
                                          std::int64_t d, const attention_options& options = {}) {
    return run_all(q, k, v, d, options).out;
  }

  template <class In>
  head_result<kernels::number_of<In>> run_all(const std::vector<In>& q, const std::vector<In>& k,
                                              const std::vector<In>& v, std::int64_t d,
                                              const attention_options& options = {}) {
    using number = kernels::number_of<In>;
    const auto rows = [&](const std::vector<In>& x) { return static_cast<std::int64_t>(x.size()) / d; };
    const tensor<In> q_device(queue_, {1, 1, rows(q), d}, q), k_device(queue_, {1, 1, rows(k), d}, k);
    const tensor<In> v_device(queue_, {1, 1, rows(v), d}, v);
    tensor<number> out(queue_, {1, 1, rows(q), d}), log_sum_exp(queue_, {1, 1, rows(q)});
    attention(ctx_, {q_device, k_device, v_device}, {.out = out, .log_sum_exp = log_sum_exp}, options).wait_and_throw();
    return {out.to_host(), log_sum_exp.to_host()};
  }

  sycl::queue queue_{std::get<0>(GetParam()), sycl::property::queue::in_order{}};
  context ctx_{queue_, layout_of(GetParam())};
};

}  // namespace nullscope::test
