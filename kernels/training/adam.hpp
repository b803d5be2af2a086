/// Adam on flat arrays, and the norm of a gradient.
#pragma once

#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// One step of Adam. `rate` and `root_correction` hold the bias corrections: rate = learning_rate / (1 - beta1^step),
/// root_correction = 1 / sqrt(1 - beta2^step). A work-group takes `per_group` parameters.
template <class T, int W, int Items>
struct adam {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  const T *gradient, *gradient_scale;  // gradient_scale null: 1
  T *parameters, *first, *second;
  std::int64_t count, per_group;
  T rate, beta1, beta2, epsilon, root_correction;
  T coupled_decay;    // times the parameter, added to the gradient
  T decoupled_decay;  // learning_rate * weight_decay, times the parameter, subtracted from it

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    using numbers = pack<T, W>;
    const group<Items> members(item, local);
    const std::int64_t begin = members.number() * per_group;
    const std::int64_t size = sycl::min(per_group, count - begin);
    const numbers scale(gradient_scale == nullptr ? T(1) : *gradient_scale);
    const row<const T, W> g_row{gradient + begin, 1};
    const row<T, W> p_row{parameters + begin, 1}, m_row{first + begin, 1}, v_row{second + begin, 1};
    walk<W, 1>(members, size, [&](auto, std::int64_t c, auto lanes) {
      numbers p = p_row.load(c, lanes);
      const numbers g = fma(numbers(coupled_decay), p, scale * g_row.load(c, lanes));
      const numbers m = fma(numbers(beta1), m_row.load(c, lanes), numbers(1 - beta1) * g);
      const numbers v = fma(numbers(beta2), v_row.load(c, lanes), numbers(1 - beta2) * g * g);
      numbers root;
      for (int lane = 0; lane < W; ++lane) root.set(lane, sycl::sqrt(v[lane]));
      p = p - numbers(decoupled_decay) * p;
      p = p - numbers(rate) * m / fma(root, numbers(root_correction), numbers(epsilon));
      p_row.store(c, p, lanes);
      m_row.store(c, m, lanes);
      v_row.store(c, v, lanes);
    });
  }
};

/// partial (groups): sums of squares of `per_group` elements each.
template <class T, int W, int Items>
struct squares_of_blocks {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  const T* x;
  T* partial;
  std::int64_t count, per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    const std::int64_t begin = members.number() * per_group;
    const row<const T, W> values{x + begin, 1};
    pack<T, W> sum(T(0));
    walk<W, 1>(members, sycl::min(per_group, count - begin), [&](auto, std::int64_t c, auto lanes) {
      const pack<T, W> value = values.load(c, lanes);
      sum = fma(value, value, sum);
    });
    const T total = members.sum(sum);
    if (members.rank() == 0) partial[members.number()] = total;
  }
};

/// norm (1) = sqrt of the sum of partial (groups), scale (1) = min(1, largest_norm / norm), or 1 if largest_norm is 0.
/// NaN in both if the sum is not finite. One work-item.
template <class T>
struct clip_scale {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = true;

  const T* partial;
  std::int64_t groups;
  T *norm, *scale;
  T largest_norm;

  void operator()(sycl::nd_item<1>, std::byte*) const {
    T sum = 0;
    for (std::int64_t group = 0; group < groups; ++group) sum += partial[group];
    const bool is_finite = sum < std::numeric_limits<T>::infinity();
    const T root = is_finite ? sycl::sqrt(sum) : std::numeric_limits<T>::quiet_NaN();
    *norm = root;
    *scale = !is_finite ? root : largest_norm > T(0) && root > largest_norm ? largest_norm / root : T(1);
  }
};

}  // namespace nullscope::kernels
