/// Exact fits, and how many tokens probes identify.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/qr.hpp>

#include "lib/src/core/checks.hpp"
#include "lib/src/probes/probe_fit.hpp"

namespace nullscope::detail {
namespace {

std::vector<token_list> shifted(std::vector<token_list> lists, std::int64_t offset) {
  for (token_list& list : lists) {
    for (std::int32_t& token : list) token += static_cast<std::int32_t>(offset);
  }
  return lists;
}

/// Throws if the matrix of a probe is not finite.
template <class T>
void check_finite(const tensor<T>& parameters, std::span<const probe> probes) {
  const std::vector<T> host = parameters.to_host();
  const std::size_t size = host.size() / probes.size();
  std::vector<std::int64_t> failed;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const auto begin = host.begin() + static_cast<std::ptrdiff_t>(i * size);
    const bool is_finite =
        std::all_of(begin, begin + static_cast<std::ptrdiff_t>(size), [](T x) { return std::isfinite(x); });
    if (!is_finite) failed.push_back(probes[i].source);
  }
  if (failed.empty()) return;
  std::sort(failed.begin(), failed.end());
  failed.erase(std::unique(failed.begin(), failed.end()), failed.end());
  throw computation_error(
      fmt::format("{}: the states of layers {} hold NaN or infinity", probes_name, fmt::join(failed, ", ")), failed);
}

}  // namespace

template <class T>
fitted_probes<T> solve_probes(const probe_problem<T>& problem, std::span<const probe> probes) {
  context& ctx = problem.ctx;
  const std::int64_t count = std::ssize(probes), d = problem.shape.width;
  std::vector<token_list> tokens;
  for (const fold_tokens& one : problem.folds) tokens.push_back(one.training);
  std::vector<kernels::probe_choice> from, to;
  for (const probe& one : probes) {
    from.push_back(one.choice());
    to.push_back({from.back().list, from.back().target, from.back().target});
  }
  const device_lists sources(ctx, tokens, from, 0), targets(ctx, shifted(tokens, problem.options.offset), to, 0);
  fitted_probes<T> result{tensor<T>(ctx, {count, d * d}),
                          std::vector<double>(probes.size(), std::numeric_limits<double>::quiet_NaN()),
                          std::vector<std::int64_t>(probes.size(), 0)};
  operation op(ctx, probes_name);
  const view<T, 3> a = op.take_array<T>(count, sources.longest(), d), b = op.take_array<T>(count, sources.longest(), d);
  problem.data.gather(op, sources.from(0), a);
  problem.data.gather(op, targets.from(0), b);
  least_squares(ctx, least_squares_operands<T>{a, b}, contiguous(result.parameters.data(), count, d, d));
  op.submit_and_wait();
  check_finite(result.parameters, probes);
  return result;
}

template <class T>
std::vector<std::int64_t> count_identified(const probe_problem<T>& problem, std::span<const probe> probes,
                                           const tensor<T>& parameters, const std::vector<token_list>& lists,
                                           std::span<const std::int64_t> sources) {
  context& ctx = problem.ctx;
  const probe_shape& shape = problem.shape;
  const std::int64_t count = std::ssize(probes), rows = problem.options.training.batch;
  std::vector<kernels::probe_choice> choices;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    choices.push_back(probes[i].choice());
    choices.back().source = static_cast<std::int32_t>(sources[i]);
  }
  const device_lists device(ctx, lists, choices, problem.options.offset);
  tensor<std::int32_t> correct(ctx, {count, device.longest()});
  const view<std::int32_t, 2> all = correct;
  {
    operation op(ctx, probes_name);
    probe_activations<T> x;
    x.e = op.take_array<T>(count, rows, shape.width);
    x.y = shape.map == probe_map::identity ? x.e : op.take_array<T>(count, rows, shape.width);
    if (shape.map == probe_map::mlp) {
      x.pre = op.take_array<T>(count, rows, shape.hidden);
      x.post = op.take_array<T>(count, rows, shape.hidden);
    }
    for (std::int64_t first = 0; first < device.longest(); first += rows) {
      problem.data.gather(op, device.from(first), x.e);
      apply_probes<T>(ctx, shape, parameters, x);
      const std::int64_t left = std::min(rows, device.longest() - first);
      problem.data.nearest(op, device.from(first), problem.options.distance, slice(view<const T, 3>(x.y), 1, 0, left),
                           slice(all, 1, first, left));
    }
    op.submit_and_wait();
  }
  const std::vector<std::int32_t> host = correct.to_host();
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto begin = host.begin() + i * device.longest();
    counts.push_back(std::count(begin, begin + device.longest(), 1));
  }
  return counts;
}

template fitted_probes<float> solve_probes(const probe_problem<float>&, std::span<const probe>);
template fitted_probes<double> solve_probes(const probe_problem<double>&, std::span<const probe>);
template std::vector<std::int64_t> count_identified(const probe_problem<float>&, std::span<const probe>,
                                                    const tensor<float>&, const std::vector<token_list>&,
                                                    std::span<const std::int64_t>);
template std::vector<std::int64_t> count_identified(const probe_problem<double>&, std::span<const probe>,
                                                    const tensor<double>&, const std::vector<token_list>&,
                                                    std::span<const std::int64_t>);

}  // namespace nullscope::detail
