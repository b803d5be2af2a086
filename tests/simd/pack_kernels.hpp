/// What the tests of packs run, on the host and in a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

#include "kernels/simd/pack_math.hpp"

namespace nullscope::test {

constexpr int widest = 16;
constexpr int results_per_width = 24 * widest;

/// Every operation of a pack of W lanes on three times `widest` numbers (a, b, c); `widest` results per operation.
template <class T, int W>
void pack_operations(const T* numbers, T* results) {
  using namespace kernels;
  const pack<T, W> a = load<W>(numbers), b = load<W>(numbers + widest), c = load<W>(numbers + 2 * widest);
  int operation = 0;
  const auto next = [&] { return results + widest * operation++; };
  store(next(), a + b);
  store(next(), a - b);
  store(next(), a * b);
  store(next(), a / b);
  store(next(), -a);
  store(next(), fma(a, b, c));
  store(next(), max(a, b));
  store(next(), min(a, b));
  store(next(), max_or_nan(a, b));
  store(next(), abs(a));
  store(next(), where_less(a, b, c, -c));
  store(next(), pack<T, W>(numbers[1]));
  pack<T, W> sums = a;
  sums += b;
  sums -= c;
  sums *= b;
  store(next(), sums);
  store(next(), exp(a));
  store(next(), exp_of_nonpositive(-abs(a)));
  store(next(), convert<T>(convert<float>(a)));
  T* scalars = next();
  scalars[0] = sum(a);
  scalars[1] = largest(a);
  scalars[2] = a[W - 1];
  pack<T, W> changed = a;
  changed.set(W / 2, numbers[widest]);
  scalars[3] = changed[W / 2];
  scalars[4] = any_less(a, a);
  T* lanes_less = next();
  for (int lane = 0; lane < W; ++lane) {
    changed = a;
    changed.set(lane, a[lane] + 1);
    lanes_less[lane] = any_less(a, changed);
  }
  T* halves = next();
  if constexpr (W > 1) {
    store(halves, high(a));
    store(halves + W / 2, low(a));
    store(next(), join(high(a), low(a)));
  }
}

template <class T>
struct pack_probe {
  static constexpr const char* source = __FILE__;

  const T* numbers;
  T* results;

  void operator()(sycl::nd_item<1>, std::byte*) const {
    pack_operations<T, 1>(numbers, results);
    pack_operations<T, 2>(numbers, results + results_per_width);
    pack_operations<T, 4>(numbers, results + 2 * results_per_width);
    pack_operations<T, 8>(numbers, results + 3 * results_per_width);
    pack_operations<T, 16>(numbers, results + 4 * results_per_width);
  }
};

/// Loads `count` of W elements with 9 in the other lanes, stores all lanes to `all` and the first `count` to `some`.
template <class T, int W>
void pack_tail(const T* from, std::int64_t count, T* all, T* some) {
  const auto x = kernels::load_tail<W>(from, count, 9);
  kernels::store(all, x);
  kernels::store_tail(some, x, count);
}

/// Work-item `count` handles the tail of that length, for counts 0 to W; all and some are (widest + 1, widest).
template <class T, int W>
struct tail_probe {
  static constexpr const char* source = __FILE__;

  const T* from;
  T *all, *some;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const auto count = static_cast<std::int64_t>(item.get_global_id(0));
    pack_tail<T, W>(from, count, all + count * widest, some + count * widest);
  }
};

}  // namespace nullscope::test
