/// The operations that `./run check` runs once each, and compares with plain loops in double on the host or with what
/// must hold of the result.
#pragma once

#include <cstdint>
#include <functional>
#include <nullscope/core/context.hpp>
#include <nullscope/core/tensor.hpp>
#include <string>
#include <vector>

#include "bench/core/harness.hpp"

namespace nullscope::check_device {

/// A scaled residual: rounding errors are of order 1, and anything above `bound` is wrong.
struct outcome {
  double residual;
  double bound = 10;
};

struct checked_operation {
  std::string name, type;
  std::function<outcome(context&)> run;
};

using checked_operations = std::vector<checked_operation>;

checked_operations blas_operations(bool fp64);
checked_operations lapack_operations(bool fp64);  ///< and null spaces
checked_operations attention_operations(bool fp64);
checked_operations model_operations();  ///< layers, a transformer, attribution
checked_operations surrogate_operations();

using bench::random_numbers;
using bench::type_name;
using numbers = std::vector<double>;

template <class T>
numbers to_doubles(const std::vector<T>& x) {
  return numbers(x.begin(), x.end());
}

/// Random numbers on the device, and the same on the host.
template <class T>
struct random_operand {
  std::vector<T> values;
  numbers host;
  tensor<T> device;

  random_operand(context& ctx, std::vector<std::int64_t> shape, std::uint64_t seed)
      : values(random_numbers<T>(count(shape), seed)), host(to_doubles(values)), device(ctx, shape, values) {}

  static std::int64_t count(const std::vector<std::int64_t>& shape) {
    std::int64_t result = 1;
    for (const std::int64_t extent : shape) result *= extent;
    return result;
  }
};

/// c (m, n) = a (m, k) b (k, n), row-major; b (n, k) if it is transposed.
numbers product(const numbers& a, const numbers& b, std::int64_t m, std::int64_t n, std::int64_t k,
                bool transposed_b = false);

}  // namespace nullscope::check_device
