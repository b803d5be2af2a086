/// Fits of SLALOM by Adam on random minibatches (Leemann et al., algorithm 1), one group per fit.
#pragma once

#include "kernels/explain/slalom_problem.hpp"
#include "kernels/simd/philox.hpp"

namespace nullscope::kernels {

template <class T>
struct adam_settings {
  T learning_rate, beta1, beta2, epsilon;
};

/// A query of the minibatch: its number and the sum of its tokens' weights; prediction and residual of each class
/// follow in the arrays of the kernel.
template <class T>
struct drawn_query {
  std::int64_t number;
  T total;
};

/// p.importance and p.value are the start and the result. The group draws `batch` queries per step, with probabilities
/// in proportion to their weights, by a random number that depends on (seed, step, place) alone: a fit does not depend
/// on what else is in the batch.
template <class T, int Items>
struct slalom_sgd {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  const slalom_problem<T>* problems;
  drawn_query<T>* drawn;  // (fits, batch)
  T *predicted, *rest;    // (fits, batch, classes)
  T *first, *second;      // (fits, (1 + classes) longest): running means of the gradient and of its square, zeros
  std::int64_t longest, classes, batch;  // of all fits: most tokens, most classes
  const std::int64_t* steps;             // (fits)
  std::uint64_t seed;
  adam_settings<T> adam;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    const std::int64_t fit = members.number();
    const slalom_problem<T>& p = problems[fit];
    T power1(1), power2(1);
    for (std::int64_t step = 0; step < steps[fit]; ++step) {
      power1 *= adam.beta1;
      power2 *= adam.beta2;
      draw(members, p, fit, step);
      descend(members, p, fit, 1 - power1, 1 - power2);
    }
    centre(members, p.importance, p.tokens);
    weigh_tokens(members, p, p.importance);
    T squares(0);
    for (std::int64_t c = 0; c < p.classes; ++c) squares += update_residual(members, p, c, p.value + c * p.tokens);
    if (members.rank() != 0) return;
    p.figures[sum_of_squares] = squares;
    p.figures[iterations] = static_cast<T>(steps[fit]);
    p.figures[converged] = 1;
  }

 private:
  /// The minibatch of a step: queries, predictions and residuals.
  void draw(const group<Items>& members, const slalom_problem<T>& p, std::int64_t fit, std::int64_t step) const {
    T* const weights = p.vector(weights_of_tokens);
    members.barrier();
    for (std::int64_t j = members.rank(); j < p.tokens; j += Items) weights[j] = sycl::exp(p.importance[j]);
    members.barrier();
    for (std::int64_t k = members.rank(); k < batch; k += Items) {
      const std::int64_t place = fit * batch + k, i = random_query(p, step * batch + k);
      const entry_range<T> entries(p, i);
      T total(0);
      for (std::int64_t e = entries.begin; e < entries.end; ++e) total += p.count[e] * weights[token_of(p, i, e)];
      drawn[place] = {i, total};
      for (std::int64_t c = 0; c < p.classes; ++c) {
        const T* const v = p.value + c * p.tokens;
        T sum(0);
        for (std::int64_t e = entries.begin; e < entries.end; ++e) {
          const std::int64_t j = token_of(p, i, e);
          sum += p.count[e] * weights[j] * v[j];
        }
        predicted[place * classes + c] = sum / total;
        rest[place * classes + c] = p.target[c * p.queries + i] / p.root_weight[i] - sum / total;
      }
    }
    members.barrier();
  }

  std::int64_t random_query(const slalom_problem<T>& p, std::int64_t index) const {
    const philox_blocks<1> bits = philox<1>(seed, 0, static_cast<std::uint64_t>(index));
    const T share = static_cast<T>(bits.word[0] >> 8) * T(0x1p-24);
    const T at = share * p.weight_up_to[p.queries - 1];
    std::int64_t low = 0, high = p.queries - 1;  // the first query whose sum is above `at`
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (p.weight_up_to[middle] > at) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  /// The gradient of the mean squared error, and a step of Adam. Each work-item has tokens of its own, and adds what
  /// the minibatch has for them in the order of the draws.
  void descend(const group<Items>& members, const slalom_problem<T>& p, std::int64_t fit, T correction1,
               T correction2) const {
    T* const slopes = p.slope;  // (1 + classes, ld): not needed for anything else here
    const T* const weights = p.vector(weights_of_tokens);
    for (std::int64_t part = 0; part <= p.classes; ++part) {
      for (std::int64_t j = members.rank(); j < p.tokens; j += Items) slopes[part * p.ld + j] = 0;
    }
    const T scale = T(-2) / static_cast<T>(batch);
    for (std::int64_t k = 0; k < batch; ++k) {
      const auto [i, total] = drawn[fit * batch + k];
      const T* const guesses = predicted + (fit * batch + k) * classes;
      const T* const errors = rest + (fit * batch + k) * classes;
      const entry_range<T> entries(p, i);
      for (std::int64_t e = entries.begin; e < entries.end; ++e) {
        const std::int64_t j = token_of(p, i, e);
        if (Items > 1 && j % Items != members.rank()) continue;
        const T alpha = scale * p.count[e] * weights[j] / total;
        for (std::int64_t c = 0; c < p.classes; ++c) {
          slopes[j] += alpha * (p.value[c * p.tokens + j] - guesses[c]) * errors[c];
          slopes[(1 + c) * p.ld + j] += alpha * errors[c];
        }
      }
    }
    members.barrier();
    for (std::int64_t part = 0; part <= p.classes; ++part) {
      T* const to = part == 0 ? p.importance : p.value + (part - 1) * p.tokens;
      for (std::int64_t j = members.rank(); j < p.tokens; j += Items) {
        const std::int64_t place = (fit * (1 + classes) + part) * longest + j;
        const T slope = slopes[part * p.ld + j];
        first[place] += (1 - adam.beta1) * (slope - first[place]);
        second[place] += (1 - adam.beta2) * (slope * slope - second[place]);
        to[j] -= adam.learning_rate * (first[place] / correction1) /
                 (sycl::sqrt(second[place] / correction2) + adam.epsilon);
      }
    }
    members.barrier();
  }
};

}  // namespace nullscope::kernels
