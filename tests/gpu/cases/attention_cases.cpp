/// Attention whose queries, keys and heads fill no panel, and with scores that leave the range of the first block.
#include <nullscope/attention/attention.hpp>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/attribution/jacobian.hpp>
#include <nullscope/core/tensor.hpp>

#include "tests/core/support.hpp"
#include "tests/gpu/cases/race_case.hpp"

namespace nullscope::test {
namespace {

constexpr std::int64_t batch = 2, heads = 1;

struct sizes {
  std::int64_t queries, keys, dk, dv;
  bool causal = false;
  double magnitude = 1;  // of the scores of later keys
};

/// Operands, and what attention gives for them.
template <class T>
struct attention_data {
  attention_data(context& ctx, const sizes& of)
      : q(numbers(ctx, of.queries, of.dk, 1)),
        k(numbers(ctx, of.keys, of.dk, 2)),
        v(numbers(ctx, of.keys, of.dv, 3)),
        d_out(numbers(ctx, of.queries, of.dv, 4)),
        out(ctx, {batch, heads, of.queries, of.dv}),
        log_sum_exp(ctx, {batch, heads, of.queries}),
        squares(ctx, {batch, heads, of.queries}),
        bias(ctx, {batch, heads, of.queries, of.keys}, random_numbers<T>(batch * heads * of.queries * of.keys, 5)),
        lengths(ctx, {batch}, std::vector<std::int64_t>{of.keys, of.keys - of.keys / 4}) {
    std::vector<T> later = k.to_host();
    for (std::size_t i = later.size() / 3; i < later.size(); ++i) later[i] *= static_cast<T>(of.magnitude);
    k.copy_from(later);
    options = {.causal = of.causal, .lengths = lengths};
    attention(ctx, attention_operands<T>{q, k, v, bias}, attention_results<T>{out, log_sum_exp, squares}, options)
        .wait();
  }

  static tensor<T> numbers(context& ctx, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
    return tensor<T>(ctx, {batch, heads, rows, columns}, random_numbers<T>(batch * heads * rows * columns, seed));
  }

  tensor<T> q, k, v, d_out, out, log_sum_exp, squares, bias;
  tensor<std::int64_t> lengths;
  attention_options options;
};

template <class T>
race_results run_forward(context& ctx, const sizes& of) {
  const attention_data<T> x(ctx, of);
  return {{"out", as_doubles(x.out.to_host())},
          {"log_sum_exp", as_doubles(x.log_sum_exp.to_host())},
          {"squares", as_doubles(x.squares.to_host())}};
}

template <class T>
race_results run_backward(context& ctx, const sizes& of) {
  const attention_data<T> x(ctx, of);
  tensor<T> d_q(ctx, x.q.shape()), d_k(ctx, x.k.shape()), d_v(ctx, x.v.shape()), d_bias(ctx, x.bias.shape());
  attention_backward(ctx, attention_backward_operands<T>{x.q, x.k, x.v, x.out, x.log_sum_exp, x.d_out, x.bias},
                     attention_gradients<T>{d_q, d_k, d_v, d_bias}, x.options)
      .wait();
  return {{"d_q", as_doubles(d_q.to_host())},
          {"d_k", as_doubles(d_k.to_host())},
          {"d_v", as_doubles(d_v.to_host())},
          {"d_bias", as_doubles(d_bias.to_host())}};
}

template <class T>
race_results run_tangent(context& ctx, const sizes& of) {
  constexpr std::int64_t tangents = 3;
  const attention_data<T> x(ctx, of);
  const auto moves = [&](std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
    return tensor<T>(ctx, {tangents, batch, heads, rows, columns},
                     random_numbers<T>(tangents * batch * heads * rows * columns, seed));
  };
  const tensor<T> dq = moves(of.queries, of.dk, 6), dk = moves(of.keys, of.dk, 7), dv = moves(of.keys, of.dv, 8);
  tensor<T> d_out(ctx, {tangents, batch, heads, of.queries, of.dv});
  attention_tangent(ctx, attention_tangent_operands<T>{x.q, x.k, x.v, x.out, x.log_sum_exp, dq, dk, dv, x.bias}, d_out,
                    x.options)
      .wait();
  return {{"d_out", as_doubles(d_out.to_host())}};
}

template <class T>
race_results run_received(context& ctx, const sizes& of) {
  const attention_data<T> x(ctx, of);
  tensor<T> received(ctx, {batch, heads, of.keys});
  attention_received(ctx, attention_scores<T>{x.q, x.k, x.log_sum_exp, x.bias}, received, x.options).wait();
  return {{"received", as_doubles(received.to_host())}};
}

/// Of one head of 45 tokens: the projection away from what the head's output keeps, for all rows and row by row.
template <class T>
race_results run_effective(context& ctx, bool by_rows) {
  constexpr std::int64_t tokens = 45, dk = 9, dv = 11, d = 14;
  const auto make = [&](std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
    return tensor<T>(ctx, {1, rows, columns}, random_numbers<T>(rows * columns, seed));
  };
  const tensor<T> q = make(tokens, dk, 9), k = make(tokens, dk, 10), v = make(tokens, dv, 11), h = make(dv, d, 12);
  tensor<T> p(ctx, {1, tokens, dv}), u(ctx, {1, tokens, dv}), s(ctx, {1, dv}), log_sum_exp(ctx, {1, tokens});
  tensor<T> raw(ctx, {1, tokens}), effective(ctx, {1, tokens});
  tensor<std::int64_t> rank(ctx, {1});
  tensor<std::int32_t> status(ctx, {1});
  const attention_heads<T> operands{q, k, v, h};
  const effective_attention_results<T> results{p, u, s, rank, status, log_sum_exp, {}, raw, effective};
  (by_rows ? effective_attention_by_rows(ctx, operands, results) : effective_attention(ctx, operands, results)).wait();
  return {{"s", as_doubles(s.to_host())},
          {"raw", as_doubles(raw.to_host())},
          {"effective", as_doubles(effective.to_host())}};
}

template <class T>
void add_cases(std::vector<race_case>& cases, const std::string& type) {
  const double bound = bound_of<T>(2000);
  const auto add = [&](const std::string& name, auto run, const sizes& of) {
    cases.push_back({name + "_" + type, [=](context& ctx) { return run(ctx, of); }, bound});
  };
  add("attention_causal", run_forward<T>, {50, 150, 24, 40, true});
  add("attention_of_large_scores", run_forward<T>, {37, 200, 33, 20, false, 200});
  add("attention_of_large_heads", run_forward<T>, {9, 100, 130, 150});
  add("attention_of_queries_that_see_nothing", run_forward<T>, {150, 20, 24, 40, true});
  add("attention_of_one_query", run_forward<T>, {1, 77, 16, 16});
  add("attention_backward_causal", run_backward<T>, {70, 130, 20, 40, true});
  add("attention_backward_of_few_keys", run_backward<T>, {90, 33, 40, 17});
  add("attention_tangent_causal", run_tangent<T>, {45, 77, 20, 40, true});
  add("attention_received_causal", run_received<T>, {70, 130, 20, 16, true});
  cases.push_back(
      {"effective_attention_of_a_head_" + type, [](context& ctx) { return run_effective<T>(ctx, false); }, bound});
  cases.push_back(
      {"effective_attention_of_visible_rows_" + type, [](context& ctx) { return run_effective<T>(ctx, true); }, bound});
}

}  // namespace

std::vector<race_case> attention_cases() {
  std::vector<race_case> cases;
  add_cases<float>(cases, "float");
  add_cases<double>(cases, "double");
  return cases;
}

}  // namespace nullscope::test
