/// What effective attention on views and on tensors both check.
#pragma once

#include <fmt/format.h>

#include <nullscope/effective_attention.hpp>
#include <string_view>

#include "lib/src/attention/common.hpp"
#include "lib/src/core/checks.hpp"

namespace nullscope::detail {

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

}  // namespace nullscope::detail
