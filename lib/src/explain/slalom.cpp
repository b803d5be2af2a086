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

using detail::entry_count, detail::is_dense, detail::leading_dimension, detail::memory_of;

constexpr std::int64_t batch_bytes = std::int64_t{1} << 29;  // of temporary memory for the fits that run together

/// Memory that is handed out piece by piece.
template <class T>
struct piece_by_piece {
  T* next;
  T* take(std::int64_t count) {
    T* const result = next;
    next += count;
    return result;
  }
};

/// The fits of a batch on the device: operands in three arrays, results in one.
template <class T>
class fit_batch {
 public:
  fit_batch(context& ctx, std::span<const slalom_queries> problems, const slalom_options& options)
      : ctx_(ctx), problems_(problems), options_(options) {
    for (const slalom_queries& q : problems) append(q);
    numbers_ = tensor<T>(ctx, {static_cast<std::int64_t>(host_numbers_.size())}, host_numbers_);
    indices_ = tensor<std::int64_t>(ctx, {static_cast<std::int64_t>(host_indices_.size())}, host_indices_);
    tokens_ = tensor<std::int32_t>(ctx, {static_cast<std::int64_t>(host_tokens_.size())}, host_tokens_);
    std::int64_t results = 0, memory = 0;
    for (const slalom_queries& q : problems) {
      results += result_count(q);
      memory += memory_of(q, options.errors);
      longest_ = std::max(longest_, q.tokens);
      classes_ = std::max(classes_, q.classes);
    }
    results_ = tensor<T>(ctx, {results}, std::vector<T>(static_cast<std::size_t>(results)));
    memory_ = tensor<T>(ctx, {memory});
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
  /// importance, value, figures, and the errors of both with their covariance
  static std::int64_t result_count(const slalom_queries& q) {
    return q.tokens * (2 + 3 * q.classes) + kernels::slalom_figures;
  }

  void append(const slalom_queries& q) {
    const std::int64_t ld = leading_dimension(q);
    if (is_dense(q)) {
      const std::size_t first = host_numbers_.size();
      host_numbers_.resize(first + static_cast<std::size_t>(q.size() * ld));
      for (std::int64_t i = 0; i < q.size(); ++i) {
        for (auto e = q.begin[static_cast<std::size_t>(i)]; e < q.begin[static_cast<std::size_t>(i) + 1]; ++e) {
          const auto entry = static_cast<std::size_t>(e);
          host_numbers_[first + static_cast<std::size_t>(i * ld + q.token[entry])] = static_cast<T>(q.count[entry]);
        }
      }
    } else {
      for (const double n : q.count) host_numbers_.push_back(static_cast<T>(n));
      append_columns(q);
    }
    double total = 0;
    for (const double weight : q.weight) host_numbers_.push_back(static_cast<T>(std::sqrt(weight)));
    for (const double weight : q.weight) host_numbers_.push_back(static_cast<T>(total += weight));
    for (std::int64_t c = 0; c < q.classes; ++c) {
      for (std::int64_t i = 0; i < q.size(); ++i) {
        const double y = q.targets[static_cast<std::size_t>(i * q.classes + c)];
        host_numbers_.push_back(static_cast<T>(y * std::sqrt(q.weight[static_cast<std::size_t>(i)])));
      }
    }
  }

  /// begin, then the entries of each token; tokens, then the query of each entry.
  void append_columns(const slalom_queries& q) {
    host_indices_.insert(host_indices_.end(), q.begin.begin(), q.begin.end());
    std::vector<std::int64_t> columns(static_cast<std::size_t>(q.tokens) + 1);
    for (const std::int32_t t : q.token) ++columns[static_cast<std::size_t>(t) + 1];
    for (std::size_t t = 1; t < columns.size(); ++t) columns[t] += columns[t - 1];
    host_indices_.insert(host_indices_.end(), columns.begin(), columns.end());
    std::vector<std::int64_t> entries(q.token.size());
    for (std::size_t e = 0; e < q.token.size(); ++e) {
      entries[static_cast<std::size_t>(columns[static_cast<std::size_t>(q.token[e])]++)] = static_cast<std::int64_t>(e);
    }
    host_indices_.insert(host_indices_.end(), entries.begin(), entries.end());
    host_tokens_.insert(host_tokens_.end(), q.token.begin(), q.token.end());
    for (std::int64_t i = 0; i < q.size(); ++i) {
      const std::int64_t count = q.begin[static_cast<std::size_t>(i) + 1] - q.begin[static_cast<std::size_t>(i)];
      host_tokens_.insert(host_tokens_.end(), static_cast<std::size_t>(count), static_cast<std::int32_t>(i));
    }
  }

  void describe() {
    piece_by_piece<const T> numbers{numbers_.data()};
    piece_by_piece<const std::int64_t> indices{indices_.data()};
    piece_by_piece<const std::int32_t> tokens{tokens_.data()};
    piece_by_piece<T> memory{memory_.data()}, results{results_.data()};
    std::vector<kernels::slalom_problem<T>> all;
    std::vector<kernels::slalom_error_memory<T>> errors;
    for (const slalom_queries& q : problems_) {
      kernels::slalom_problem<T> p{};
      const std::int64_t ld = leading_dimension(q), matrix = q.tokens * ld, entries = entry_count(q);
      p.queries = q.size(), p.tokens = q.tokens, p.classes = q.classes, p.ld = ld, p.dense = is_dense(q);
      p.count = numbers.take(entries);
      p.root_weight = numbers.take(p.queries);
      p.weight_up_to = numbers.take(p.queries);
      p.target = numbers.take(p.queries * p.classes);
      if (!p.dense) {
        p.row_begin = indices.take(p.queries + 1);
        p.column_begin = indices.take(p.tokens + 1);
        p.column_entry = indices.take(entries);
        p.token = tokens.take(entries);
        p.entry_query = tokens.take(entries);
      }
      p.factor = memory.take(matrix), p.reduced = memory.take(matrix), p.work = memory.take(matrix);
      p.vectors = memory.take(kernels::slalom_vectors * ld);
      kernels::slalom_error_memory<T> m{};
      if (options_.errors) {
        m.value_inverse = memory.take(matrix), m.step_inverse = memory.take(matrix);
        m.follow = memory.take(p.classes * matrix), m.follow_transposed = memory.take(p.classes * matrix);
        for (T** block : {&m.pulls, &m.moves, &m.values}) *block = memory.take(kernels::slalom_block * ld);
        m.sums = memory.take((1 + 2 * p.classes) * ld);
      }
      p.alpha = memory.take(entries);
      p.slope = memory.take(std::max(entries, (1 + p.classes) * ld));
      p.residual = memory.take(p.classes * p.queries);
      p.importance = results.take(p.tokens), p.value = results.take(p.classes * p.tokens);
      p.figures = results.take(kernels::slalom_figures);
      m.importance_error = results.take(p.tokens), m.value_error = results.take(p.classes * p.tokens);
      m.covariance = results.take(p.classes * p.tokens);
      all.push_back(p);
      errors.push_back(m);
    }
    const auto count = static_cast<std::int64_t>(all.size());
    descriptions_ = tensor<kernels::slalom_problem<T>>(ctx_, {count}, all);
    error_descriptions_ = tensor<kernels::slalom_error_memory<T>>(ctx_, {count}, errors);
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
    piece_by_piece<const T> from{numbers.data()};
    const auto doubles = [&](std::int64_t count) {
      const T* const data = from.take(count);
      return std::vector<double>(data, data + count);
    };
    std::vector<slalom_model> models;
    for (const slalom_queries& q : problems_) {
      slalom_model model;
      model.classes = q.classes;
      model.importance = doubles(q.tokens);
      model.value = doubles(q.classes * q.tokens);
      const std::vector<double> figures = doubles(kernels::slalom_figures);
      model.importance_error = doubles(q.tokens);
      model.value_error = doubles(q.classes * q.tokens);
      model.covariance = doubles(q.classes * q.tokens);
      double total = 0;
      for (const double weight : q.weight) total += weight;
      model.mean_squared_error = figures[kernels::sum_of_squares] / (total * static_cast<double>(q.classes));
      model.iterations = static_cast<std::int64_t>(figures[kernels::iterations]);
      model.converged = figures[kernels::converged] != 0;
      for (double& s : model.importance) s += options_.sum / static_cast<double>(q.tokens);
      const std::int64_t free_classes = std::max<std::int64_t>(1, q.classes - 1);
      model.has_enough_queries = free_classes * detail::different_queries(q) >= (1 + free_classes) * q.tokens - 1;
      if (!options_.errors) {
        model.importance_error.clear(), model.value_error.clear(), model.covariance.clear();
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
  const slalom_options& options_;
  std::vector<T> host_numbers_;
  std::vector<std::int64_t> host_indices_;
  std::vector<std::int32_t> host_tokens_;
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
    std::int64_t bytes = 0;
    while (last < problems.size() && (last == first || bytes < batch_bytes)) {
      bytes += memory_of(problems[last++], options.errors) * static_cast<std::int64_t>(sizeof(T));
    }
    for (slalom_model& model : fit_batch<T>(ctx, problems.subspan(first, last - first), options).fit()) {
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
