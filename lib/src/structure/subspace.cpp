#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/qr.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/linalg/svd.hpp>
#include <nullscope/structure/task_subspace.hpp>
#include <utility>

#include "lib/src/core/checks.hpp"
#include "lib/src/core/fill.hpp"

namespace nullscope {
namespace {

/// x = 0, for any strides: a product without terms.
template <class T>
void clear(context& ctx, const view<T, 3>& x) {
  const view<const T, 3> left{x.data, {1, x.extent[1], 0}, {0, 0, 1}}, right{x.data, {1, 0, x.extent[2]}, {0, 0, 1}};
  if (!x.empty()) gemm(ctx, gemm_operands<T>{left, right}, x);
}

}  // namespace

template <class T>
task_subspace<T>::task_subspace(context& ctx, std::int64_t heads, std::int64_t tokens, std::int64_t block)
    : tokens_(tokens), block_(block) {
  if (heads < 1 || tokens < 1 || block < 0) {
    throw invalid_argument(
        fmt::format("task_subspace: {} heads, {} tokens, blocks of {} columns: heads and tokens must be "
                    "at least 1, and the block not negative",
                    heads, tokens, block));
  }
  check::device_type<T>("task_subspace", ctx);
  if (block_ == 0) block_ = 4 * tokens;
  stack_ = detail::zeros<T>(ctx, {heads, tokens_ + block_, tokens_});
}

/// The triangle of what is in the stack; `to` (heads, S, S) may be the top of the stack itself.
template <class T>
sycl::event task_subspace<T>::fold(context& ctx, const view<T, 3>& to, const events& dependencies) const {
  operation op(ctx, "task_subspace::fold", dependencies);
  const view<const T, 3> stack = stack_;
  const auto triangle = op.take_array<T>(stack.extent[0], tokens_, tokens_);
  qr(ctx, slice(stack, 1, 0, tokens_ + used_), qr_results<T>{.r = triangle});
  copy(ctx, view<const T, 3>(triangle), to);
  return op.submit();
}

template <class T>
sycl::event task_subspace<T>::add(context& ctx, const head_values<T>& values, const events& dependencies) {
  constexpr const char* function = "task_subspace::add";
  const auto& [v, h] = values;
  const view<T, 3> stack = stack_;
  check::input(function, "v", v);
  if (v.extent[0] != stack.extent[0] || v.extent[1] > tokens_) {
    check::fail(function, "v", v, fmt::format("should have {} heads and at most {} rows", stack.extent[0], tokens_));
  }
  if (!h.is_absent()) {
    check::input(function, "h", h);
    check::same_extent(function, "v", v, 0, "h", h, 0);
    check::same_extent(function, "v", v, 2, "h", h, 1);
  }
  events before = dependencies;
  before.push_back(*last_);
  operation op(ctx, function, before);
  op.when_submitted([last = last_](const sycl::event& event) { *last = event; });
  sycl::event done;
  const std::int64_t old_used = used_, rows = v.extent[1];
  view<const T, 3> factor = h;
  if (!h.is_absent() && h.extent[2] > h.extent[1]) {
    const auto reduced = op.take_array<T>(h.extent[0], h.extent[1], h.extent[1]);
    reduce_projection(ctx, h, reduced);
    factor = reduced;
  }
  try {
    const std::int64_t columns = h.is_absent() ? v.extent[2] : factor.extent[2];
    for (std::int64_t first = 0, count = 0; first < columns; first += count) {
      if (used_ == block_) {
        fold(ctx, slice(stack, 1, 0, tokens_), {});
        used_ = 0;
      }
      count = std::min(columns - first, block_ - used_);
      const view<T, 3> below = slice(stack, 1, tokens_ + used_, count);
      const view<T, 3> to = slice(below, 2, 0, rows);
      if (rows < tokens_) clear(ctx, slice(below, 2, rows, tokens_ - rows));
      if (h.is_absent()) {
        copy(ctx, transposed(slice(v, 2, first, count)), to);
      } else {  // T^T (B,count,s) = h^T (B,count,d_v) v^T (B,d_v,s)
        gemm(ctx, gemm_operands<T>{transposed(slice(factor, 2, first, count)), transposed(v)}, to);
      }
      used_ += count;
    }
    done = op.submit();
  } catch (...) {
    used_ = old_used;
    throw;
  }
  ++samples_;
  return done;
}

template <class T>
void task_subspace<T>::merge(context& ctx, view<const T, 3> factor, std::int64_t samples) {
  constexpr const char* function = "task_subspace::merge";
  const view<T, 3> stack = stack_;
  check::input(function, "factor", factor);
  check::shape(function, "factor", factor, {stack.extent[0], tokens_, tokens_});
  if (samples < 0) throw invalid_argument(fmt::format("{}: samples is {}; it must not be negative", function, samples));
  add(ctx, {transposed(factor)}).wait_and_throw();  // F^T (S x S) has the range and the values of all T_i
  samples_ += samples - 1;
}

template <class T>
void task_subspace<T>::merge(context& ctx, const task_subspace& other) {
  merge(ctx, other.factor(ctx), other.samples());
}

template <class T>
tensor<T> task_subspace<T>::factor(context& ctx) const {
  tensor<T> result(ctx, {stack_.shape()[0], tokens_, tokens_});
  fold(ctx, result, {*last_}).wait_and_throw();
  return result;
}

template <class T>
task_subspace_basis<T> task_subspace<T>::basis(context& ctx, rank_tolerance tolerance) const {
  constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  if (tolerance.relative < 0) {
    const double inputs = static_cast<double>(std::max<std::int64_t>(1, samples_));
    tolerance.relative = static_cast<double>(tokens_) * std::sqrt(inputs) * epsilon;
  }
  const std::int64_t heads = stack_.shape()[0];
  const tensor<T> triangle = factor(ctx);
  task_subspace_basis<T> result{tensor<T>(ctx, {heads, tokens_, tokens_}), tensor<T>(ctx, {heads, tokens_}), {}};
  tensor<std::int64_t> rank(ctx, {heads});
  tensor<std::int32_t> status(ctx, {heads});
  range_basis(ctx, head_values<T>{.v = transposed(triangle.template as<3>())},
              range_results<T>{.u = result.basis, .s = result.s, .rank = rank, .status = status}, tolerance)
      .wait_and_throw();
  result.dimension = rank.to_host();
  const std::vector<std::int64_t> failed = failed_ids(status.to_host(), result.dimension);
  if (!failed.empty()) {
    throw computation_error(
        fmt::format("task_subspace::basis: {} of {} heads hold NaN or infinity, or did not converge: {}", failed.size(),
                    heads, fmt::join(failed, ", ")),
        failed);
  }
  return result;
}

template class task_subspace<float>;
template class task_subspace<double>;

}  // namespace nullscope
