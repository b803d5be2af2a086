/// attention: q, k, v (batch, heads, tokens, d), or fewer dimensions for one sequence or one head.
#include <fmt/format.h>

#include <nullscope/attention/attention.hpp>
#include <nullscope/core/errors.hpp>
#include <optional>

#include "arrays.hpp"
#include "bindings.hpp"

namespace nullscope::python {
namespace {

struct attention_call {
  array q, k, v;
  std::optional<array> bias, lengths;
  attention_options options;
};

/// (out, log_sum_exp): Number is what sums are made in.
template <class T, class Number>
nb::tuple attention_of(device_handle& where, attention_call& call) {
  const placement place = call.q.place();
  const shape_type outer = call.q.leading(2);
  const std::int64_t queries = call.q.extent(2), keys = call.k.extent(2);
  result<Number> out, log_sum_exp;
  without_gil(where, [&](context& ctx) {
    attention_operands<T> operands{call.q.as<T, 4>(where, ctx), call.k.as<T, 4>(where, ctx),
                                   call.v.as<T, 4>(where, ctx)};
    const shape_type batch{operands.q.extent[0], operands.q.extent[1]};
    if (call.bias) {
      // (..., queries, keys), repeated over batch and heads: a fifth dimension in front stands for nothing.
      const view<const Number, 3> scores = call.bias->as<Number, 3>(where, ctx, &batch);
      operands.bias = {scores.data,
                       {batch[0], batch[1], queries, keys},
                       {scores.stride[0] * batch[1], scores.stride[0], scores.stride[1], scores.stride[2]}};
    }
    attention_options options = call.options;
    if (call.lengths) options.lengths = merge(call.lengths->as<std::int64_t, 2>(where, ctx), 0);
    out = {where, ctx, place, joined(outer, {queries, call.v.extent(1)})};
    log_sum_exp = {where, ctx, place, joined(outer, {queries})};
    const view<Number, 4> result_of = out.template as<4>();
    const view<Number, 3> sums = log_sum_exp.template as<3>();
    attention(ctx, operands, attention_results<Number>{.out = result_of, .log_sum_exp = sums}, options)
        .wait_and_throw();
    out.bring_to_host(ctx, place);
    log_sum_exp.bring_to_host(ctx, place);
  });
  return nb::make_tuple(out.release(place), log_sum_exp.release(place));
}

nb::object bound_attention(device_handle& where, nb::handle q, nb::handle k, nb::handle v, nb::handle bias,
                           nb::handle lengths, double scale, bool causal) {
  const char* function = "attention";
  attention_call call{{function, "q", q}, {function, "k", k}, {function, "v", v}, {}, {}, {scale, causal}};
  for (const array* one : {&call.q, &call.k, &call.v}) {
    one->require_dimensions(2, 4);
    one->require_type_of(call.q);
  }
  if (!bias.is_none()) {
    call.bias.emplace(function, "bias", bias);
    call.bias->require_dimensions(2, 4);
    if (!call.q.is_bfloat16()) call.bias->require_type_of(call.q);
  }
  if (!lengths.is_none()) call.lengths.emplace(function, "lengths", lengths);
  if (call.q.is_bfloat16()) return attention_of<bfloat16, float>(where, call);
  return by_type(call.q, [&](auto number) { return attention_of<decltype(number), decltype(number)>(where, call); });
}

}  // namespace

void bind_attention(nb::module_& m) {
  m.def("attention", &bound_attention, nb::arg("device"), nb::arg("q").none(), nb::arg("k").none(), nb::arg("v").none(),
        nb::arg("bias").none(), nb::arg("lengths").none(), nb::arg("scale"), nb::arg("causal"));
}

}  // namespace nullscope::python
