/// What the functions of effective attention check.
#pragma once

#include <fmt/format.h>

#include <nullscope/attention/effective_attention.hpp>
#include <string_view>

#include "lib/src/attention/common.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/strides.hpp"

namespace nullscope::detail {

inline constexpr const char* effective_attention_name = "effective_attention";

/// All extents of the operands agree, and there are kernels for them; pointers are not looked at.
template <class T>
void check_head_shapes(std::string_view function, const attention_heads<T>& heads) {
  const auto& [q, k, v, h, bias] = heads;
  check::same_extent(function, "q", q, 0, "k", k, 0);
  check::same_extent(function, "q", q, 0, "v", v, 0);
  check::same_extent(function, "q", q, 2, "k", k, 2);
  check::same_extent(function, "k", k, 1, "v", v, 1);
  if (!h.is_absent()) {
    check::same_extent(function, "q", q, 0, "h", h, 0);
    check::same_extent(function, "v", v, 2, "h", h, 1);
  }
  if (k.extent[1] == 0) check::fail(function, "k", k, "has no keys");
  if (heads.basis_columns() == 0) check::fail(function, "v", v, "or h has no columns");
  check_head_size(function, "q", q);
  if (heads.basis_columns() > largest_head) {
    check::fail(function, "v", v,
                fmt::format("and h give a basis of {} columns, more than {}", heads.basis_columns(), largest_head));
  }
}

template <class T>
void check_effective_operands(std::string_view function, const context& ctx, const attention_heads<T>& heads) {
  check::device_type<T>(function, ctx);
  check::input(function, "q", heads.q);
  check::input(function, "k", heads.k);
  check::input(function, "v", heads.v);
  check::input(function, "h", heads.h);
  check_head_shapes(function, heads);
  check_bias(function, "bias", heads.bias, {heads.q.extent[0], heads.q.extent[1], heads.k.extent[1]});
  check_local_memory<T>(function, ctx, heads.q.extent[2], heads.basis_columns());
}

template <class T>
void check_effective_results(std::string_view function, const attention_heads<T>& heads,
                             const effective_attention_results<T>& results) {
  const std::int64_t count = heads.q.extent[0], queries = heads.q.extent[1], keys = heads.k.extent[1];
  const std::int64_t columns = heads.basis_columns();
  const auto has_shape = [&]<class Element, int Rank>(const char* operand, const view<Element, Rank>& x,
                                                      const std::int64_t(&shape)[Rank]) {
    check::output(function, operand, x);
    check::shape(function, operand, x, shape);
  };
  has_shape("p", results.p, {count, queries, columns});
  has_shape("u", results.u, {count, keys, columns});
  // Otherwise attention would copy it.
  if (!has_neighbours(results.u)) {
    check::fail(function, "u", results.u, "has columns that are not adjacent: the last stride must be 1");
  }
  has_shape("s", results.s, {count, columns});
  has_shape("rank", results.rank, {count});
  has_shape("status", results.status, {count});
  has_shape("log_sum_exp", results.log_sum_exp, {count, queries});
  check::optional_output(function, "summary", results.summary, {count});
  check::optional_output(function, "received_raw", results.received_raw, {count, keys});
  check::optional_output(function, "received_effective", results.received_effective, {count, keys});
}

}  // namespace nullscope::detail
