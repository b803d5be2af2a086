#include <algorithm>
#include <nullscope/core/operation.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "lib/src/core/batches.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/fill.hpp"

namespace nullscope {
namespace {

constexpr const char* range_basis_name = "range_basis";

std::vector<std::int64_t> null_dimensions(std::int64_t tokens, const std::vector<std::int64_t>& ranks) {
  std::vector<std::int64_t> dimensions;
  for (const std::int64_t rank : ranks) dimensions.push_back(tokens - rank);
  return dimensions;
}

template <class T>
range_tensors<T> compute(context& ctx, const head_values<T>& operands, const range_options& options) {
  const auto& [v, h] = operands;
  const std::int64_t batch = v.extent[0], tokens = v.extent[1];
  const std::int64_t width = h.is_absent() ? v.extent[2] : std::min(v.extent[2], h.extent[2]);
  const std::int64_t columns = std::min(tokens, width);
  range_tensors<T> result;
  result.basis = tensor<T>(ctx, {batch, tokens, columns + 1});
  result.s = tensor<T>(ctx, {batch, columns});
  tensor<std::int64_t> rank(ctx, {batch}), rank_with_ones(ctx, {batch});
  tensor<std::int32_t> status(ctx, {batch});
  const view<T, 3> basis = result.basis;

  operation op(ctx, range_basis_name);
  detail::fill_zero(op, basis);
  range_basis(ctx, operands,
              range_results<T>{.u = slice(basis, 2, 0, columns), .s = result.s, .rank = rank, .status = status},
              options.tolerance);
  if (options.with_ones) append_ones(ctx, rank, with_ones_results<T>{basis, rank_with_ones});
  op.submit_and_wait();

  result.rank = rank.to_host();
  const std::vector<std::int64_t> failed = failed_ids(status.to_host(), result.rank);
  if (!failed.empty()) {
    throw computation_error(fmt::format("{}: {} of {} matrices hold NaN or infinity, overflow, or did not converge: {}",
                                        range_basis_name, failed.size(), batch, fmt::join(failed, ", ")),
                            failed);
  }
  result.null_dimension = null_dimensions(tokens, result.rank);
  if (!options.with_ones) return result;
  result.rank_with_ones = rank_with_ones.to_host();
  result.null_dimension_with_ones = null_dimensions(tokens, result.rank_with_ones);
  return result;
}

}  // namespace

template <class T>
range_tensors<T> range_basis(context& ctx, const tensor<T>& v, const tensor<T>& h, const range_options& options) {
  head_values<T> operands{detail::matrices_of(range_basis_name, "v", v), detail::matrices_of(range_basis_name, "h", h)};
  if (h.shape().size() == 2) {  // one h for the whole batch
    operands.h.extent[0] = operands.v.extent[0];
    operands.h.stride[0] = 0;
  }
  check::same_extent(range_basis_name, "v", operands.v, 0, "h", operands.h,
                     0);  // an h without extents would count as absent
  check::same_extent(range_basis_name, "v", operands.v, 2, "h", operands.h, 1);
  return compute(ctx, operands, options);
}

template <class T>
range_tensors<T> range_basis(context& ctx, const tensor<T>& t, const range_options& options) {
  return compute(ctx, head_values<T>{detail::matrices_of(range_basis_name, "t", t)}, options);
}

template range_tensors<float> range_basis(context&, const tensor<float>&, const tensor<float>&, const range_options&);
template range_tensors<double> range_basis(context&, const tensor<double>&, const tensor<double>&,
                                           const range_options&);
template range_tensors<float> range_basis(context&, const tensor<float>&, const range_options&);
template range_tensors<double> range_basis(context&, const tensor<double>&, const range_options&);

}  // namespace nullscope
