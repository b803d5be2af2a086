#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/explain/slalom.hpp>

#include "kernels/explain/slalom_errors.hpp"
#include "kernels/explain/slalom_sgd.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/explain/slalom_layout.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

using detail::array_part, detail::slalom_layout, detail::slalom_lengths;

constexpr std::int64_t batch_bytes = std::int64_t{1} << 29;  // of temporary memory for the fits that run together

/// The address of a part of an array, null if the fit has no such part.
template <class T>
T* address(T* array, const array_part& part) {
  return part.count > 0 ? array + part.first : nullptr;
}

/// The operands of a batch of fits, as they are copied to the device.
template <class T>
class operand_arrays {
 public:
  explicit operand_arrays(const slalom_lengths& lengths)
      : numbers(static_cast<std::size_t>(lengths.numbers)),
        indices(static_cast<std::size_t>(lengths.indices)),
        tokens(static_cast<std::size_t>(lengths.tokens)) {}

  void fill(const slalom_queries& q, const slalom_layout& at) {
    T* const count = numbers.data() + at.count.first;  // zeros so far
    T* const root_weight = numbers.data() + at.root_weight.first;
    T* const weight_up_to = numbers.data() + at.weight_up_to.first;
    T* const target = numbers.data() + at.target.first;
    double total = 0;
    for (std::int64_t i = 0; i < at.queries; ++i) {
      const auto query = static_cast<std::size_t>(i);
      for (std::int64_t e = q.begin[query]; e < q.begin[query + 1]; ++e) {
        const auto entry = static_cast<std::size_t>(e);
        count[at.place(i, q.token[entry], e)] = static_cast<T>(q.count[entry]);
      }
      root_weight[i] = static_cast<T>(std::sqrt(q.weight[query]));
      weight_up_to[i] = static_cast<T>(total += q.weight[query]);
      for (std::int64_t c = 0; c < at.classes; ++c) {
        const double y = q.targets[static_cast<std::size_t>(i * at.classes + c)];
        target[c * at.queries + i] = static_cast<T>(y * std::sqrt(q.weight[query]));
      }
    }
    if (!at.dense) fill_columns(q, at);
  }

  std::vector<T> numbers;
  std::vector<std::int64_t> indices;
  std::vector<std::int32_t> tokens;

 private:
  /// Entries by query and by token.
  void fill_columns(const slalom_queries& q, const slalom_layout& at) {
    std::ranges::copy(q.begin, indices.data() + at.row_begin.first);
    std::ranges::copy(q.token, tokens.data() + at.token.first);
    std::int64_t* const column_begin = indices.data() + at.column_begin.first;
    std::int64_t* const column_entry = indices.data() + at.column_entry.first;
    std::int32_t* const entry_query = tokens.data() + at.entry_query.first;
    for (const std::int32_t t : q.token) ++column_begin[t + 1];
    for (std::int64_t t = 0; t < at.tokens; ++t) column_begin[t + 1] += column_begin[t];
    std::vector<std::int64_t> next(column_begin, column_begin + at.tokens);
    for (std::int64_t i = 0; i < at.queries; ++i) {
      const auto query = static_cast<std::size_t>(i);
      for (std::int64_t e = q.begin[query]; e < q.begin[query + 1]; ++e) {
        const auto token = static_cast<std::size_t>(q.token[static_cast<std::size_t>(e)]);
        column_entry[next[token]++] = e;
        entry_query[e] = static_cast<std::int32_t>(i);
      }
    }
  }
};

/// The fits of a batch on the device: operands in three arrays, results in one.
template <class T>
class fit_batch {
 public:
  /// layouts[i] is that of problems[i] in arrays of these lengths.
  fit_batch(context& ctx, std::span<const slalom_queries> problems, std::span<const slalom_layout> layouts,
            const slalom_lengths& lengths, const slalom_options& options)
      : ctx_(ctx), problems_(problems), layouts_(layouts), options_(options) {
    operand_arrays<T> operands(lengths);
    for (std::size_t i = 0; i < problems.size(); ++i) operands.fill(problems[i], layouts[i]);
    for (const slalom_layout& at : layouts) {
      longest_ = std::max(longest_, at.tokens);
      classes_ = std::max(classes_, at.classes);
    }
    numbers_ = tensor<T>(ctx, {lengths.numbers}, operands.numbers);
    indices_ = tensor<std::int64_t>(ctx, {lengths.indices}, operands.indices);
    tokens_ = tensor<std::int32_t>(ctx, {lengths.tokens}, operands.tokens);
    results_ = tensor<T>(ctx, {lengths.results}, std::vector<T>(static_cast<std::size_t>(lengths.results)));
    memory_ = tensor<T>(ctx, {lengths.memory});
    describe();
  }

  std::vector<slalom_model> fit() {
    operation op(ctx_, "fit_slalom");
    const auto count = static_cast<std::int64_t>(problems_.size());
    detail::dispatch_rows<T>(detail::choose_row_shape(ctx_.layout(), longest_, true), [&]<int W, int Items>() {
      if (options_.method == slalom_method::sgd) {
        detail::launch_groups<Items>(op, count, sgd_kernel<Items>(op, count));
      } else {
        detail::launch_groups<Items>(
            op, count,
            kernels::slalom_fit<T, W, Items>{descriptions_.data(),
                                             {options_.iterations, static_cast<T>(options_.tolerance)}});
      }
      if (options_.errors) {
        detail::launch_groups<Items>(
            op, count,
            kernels::slalom_errors<T, W, Items>{descriptions_.data(), error_descriptions_.data(),
                                                static_cast<T>(options_.noise)});
      }
    });
    op.submit_and_wait();
    return collect();
  }

 private:
  void describe() {
    std::vector<kernels::slalom_problem<T>> problems;
    std::vector<kernels::slalom_error_memory<T>> errors;
    for (const slalom_layout& at : layouts_) {
      problems.push_back(problem_of(at));
      errors.push_back(error_memory_of(at));
    }
    const auto count = static_cast<std::int64_t>(layouts_.size());
    descriptions_ = tensor<kernels::slalom_problem<T>>(ctx_, {count}, problems);
    error_descriptions_ = tensor<kernels::slalom_error_memory<T>>(ctx_, {count}, errors);
  }

  kernels::slalom_problem<T> problem_of(const slalom_layout& at) {
    const auto number = [&](const array_part& part) { return address<const T>(numbers_.data(), part); };
    const auto index = [&](const array_part& part) { return address<const std::int64_t>(indices_.data(), part); };
    const auto token = [&](const array_part& part) { return address<const std::int32_t>(tokens_.data(), part); };
    const auto memory = [&](const array_part& part) { return address(memory_.data(), part); };
    const auto result = [&](const array_part& part) { return address(results_.data(), part); };
    return {.queries = at.queries,
            .tokens = at.tokens,
            .classes = at.classes,
            .ld = at.ld,
            .dense = at.dense,
            .row_begin = index(at.row_begin),
            .column_begin = index(at.column_begin),
            .column_entry = index(at.column_entry),
            .token = token(at.token),
            .entry_query = token(at.entry_query),
            .count = number(at.count),
            .root_weight = number(at.root_weight),
            .weight_up_to = number(at.weight_up_to),
            .target = number(at.target),
            .alpha = memory(at.alpha),
            .slope = memory(at.slope),
            .residual = memory(at.residual),
            .factor = memory(at.factor),
            .reduced = memory(at.reduced),
            .work = memory(at.work),
            .vectors = memory(at.vectors),
            .importance = result(at.importance),
            .value = result(at.value),
            .figures = result(at.figures)};
  }

  kernels::slalom_error_memory<T> error_memory_of(const slalom_layout& at) {
    const auto memory = [&](const array_part& part) { return address(memory_.data(), part); };
    const auto result = [&](const array_part& part) { return address(results_.data(), part); };
    return {.value_inverse = memory(at.value_inverse),
            .step_inverse = memory(at.step_inverse),
            .follow = memory(at.follow),
            .follow_transposed = memory(at.follow_transposed),
            .pulls = memory(at.pulls),
            .moves = memory(at.moves),
            .values = memory(at.values),
            .sums = memory(at.sums),
            .importance_error = result(at.importance_error),
            .value_error = result(at.value_error),
            .covariance = result(at.covariance)};
  }

  template <int Items>
  kernels::slalom_sgd<T, Items> sgd_kernel(operation& op, std::int64_t count) {
    std::vector<std::int64_t> steps;
    for (const slalom_queries& q : problems_) {
      double total = 0;
      for (const double weight : q.weight) total += weight;
      steps.push_back(options_.epochs *
                      static_cast<std::int64_t>(std::ceil(total / static_cast<double>(options_.batch))));
    }
    steps_ = tensor<std::int64_t>(ctx_, {count}, steps);
    const std::int64_t drawn = count * options_.batch, moments = count * (1 + classes_) * longest_;
    moments_ = tensor<T>(ctx_, {2 * moments}, std::vector<T>(static_cast<std::size_t>(2 * moments)));
    return {descriptions_.data(),
            op.take<kernels::drawn_query<T>>(drawn),
            op.take<T>(drawn * classes_),
            op.take<T>(drawn * classes_),
            moments_.data(),
            moments_.data() + moments,
            longest_,
            classes_,
            options_.batch,
            steps_.data(),
            options_.seed,
            {static_cast<T>(options_.learning_rate), T(0.9), T(0.999), T(1e-8)}};
  }

  std::vector<slalom_model> collect() {
    const std::vector<T> numbers = results_.to_host();
    const auto doubles = [&](const array_part& part) {
      const T* const data = numbers.data() + part.first;
      return std::vector<double>(data, data + part.count);
    };
    std::vector<slalom_model> models;
    for (std::size_t i = 0; i < problems_.size(); ++i) {
      const slalom_queries& q = problems_[i];
      const slalom_layout& at = layouts_[i];
      slalom_model model;
      model.classes = q.classes;
      model.importance = doubles(at.importance);
      model.value = doubles(at.value);
      const std::vector<double> figures = doubles(at.figures);
      double total = 0;
      for (const double weight : q.weight) total += weight;
      model.mean_squared_error = figures[kernels::sum_of_squares] / (total * static_cast<double>(q.classes));
      model.iterations = static_cast<std::int64_t>(figures[kernels::iterations]);
      model.converged = figures[kernels::converged] != 0;
      for (double& s : model.importance) s += options_.sum / static_cast<double>(q.tokens);
      const std::int64_t free_classes = std::max<std::int64_t>(1, q.classes - 1);
      model.has_enough_queries = free_classes * detail::different_queries(q) >= (1 + free_classes) * q.tokens - 1;
      if (options_.errors) {
        model.importance_error = doubles(at.importance_error);
        model.value_error = doubles(at.value_error);
        model.covariance = doubles(at.covariance);
      }
      for (std::size_t j = 0; j < model.importance_error.size(); ++j) {
        if (std::isinf(model.importance_error[j])) model.without_importance.push_back(static_cast<std::int32_t>(j));
      }
      models.push_back(std::move(model));
    }
    return models;
  }

  context& ctx_;
  std::span<const slalom_queries> problems_;
  std::span<const slalom_layout> layouts_;
  const slalom_options& options_;
  tensor<T> numbers_, results_, memory_, moments_;
  tensor<std::int64_t> indices_, steps_;
  tensor<std::int32_t> tokens_;
  tensor<kernels::slalom_problem<T>> descriptions_;
  tensor<kernels::slalom_error_memory<T>> error_descriptions_;
  std::int64_t longest_ = 0, classes_ = 0;
};

template <class T>
std::vector<slalom_model> fit_all(context& ctx, std::span<const slalom_queries> problems,
                                  const slalom_options& options) {
  std::vector<slalom_model> models;
  std::size_t first = 0;
  while (first < problems.size()) {  // as many at a time as the memory allows, at least one
    std::size_t last = first;
    slalom_lengths lengths;
    std::vector<slalom_layout> layouts;
    while (last < problems.size() &&
           (last == first || lengths.memory * static_cast<std::int64_t>(sizeof(T)) < batch_bytes)) {
      layouts.emplace_back(problems[last++], options.errors, lengths);
    }
    fit_batch<T> batch(ctx, problems.subspan(first, last - first), layouts, lengths, options);
    for (slalom_model& model : batch.fit()) {
      models.push_back(std::move(model));
    }
    first = last;
  }
  return models;
}

}  // namespace

std::vector<slalom_model> fit_slalom(context& ctx, std::span<const slalom_queries> problems,
                                     const slalom_options& options) {
  for (std::size_t i = 0; i < problems.size(); ++i) detail::check_queries(i, problems[i]);
  detail::check_targets(problems);
  if (options.batch < 1 || options.epochs < 0 || options.iterations < 0 || !(options.learning_rate > 0)) {
    throw invalid_argument(fmt::format("fit_slalom: batch {}, epochs {}, iterations {}, learning rate {}",
                                       options.batch, options.epochs, options.iterations, options.learning_rate));
  }
  slalom_options chosen = options;
  chosen.errors = options.errors && options.method == slalom_method::least_squares;
  return ctx.device().fp64 ? fit_all<double>(ctx, problems, chosen) : fit_all<float>(ctx, problems, chosen);
}

}  // namespace nullscope
