/// Operands, results and plain references in double that the benchmarks of attention share.
#pragma once

#include <cmath>
#include <initializer_list>
#include <nullscope/attention/attention.hpp>
#include <nullscope/core/tensor.hpp>

#include "bench/core/harness.hpp"

namespace nullscope::bench {

constexpr std::int64_t attention_heads = 12, attention_width = 64;
constexpr double attention_scale = 0.125;  // 1 / sqrt(width)

/// q, k, v and d_out (heads, tokens, width) on the host and on the device, In being float or bfloat16.
template <class In>
struct attention_data {
  attention_data(context& context, std::int64_t length)
      : ctx(context),
        tokens(length),
        host_q(numbers(1)),
        host_k(numbers(2)),
        host_v(numbers(3)),
        host_d_out(random_numbers<float>(attention_heads * length * attention_width, 4)),
        q(ctx, {attention_heads, length, attention_width}, host_q),
        k(ctx, {attention_heads, length, attention_width}, host_k),
        v(ctx, {attention_heads, length, attention_width}, host_v),
        d_out(ctx, {attention_heads, length, attention_width}, host_d_out),
        out(ctx, {attention_heads, length, attention_width}),
        log_sum_exp(ctx, {attention_heads, length}) {}

  sycl::event forward() { return attention(ctx, {q, k, v}, {.out = out, .log_sum_exp = log_sum_exp}); }

  /// Row i of an operand on the host, in double.
  template <class T>
  std::vector<double> row(const std::vector<T>& x, std::int64_t head, std::int64_t i) const {
    const T* from = x.data() + (head * tokens + i) * attention_width;
    return std::vector<double>(from, from + attention_width);
  }

  context& ctx;
  std::int64_t tokens;
  std::vector<In> host_q, host_k, host_v;
  std::vector<float> host_d_out;
  tensor<In> q, k, v;
  tensor<float> d_out, out, log_sum_exp;

 private:
  std::vector<In> numbers(std::uint64_t seed) const {
    const std::vector<float> x = random_numbers<float>(attention_heads * tokens * attention_width, seed);
    std::vector<In> result;
    for (const float number : x) result.push_back(static_cast<In>(number));
    return result;
  }
};

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline void add_scaled(double factor, const std::vector<double>& x, std::vector<double>& sum) {
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] += factor * x[i];
}

/// Weights of query i, which sees all keys.
template <class In>
std::vector<double> exact_weights(const attention_data<In>& d, std::int64_t head, std::int64_t i) {
  const std::vector<double> query = d.row(d.host_q, head, i);
  std::vector<double> weight;
  double total = 0;
  for (std::int64_t j = 0; j < d.tokens; ++j) {
    weight.push_back(std::exp(attention_scale * dot(query, d.row(d.host_k, head, j))));
    total += weight.back();
  }
  for (double& w : weight) w /= total;
  return weight;
}

template <class In>
std::vector<double> exact_out(const attention_data<In>& d, std::int64_t head, std::int64_t i) {
  const std::vector<double> weight = exact_weights(d, head, i);
  std::vector<double> out(attention_width, 0.0);
  for (std::int64_t j = 0; j < d.tokens; ++j) {
    add_scaled(weight[static_cast<std::size_t>(j)], d.row(d.host_v, head, j), out);
  }
  return out;
}

/// Overwrites results, so that a path cannot pass with what another one left.
inline void fill_with_nan(context& ctx, std::initializer_list<tensor<float>*> results) {
  for (tensor<float>* x : results) ctx.queue().fill(x->data(), NAN, static_cast<std::size_t>(x->size())).wait();
}

/// Calls visit(head, token) for some tokens of every head: the first, the last, and others between.
template <class Visit>
void for_some_tokens(std::int64_t tokens, Visit visit) {
  for (std::int64_t head = 0; head < attention_heads; ++head) {
    for (std::int64_t i = 0; i < tokens; i += std::max<std::int64_t>(1, (tokens - 1) / 5)) visit(head, i);
  }
}

/// Compares some rows of `got` (heads, tokens, width) with exact(head, token).
template <class In, class Exact>
void verify_rows(const attention_data<In>& d, const std::vector<float>& got, const std::string& name, report& report,
                 double bound, Exact exact) {
  std::vector<float> found;
  std::vector<double> expected;
  for_some_tokens(d.tokens, [&](std::int64_t head, std::int64_t i) {
    const float* row = got.data() + (head * d.tokens + i) * attention_width;
    found.insert(found.end(), row, row + attention_width);
    const std::vector<double> numbers = exact(head, i);
    expected.insert(expected.end(), numbers.begin(), numbers.end());
  });
  report.residual(name, scaled_residual<float>(found, expected, std::sqrt(static_cast<double>(d.tokens))), bound);
}

void add_attention_forward(suite& suite, std::int64_t tokens);
void add_attention_backward(suite& suite, std::int64_t tokens);
void add_attention_weights(suite& suite, std::int64_t tokens);

}  // namespace nullscope::bench
