#include <cmath>
#include <nullscope/attention/attention.hpp>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/attribution/jacobian.hpp>
#include <optional>

#include "bench/check/operations.hpp"

namespace nullscope::check_device {
namespace {

constexpr std::int64_t heads = 2, tokens = 75, dk = 24, dv = 40;

/// Causal attention of random heads on the device, and what it should be.
template <class T>
struct attention_case {
  random_operand<T> q, k, v, d_out;
  tensor<T> out, log_sum_exp;
  numbers weights, expected_out;  // (heads, tokens, tokens), (heads, tokens, dv)
  static constexpr attention_options options{.causal = true};

  explicit attention_case(context& ctx)
      : q(ctx, {1, heads, tokens, dk}, 31),
        k(ctx, {1, heads, tokens, dk}, 32),
        v(ctx, {1, heads, tokens, dv}, 33),
        d_out(ctx, {1, heads, tokens, dv}, 34),
        out(ctx, {1, heads, tokens, dv}),
        log_sum_exp(ctx, {1, heads, tokens}) {
    for (std::int64_t head = 0; head < heads; ++head) {
      numbers a = product(part(q.host, head, dk), part(k.host, head, dk), tokens, tokens, dk, true);
      for (std::int64_t i = 0; i < tokens; ++i) {
        double* const row = a.data() + i * tokens;
        double sum = 0;
        for (std::int64_t j = 0; j < tokens; ++j) {
          row[j] = j <= i ? std::exp(row[j] / std::sqrt(static_cast<double>(dk))) : 0;
          sum += row[j];
        }
        for (std::int64_t j = 0; j < tokens; ++j) row[j] /= sum;
      }
      const numbers o = product(a, part(v.host, head, dv), tokens, dv, tokens);
      weights.insert(weights.end(), a.begin(), a.end());
      expected_out.insert(expected_out.end(), o.begin(), o.end());
    }
    attention(ctx, attention_operands<T>{q.device, k.device, v.device}, attention_results<T>{out, log_sum_exp}, options)
        .wait_and_throw();
  }

  /// One head of x (heads, tokens, columns).
  static numbers part(const numbers& x, std::int64_t head, std::int64_t columns) {
    const auto begin = x.begin() + head * tokens * columns;
    return {begin, begin + tokens * columns};
  }

  double weight(std::int64_t head, std::int64_t i, std::int64_t j) const {
    return weights[static_cast<std::size_t>((head * tokens + i) * tokens + j)];
  }
};

template <class T>
outcome check_forward(context& ctx) {
  const attention_case<T> x(ctx);
  return {scaled_residual(x.out.to_host(), x.expected_out, std::sqrt(tokens))};
}

template <class T>
outcome check_weights(context& ctx) {
  const attention_case<T> x(ctx);
  tensor<T> weights(ctx, {1, heads, tokens, tokens}), received(ctx, {1, heads, tokens});
  const attention_scores<T> scores{x.q.device, x.k.device, x.log_sum_exp};
  attention_weights(ctx, scores, weights, {.attention = x.options}).wait_and_throw();
  attention_received(ctx, scores, received, x.options).wait_and_throw();
  numbers expected(static_cast<std::size_t>(heads * tokens));
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      for (std::int64_t j = 0; j < tokens; ++j) {
        expected[static_cast<std::size_t>(head * tokens + j)] += x.weight(head, i, j);
      }
    }
  }
  return {worse(scaled_residual(weights.to_host(), x.weights, std::sqrt(dk)),
                scaled_residual(received.to_host(), expected, std::sqrt(tokens)))};
}

/// ds (tokens, tokens) = A * (x - rowsum(A * x)), scaled: what a change x of the weights does to the scores.
numbers score_gradient(const numbers& a, const numbers& x) {
  numbers ds(a.size());
  for (std::int64_t i = 0; i < tokens; ++i) {
    double mean = 0;
    for (std::int64_t j = i * tokens; j < (i + 1) * tokens; ++j) {
      mean += a[static_cast<std::size_t>(j)] * x[static_cast<std::size_t>(j)];
    }
    for (std::int64_t j = i * tokens; j < (i + 1) * tokens; ++j) {
      const auto at = static_cast<std::size_t>(j);
      ds[at] = a[at] * (x[at] - mean);
    }
  }
  return ds;
}

numbers transposed(const numbers& x, std::int64_t rows, std::int64_t columns) {
  numbers result(x.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      result[static_cast<std::size_t>(j * rows + i)] = x[static_cast<std::size_t>(i * columns + j)];
    }
  }
  return result;
}

template <class T>
outcome check_backward(context& ctx) {
  const attention_case<T> x(ctx);
  tensor<T> d_q(ctx, {1, heads, tokens, dk}), d_k(ctx, {1, heads, tokens, dk}), d_v(ctx, {1, heads, tokens, dv});
  attention_backward(
      ctx, attention_backward_operands<T>{x.q.device, x.k.device, x.v.device, x.out, x.log_sum_exp, x.d_out.device},
      attention_gradients<T>{d_q, d_k, d_v}, x.options)
      .wait_and_throw();
  numbers expected_q, expected_k, expected_v;
  for (std::int64_t head = 0; head < heads; ++head) {
    const numbers a(x.weights.begin() + head * tokens * tokens, x.weights.begin() + (head + 1) * tokens * tokens);
    const numbers d_o = x.part(x.d_out.host, head, dv);
    numbers ds = score_gradient(a, product(d_o, x.part(x.v.host, head, dv), tokens, tokens, dv, true));
    for (double& s : ds) s /= std::sqrt(static_cast<double>(dk));
    const auto append = [](numbers& to, const numbers& more) { to.insert(to.end(), more.begin(), more.end()); };
    append(expected_q, product(ds, x.part(x.k.host, head, dk), tokens, dk, tokens));
    append(expected_k, product(transposed(ds, tokens, tokens), x.part(x.q.host, head, dk), tokens, dk, tokens));
    append(expected_v, product(transposed(a, tokens, tokens), d_o, tokens, dv, tokens));
  }
  const double depth = std::sqrt(tokens);
  return {worse(
      scaled_residual(d_v.to_host(), expected_v, depth),
      worse(scaled_residual(d_q.to_host(), expected_q, depth), scaled_residual(d_k.to_host(), expected_k, depth)))};
}

/// The tangent in direction (dq, dk, dv) against the backward pass: <d_out, J t> = <J^T d_out, t>.
template <class T>
outcome check_tangent(context& ctx) {
  const attention_case<T> x(ctx);
  const random_operand<T> dq(ctx, {1, 1, heads, tokens, dk}, 35), dk_(ctx, {1, 1, heads, tokens, dk}, 36),
      dv_(ctx, {1, 1, heads, tokens, dv}, 37);
  tensor<T> d_out(ctx, {1, 1, heads, tokens, dv});
  attention_tangent(ctx,
                    attention_tangent_operands<T>{x.q.device, x.k.device, x.v.device, x.out, x.log_sum_exp, dq.device,
                                                  dk_.device, dv_.device},
                    d_out, x.options)
      .wait_and_throw();
  numbers expected;
  for (std::int64_t head = 0; head < heads; ++head) {
    const numbers a(x.weights.begin() + head * tokens * tokens, x.weights.begin() + (head + 1) * tokens * tokens);
    numbers change = product(x.part(dq.host, head, dk), x.part(x.k.host, head, dk), tokens, tokens, dk, true);
    const numbers other = product(x.part(x.q.host, head, dk), x.part(dk_.host, head, dk), tokens, tokens, dk, true);
    for (std::size_t i = 0; i < change.size(); ++i) {
      change[i] = (change[i] + other[i]) / std::sqrt(static_cast<double>(dk));
    }
    numbers o = product(score_gradient(a, change), x.part(x.v.host, head, dv), tokens, dv, tokens);
    const numbers moved = product(a, x.part(dv_.host, head, dv), tokens, dv, tokens);
    for (std::size_t i = 0; i < o.size(); ++i) expected.push_back(o[i] + moved[i]);
  }
  return {scaled_residual(d_out.to_host(), expected, std::sqrt(tokens))};
}

/// P U^T = A U U^T, with the basis of the device.
template <class T>
outcome check_effective(context& ctx) {
  const random_operand<T> q(ctx, {1, tokens, dk}, 31), k(ctx, {1, tokens, dk}, 32), v(ctx, {1, tokens, dv}, 33);
  const effective_attention_tensors<T> found = effective_attention(ctx, q.device, k.device, v.device);
  numbers a = product(q.host, k.host, tokens, tokens, dk, true);
  for (std::int64_t i = 0; i < tokens; ++i) {
    double* const row = a.data() + i * tokens;
    double sum = 0;
    for (std::int64_t j = 0; j < tokens; ++j) sum += row[j] = std::exp(row[j] / std::sqrt(static_cast<double>(dk)));
    for (std::int64_t j = 0; j < tokens; ++j) row[j] /= sum;
  }
  const std::int64_t c = dv;
  const std::vector<T> u = found.u.to_host();
  if (found.rank[0] != dv) return {static_cast<double>(std::abs(found.rank[0] - dv)), 0};
  return {worse(scaled_residual(found.p.to_host(), product(a, to_doubles(u), tokens, c, tokens), std::sqrt(tokens)),
                orthogonality(u.data(), tokens, c, c, 1))};
}

template <class T>
checked_operations of_type() {
  const std::string type = type_name<T>();
  return {{"attention", type, check_forward<T>},
          {"attention weights", type, check_weights<T>},
          {"attention backward", type, check_backward<T>},
          {"attention tangent", type, check_tangent<T>},
          {"effective attention", type, check_effective<T>}};
}

}  // namespace

checked_operations attention_operations(bool fp64) {
  checked_operations all = of_type<float>();
  if (fp64) {
    for (checked_operation& one : of_type<double>()) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace nullscope::check_device
