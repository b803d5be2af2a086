#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/explain/slalom.hpp>
#include <nullscope/linalg/gemm.hpp>

#include "kernels/explain/linear_fit.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

constexpr double large_gram = 1 << 24;                       // multiply-adds of x^T x from which all threads share it
constexpr std::size_t batch_numbers = std::size_t{1} << 26;  // in the rows of the fits that run together

void check(std::span<const linear_samples> problems, const linear_fit_options& options) {
  if (!(options.ridge >= 0) || !(options.lasso >= 0)) {
    throw invalid_argument(
        fmt::format("fit_linear: ridge {}, lasso {}; both must not be negative", options.ridge, options.lasso));
  }
  std::vector<std::int64_t> failed;
  const auto is_finite = [](double x) { return std::isfinite(x); };
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const linear_samples& p = problems[i];
    const std::size_t samples = p.targets.size();
    if (p.features < 1 || samples == 0 || p.rows.size() != samples * static_cast<std::size_t>(p.features) ||
        (!p.weights.empty() && p.weights.size() != samples)) {
      throw invalid_argument(
          fmt::format("fit_linear: problem {} has {} features, {} targets, {} numbers in rows and "
                      "{} weights",
                      i, p.features, samples, p.rows.size(), p.weights.size()));
    }
    if (!std::ranges::all_of(p.weights, [](double w) { return w >= 0 && std::isfinite(w); })) {
      throw invalid_argument(fmt::format("fit_linear: problem {} has weights that are negative or not finite", i));
    }
    if (!std::ranges::all_of(p.targets, is_finite) || !std::ranges::all_of(p.rows, is_finite)) {
      failed.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (failed.empty()) return;
  throw computation_error(fmt::format("fit_linear: problems {} are not finite", fmt::join(failed, ", ")), failed);
}

double weight_of(const linear_samples& p, std::size_t i) { return p.weights.empty() ? 1 : p.weights[i]; }

/// Where the numbers of a problem begin in the arrays of all.
struct places {
  std::int64_t ld, features, numbers, memory, results;
};

template <class T>
std::vector<linear_surrogate> fit_all(context& ctx, std::span<const linear_samples> problems,
                                      const linear_fit_options& options) {
  std::vector<T> numbers;
  std::vector<places> at;
  std::int64_t memory_count = 0, result_count = 0, longest = 1;
  for (const linear_samples& p : problems) {
    const std::int64_t features = p.features + (options.intercept ? 1 : 0);
    const std::int64_t ld = detail::padded_row(features);
    at.push_back({ld, features, static_cast<std::int64_t>(numbers.size()), memory_count, result_count});
    memory_count += (features + 3) * ld;
    result_count += ld;
    longest = std::max(longest, features);
    double total = 0;
    const std::size_t first = numbers.size(), samples = p.targets.size();
    numbers.resize(first + samples * static_cast<std::size_t>(ld));  // x, then target, ridge, lasso
    for (std::size_t i = 0; i < samples; ++i) {
      const double root = std::sqrt(weight_of(p, i));
      total += weight_of(p, i);
      T* const row = numbers.data() + first + i * static_cast<std::size_t>(ld);
      for (std::int64_t j = 0; j < p.features; ++j) {
        row[j] = static_cast<T>(root * p.rows[i * static_cast<std::size_t>(p.features) + static_cast<std::size_t>(j)]);
      }
      if (options.intercept) row[p.features] = static_cast<T>(root);
    }
    for (std::size_t i = 0; i < samples; ++i) {
      numbers.push_back(static_cast<T>(std::sqrt(weight_of(p, i)) * p.targets[i]));
    }
    for (const double penalty : {options.ridge, total * options.lasso}) {
      for (std::int64_t j = 0; j < features; ++j) numbers.push_back(static_cast<T>(j < p.features ? penalty : 0));
    }
  }
  const tensor<T> operands(ctx, {static_cast<std::int64_t>(numbers.size())}, numbers);
  tensor<T> memory(ctx, {memory_count}), results(ctx, {result_count});
  std::vector<kernels::linear_problem<T>> descriptions;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const auto& [ld, features, first, from, result] = at[i];
    const std::int64_t samples = problems[i].size();
    const T* const x = operands.data() + first;
    const T* const ridge = x + samples * ld + samples;
    T* const gram = memory.data() + from;
    const bool is_large = static_cast<double>(samples * features) * static_cast<double>(features) >= large_gram;
    descriptions.push_back({samples, features, ld, x, x + samples * ld, ridge, ridge + features, gram, is_large,
                            gram + features * ld, results.data() + result});
  }
  const auto count = static_cast<std::int64_t>(problems.size());
  const tensor<kernels::linear_problem<T>> on_device(ctx, {count}, descriptions);
  operation op(ctx, "fit_linear");
  for (const kernels::linear_problem<T>& p : descriptions) {
    if (!p.has_gram) continue;
    const view<const T, 3> x = contiguous(p.x, std::int64_t{1}, p.rows, p.ld);
    gemm(ctx, gemm_operands<T>{transposed(slice(x, 2, 0, p.features)), x},
         contiguous(p.gram, std::int64_t{1}, p.features, p.ld));
  }
  detail::dispatch_rows<T>(detail::choose_row_shape(ctx.layout(), longest, true), [&]<int W, int Items>() {
    detail::launch_groups<Items>(op, count,
                                 kernels::linear_fit<T, W, Items>{on_device.data(), options.lasso > 0, options.sweeps,
                                                                  static_cast<T>(options.tolerance)});
  });
  op.submit_and_wait();
  const std::vector<T> found = results.to_host();
  std::vector<linear_surrogate> models;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const linear_samples& p = problems[i];
    linear_surrogate model;
    const T* const w = found.data() + at[i].results;
    model.coefficients.assign(w, w + p.features);
    if (options.intercept) model.intercept = static_cast<double>(w[p.features]);
    const std::vector<double> guesses = predict(model, p);
    double sum = 0, total = 0;
    for (std::size_t k = 0; k < guesses.size(); ++k) {
      sum += weight_of(p, k) * (p.targets[k] - guesses[k]) * (p.targets[k] - guesses[k]);
      total += weight_of(p, k);
    }
    model.mean_squared_error = sum / total;
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace

std::vector<linear_surrogate> fit_linear(context& ctx, std::span<const linear_samples> problems,
                                         const linear_fit_options& options) {
  check(problems, options);
  std::vector<linear_surrogate> models;
  while (!problems.empty()) {  // as many at a time as the memory allows, at least one
    std::size_t count = 0, numbers = 0;
    while (count < problems.size() && (count == 0 || numbers < batch_numbers)) numbers += problems[count++].rows.size();
    const auto part = problems.first(count);
    for (linear_surrogate& model :
         ctx.device().fp64 ? fit_all<double>(ctx, part, options) : fit_all<float>(ctx, part, options)) {
      models.push_back(std::move(model));
    }
    problems = problems.subspan(count);
  }
  return models;
}

std::vector<double> predict(const linear_surrogate& model, const linear_samples& samples) {
  if (static_cast<std::int64_t>(model.coefficients.size()) != samples.features) {
    throw invalid_argument(fmt::format("predict: the model has {} features, the samples have {}",
                                       model.coefficients.size(), samples.features));
  }
  std::vector<double> scores;
  const std::size_t width = model.coefficients.size();
  for (std::size_t i = 0; width > 0 && i < samples.rows.size(); i += width) {
    double sum = model.intercept;
    for (std::size_t j = 0; j < width; ++j) sum += model.coefficients[j] * samples.rows[i + j];
    scores.push_back(sum);
  }
  return scores;
}

}  // namespace nullscope
