#include <algorithm>
#include <nullscope/null_space.hpp>

#include "batches.hpp"

namespace nullscope {
namespace {

/// Fills a result with what `compute(u, s, rank, status)` gives, which returns an event.
template <class T, class Compute>
range_result<T> collect(sycl::queue& queue, std::int64_t batch, std::int64_t tokens, std::int64_t columns,
                        const range_options& options, Compute compute) {
  range_result<T> result;
  result.basis = tensor<T>(queue, {batch, tokens, columns + 1});
  result.s = tensor<T>(queue, {batch, columns});
  tensor<std::int64_t> rank(queue, {batch}), rank_with_ones(queue, {batch});
  tensor<std::int32_t> status(queue, {batch});
  tensor<std::byte> scratchpad(queue, {options.with_ones ? append_ones_scratchpad_size<T>(batch, tokens) : 0});
  const detail::wait_on_error guard(queue);
  const view<T, 3> basis = result.basis.template as<3>();
  sycl::event cleared;
  if (!basis.empty()) cleared = queue.fill(basis.data, T(0), static_cast<std::size_t>(basis.size()));
  cleared.wait();
  compute(slice(basis, 2, 0, columns), result.s.template as<2>(), rank.as<1>(), status.as<1>()).wait();
  result.rank = rank.to_host();
  const std::vector<std::int64_t> failed = detail::failed_ids(status.to_host(), result.rank);
  if (!failed.empty()) {
    throw computation_error(fmt::format("range_basis: {} of {} matrices hold NaN or infinity, overflow, or did not "
                                        "converge: {}",
                                        failed.size(), batch, fmt::join(failed, ", ")),
                            failed);
  }
  const auto left_over = [&](const std::vector<std::int64_t>& ranks) {
    std::vector<std::int64_t> dimensions;
    for (const std::int64_t r : ranks) dimensions.push_back(tokens - r);
    return dimensions;
  };
  result.null_dimension = left_over(result.rank);
  if (!options.with_ones) return result;
  append_ones(queue, basis, rank.as<1>(), rank_with_ones.as<1>(), scratchpad.span()).wait();
  result.rank_with_ones = rank_with_ones.to_host();
  result.null_dimension_with_ones = left_over(result.rank_with_ones);
  return result;
}

}  // namespace

template <class T>
range_result<T> range_basis(sycl::queue& queue, const tensor<T>& v, const tensor<T>& h, const range_options& options) {
  const view<const T, 3> values = detail::as_batch("range_basis", "v", v);
  view<const T, 3> projection = detail::as_batch("range_basis", "h", h);
  if (h.shape().size() == 2) {
    projection.extent[0] = values.extent[0];
    projection.stride[0] = 0;
  }
  const std::int64_t batch = values.extent[0], tokens = values.extent[1], width = projection.extent[2];
  tensor<std::byte> scratchpad(queue, {range_basis_scratchpad_size<T>(queue, batch, tokens, values.extent[2], width)});
  return collect<T>(queue, batch, tokens, std::min({tokens, values.extent[2], width}), options,
                    [&](auto u, auto s, auto rank, auto status) {
                      return range_basis<T>(queue, values, projection, u, s, rank, status, scratchpad.span(),
                                            options.tolerance);
                    });
}

template <class T>
range_result<T> range_basis(sycl::queue& queue, const tensor<T>& t, const range_options& options) {
  const view<const T, 3> plain = detail::as_batch("range_basis", "t", t);
  const std::int64_t batch = plain.extent[0], tokens = plain.extent[1], width = plain.extent[2];
  tensor<std::byte> scratchpad(queue, {range_basis_scratchpad_size<T>(queue, batch, tokens, width)});
  return collect<T>(queue, batch, tokens, std::min(tokens, width), options,
                    [&](auto u, auto s, auto rank, auto status) {
                      return range_basis<T>(queue, plain, u, s, rank, status, scratchpad.span(), options.tolerance);
                    });
}

template range_result<float> range_basis<float>(sycl::queue&, const tensor<float>&, const tensor<float>&,
                                                const range_options&);
template range_result<double> range_basis<double>(sycl::queue&, const tensor<double>&, const tensor<double>&,
                                                  const range_options&);
template range_result<float> range_basis<float>(sycl::queue&, const tensor<float>&, const range_options&);
template range_result<double> range_basis<double>(sycl::queue&, const tensor<double>&, const range_options&);

}  // namespace nullscope
