#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/structure/model_structure.hpp>
#include <span>

#include "kernels/structure/nearest.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"

namespace nullscope {
namespace {

constexpr const char* k_means_name = "k_means";

/// The members, on the host and on the device, and what is computed from them.
template <class T>
class members {
 public:
  members(context& ctx, const tensor<T>& x)
      : ctx_(ctx), host_(x.to_host()), count_(x.shape()[0]), width_(x.shape()[1]) {
    mean_.assign(static_cast<std::size_t>(width_), 0.0);
    for (std::size_t i = 0; i < host_.size(); ++i) {
      mean_[i % mean_.size()] += static_cast<double>(host_[i]) / static_cast<double>(count_);
    }
    std::vector<T> centred(host_.size());
    for (std::size_t i = 0; i < host_.size(); ++i)
      centred[i] = static_cast<T>(static_cast<double>(host_[i]) - mean_[i % mean_.size()]);
    centred_ = tensor<T>(ctx, {count_, width_}, centred);
  }

  const std::vector<double>& mean() const { return mean_; }

  std::int64_t count() const { return count_; }
  std::int64_t width() const { return width_; }
  std::span<const T> row(std::int64_t i) const {
    return std::span(host_).subspan(static_cast<std::size_t>(i * width_), static_cast<std::size_t>(width_));
  }

  double squared_distance(std::int64_t i, const double* centroid) const {
    double sum = 0;
    for (const T element : row(i)) {
      const double difference = static_cast<double>(element) - *centroid++;
      sum += difference * difference;
    }
    return sum;
  }

  /// For each member the centroid that seems nearest: |c|^2 - 2 x c, in the precision of the device, with x and c
  /// relative to the mean, so that no digits are lost to a common offset.
  std::vector<std::int32_t> nearest(std::vector<double> centroids) {
    const std::int64_t clusters = std::ssize(centroids) / width_;
    for (std::size_t i = 0; i < centroids.size(); ++i) centroids[i] -= mean_[i % mean_.size()];
    std::vector<T> squares;
    for (auto c = centroids.begin(); c != centroids.end(); c += width_) {
      double sum = 0;
      for (auto e = c; e != c + width_; ++e) sum += *e * *e;
      squares.push_back(static_cast<T>(sum));
    }
    const tensor<T> c(ctx_, {clusters, width_}, std::vector<T>(centroids.begin(), centroids.end()));
    const tensor<T> offset(ctx_, {clusters}, squares);
    tensor<std::int32_t> result(ctx_, {count_});
    operation op(ctx_, k_means_name);
    const auto products = op.take_array<T>(count_, clusters);
    gemm(ctx_, gemm_operands<T>{centred_, transposed(view<const T, 3>(c))}, products, {.alpha = -2});
    constexpr std::int64_t items = 64;
    op.launch(detail::groups_of(detail::ceil_div(count_, items), items), 0,
              kernels::nearest_column<T>{view<const T, 2>(products), offset, result});
    op.submit_and_wait();
    return result.to_host();
  }

 private:
  context& ctx_;
  std::vector<T> host_;
  std::int64_t count_, width_;
  std::vector<double> mean_;
  tensor<T> centred_;
};

template <class T>
void check_arguments(const context& ctx, const tensor<T>& x, const k_means_options& options) {
  check::device_type<T>(k_means_name, ctx);
  if (x.shape().size() != 2 || x.size() == 0) {
    throw invalid_argument(fmt::format("{}: x {} is not a matrix with elements", k_means_name, x.shape()));
  }
  if (options.clusters < 1 || options.clusters > x.shape()[0]) {
    throw invalid_argument(fmt::format("{}: {} clusters are not from 1 to the number of rows of x {}", k_means_name,
                                       options.clusters, x.shape()));
  }
  if (options.most_iterations < 1) {
    throw invalid_argument(
        fmt::format("{}: most_iterations is {}; it must be at least 1", k_means_name, options.most_iterations));
  }
}

/// Waiting for results is not possible inside another operation or a dry run: says so before anything is computed.
void check_that_it_can_wait(context& ctx) { operation(ctx, k_means_name).submit_and_wait(); }

template <class T>
void check_finite(const members<T>& x) {
  std::vector<std::int64_t> failed;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::span<const T> row = x.row(i);
    if (!std::all_of(row.begin(), row.end(), [](T element) { return std::isfinite(element); })) failed.push_back(i);
  }
  if (failed.empty()) return;
  throw computation_error(fmt::format("{}: {} of {} rows of x hold NaN or infinity: {}", k_means_name, failed.size(),
                                      x.count(), fmt::join(failed, ", ")),
                          failed);
}

/// k-means++: each centroid is a member, drawn with a probability in proportion to its squared distance from the
/// centroids so far. If all members are centroids already, the first one is drawn again.
template <class T>
std::vector<double> first_centroids(const members<T>& x, const k_means_options& options) {
  std::vector<double> centroids, distance(static_cast<std::size_t>(x.count()), std::numeric_limits<double>::infinity());
  const random_stream stream{options.seed, 0};
  std::int64_t drawn = std::min(
      x.count() - 1, static_cast<std::int64_t>(uniform_at<double>(stream, 0) * static_cast<double>(x.count())));
  for (std::int64_t c = 0;;) {
    const std::span<const T> row = x.row(drawn);
    centroids.insert(centroids.end(), row.begin(), row.end());
    if (++c == options.clusters) return centroids;
    double total = 0;
    const double* newest = centroids.data() + (c - 1) * x.width();
    for (std::int64_t i = 0; i < x.count(); ++i) {
      double& nearest = distance[static_cast<std::size_t>(i)];
      nearest = std::min(nearest, x.squared_distance(i, newest));
      total += nearest;
    }
    double left = uniform_at<double>(stream, c) * total;
    drawn = 0;
    for (std::int64_t i = 0; i < x.count(); ++i) {
      if (distance[static_cast<std::size_t>(i)] == 0) continue;
      drawn = i;  // the last one that has a distance, if rounding leaves something
      left -= distance[static_cast<std::size_t>(i)];
      if (left < 0) break;
    }
  }
}

/// Moves each member to the centroid that the device found, if it is nearer in double as well. Returns whether any did.
template <class T>
bool assign(members<T>& x, k_means_result& result) {
  const std::vector<std::int32_t> found = x.nearest(result.centroids);
  const bool is_first = result.assignment.empty();
  if (is_first) result.assignment = found;
  bool has_changed = is_first;
  double inertia = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    std::int32_t& own = result.assignment[static_cast<std::size_t>(i)];
    const std::int32_t other = found[static_cast<std::size_t>(i)];
    double distance = x.squared_distance(i, result.centroids.data() + own * x.width());
    if (other != own) {
      const double to_other = x.squared_distance(i, result.centroids.data() + other * x.width());
      if (to_other < distance) {
        own = other;
        distance = to_other;
        has_changed = true;
      }
    }
    inertia += distance;
  }
  result.inertia.push_back(inertia);
  return has_changed;
}

/// The centroids become the means of their members; an empty cluster keeps its own.
template <class T>
void average(const members<T>& x, k_means_result& result) {
  const std::size_t width = static_cast<std::size_t>(x.width());
  std::vector<double> sums(result.centroids.size(), 0.0);
  result.sizes.assign(result.centroids.size() / width, 0);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::size_t own = static_cast<std::size_t>(result.assignment[static_cast<std::size_t>(i)]);
    ++result.sizes[own];
    double* sum = sums.data() + own * width;
    for (const T element : x.row(i)) *sum++ += static_cast<double>(element);
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::int64_t size = result.sizes[i / width];
    if (size > 0) result.centroids[i] = sums[i] / static_cast<double>(size);
  }
}

/// Sums of squares and representatives of the final centroids.
template <class T>
void finish(const members<T>& x, k_means_result& result) {
  const std::int64_t width = x.width(), clusters = std::ssize(result.sizes);
  std::vector<double> nearest(result.sizes.size(), std::numeric_limits<double>::infinity());
  result.representatives.assign(result.sizes.size(), -1);
  result.within = result.between = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::size_t own = static_cast<std::size_t>(result.assignment[static_cast<std::size_t>(i)]);
    const double distance = x.squared_distance(i, result.centroids.data() + static_cast<std::int64_t>(own) * width);
    result.within += distance;
    if (distance < nearest[own]) {
      nearest[own] = distance;
      result.representatives[own] = i;
    }
  }
  for (std::int64_t c = 0; c < clusters; ++c) {
    for (std::int64_t j = 0; j < width; ++j) {
      const double difference =
          result.centroids[static_cast<std::size_t>(c * width + j)] - x.mean()[static_cast<std::size_t>(j)];
      result.between += static_cast<double>(result.sizes[static_cast<std::size_t>(c)]) * difference * difference;
    }
  }
}

}  // namespace

template <class T>
k_means_result k_means(context& ctx, const tensor<T>& x, const k_means_options& options) {
  check_arguments(ctx, x, options);
  check_that_it_can_wait(ctx);
  members<T> all(ctx, x);
  check_finite(all);
  k_means_result result;
  result.centroids = first_centroids(all, options);
  for (std::int64_t i = 0; i < options.most_iterations && !result.has_converged; ++i) {
    result.has_converged = !assign(all, result);
    average(all, result);
  }
  finish(all, result);
  return result;
}

template k_means_result k_means(context&, const tensor<float>&, const k_means_options&);
template k_means_result k_means(context&, const tensor<double>&, const k_means_options&);

}  // namespace nullscope
