#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/structure/structure_norm.hpp>

#include "kernels/structure/cut_rows.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/fill.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

void check_options(const char* function, const cut_options& options) {
  if (options.inputs < 1) {
    throw invalid_argument(fmt::format("{}: inputs is {}; it must be at least 1", function, options.inputs));
  }
  if (!(options.threshold >= 0) || std::isinf(options.threshold)) {
    throw invalid_argument(
        fmt::format("{}: threshold is {}; it must be finite and not negative", function, options.threshold));
  }
  if (!(options.factor >= 0 && options.factor < 1)) {
    throw invalid_argument(fmt::format("{}: factor is {}; it must be from 0 to below 1", function, options.factor));
  }
}

template <class T>
sycl::event extract(context& ctx, const view<const T, 3>& sum, const structure_results<T>& results,
                    const cut_options& options, const events& dependencies) {
  constexpr const char* function = "extract_structure";
  check::device_type<T>(function, ctx);
  check::input(function, "sum", sum);
  check::output(function, "w", results.w);
  check::same_shape(function, "w", results.w, "sum", sum);
  check::optional_output(function, "emptied", results.emptied, {sum.extent[0], sum.extent[1]});
  check_options(function, options);
  operation op(ctx, function, dependencies);
  const std::int64_t columns = sum.extent[2];
  const T scale = static_cast<T>(1 / static_cast<double>(options.inputs));
  const T empty =
      options.empty == empty_rows::uniform && columns > 0 ? static_cast<T>(1 / static_cast<double>(columns)) : T(0);
  const bool neighbours = detail::has_neighbours(sum) && detail::has_neighbours(results.w);
  detail::launch_rows<T>(op, {sum.extent[0] * sum.extent[1], columns, neighbours}, [&]<int W, int Items>() {
    return kernels::cut_rows<T, W, Items>{
        sum,   results.w, results.emptied, scale, static_cast<T>(options.threshold), static_cast<T>(options.factor),
        empty, 0};
  });
  return op.submit();
}

}  // namespace

sycl::event extract_structure(context& ctx, view<const float, 3> sum, const structure_results<float>& results,
                              const cut_options& options, const events& dependencies) {
  return extract(ctx, sum, results, options, dependencies);
}
sycl::event extract_structure(context& ctx, view<const double, 3> sum, const structure_results<double>& results,
                              const cut_options& options, const events& dependencies) {
  return extract(ctx, sum, results, options, dependencies);
}

template <class T>
structure_accumulator<T>::structure_accumulator(context& ctx, std::int64_t heads, std::int64_t queries,
                                                std::int64_t keys)
    : sum_(detail::zeros<T>(ctx, {heads, queries, keys})) {}

template <class T>
sycl::event structure_accumulator<T>::add(context& ctx, view<const T, 4> a, const events& dependencies) {
  constexpr const char* function = "structure_accumulator::add";
  const view<T, 3> sum = sum_;
  check::input(function, "a", a);
  if (a.extent[1] != sum.extent[0] || a.extent[2] > sum.extent[1] || a.extent[3] > sum.extent[2]) {
    check::fail(function, "a", a,
                fmt::format("should have {} heads, and at most {} rows and {} columns", sum.extent[0], sum.extent[1],
                            sum.extent[2]));
  }
  events before = dependencies;
  before.push_back(*last_);
  operation op(ctx, function, before);
  const view<T, 3> part = slice(slice(sum, 1, 0, a.extent[2]), 2, 0, a.extent[3]);
  for (std::int64_t i = 0; i < a.extent[0]; ++i) axpby(ctx, two_operands<T>{select(a, 0, i), part}, part);
  op.when_submitted([last = last_](const sycl::event& event) { *last = event; });
  const sycl::event done = op.submit();
  inputs_ += a.extent[0];
  return done;
}

template <class T>
sycl::event structure_accumulator<T>::merge(context& ctx, const structure_accumulator& other,
                                            const events& dependencies) {
  constexpr const char* function = "structure_accumulator::merge";
  const view<T, 3> sum = sum_;
  const view<const T, 3> more = other.sum_;
  check::same_shape(function, "other", more, "sum", sum);
  events before = dependencies;
  before.insert(before.end(), {*last_, *other.last_});
  operation op(ctx, function, before);
  axpby(ctx, two_operands<T>{more, sum}, sum);
  op.when_submitted([last = last_](const sycl::event& event) { *last = event; });
  const sycl::event done = op.submit();
  inputs_ += other.inputs_;
  return done;
}

template <class T>
attention_structure<T> structure_accumulator<T>::extract(context& ctx, cut_options options) const {
  if (inputs_ == 0) throw invalid_argument("structure_accumulator::extract: no attention has been added");
  options.inputs = inputs_;
  const std::int64_t heads = sum_.shape()[0], rows = sum_.shape()[1];
  attention_structure<T> result{tensor<T>(ctx, sum_.shape()),
                                std::vector<std::int64_t>(static_cast<std::size_t>(heads))};
  tensor<std::int32_t> emptied(ctx, {heads, rows});
  extract_structure(ctx, sum_, structure_results<T>{result.w, emptied}, options, {*last_}).wait_and_throw();
  const std::vector<std::int32_t> flags = emptied.to_host();
  for (std::size_t i = 0; i < flags.size(); ++i) result.emptied[i / static_cast<std::size_t>(rows)] += flags[i];
  return result;
}

template <class T>
tensor<T> structure_accumulator<T>::mean(context& ctx) const {
  if (inputs_ == 0) throw invalid_argument("structure_accumulator::mean: no attention has been added");
  tensor<T> result(ctx, sum_.shape());
  scale(ctx, sum_, result, static_cast<T>(1 / static_cast<double>(inputs_)), {*last_}).wait_and_throw();
  return result;
}

template class structure_accumulator<float>;
template class structure_accumulator<double>;

}  // namespace nullscope
