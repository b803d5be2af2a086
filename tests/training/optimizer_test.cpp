/// Adam and the clipping of gradients against their formulas in double, on every layout.
#include <nullscope/core/tensor.hpp>
#include <nullscope/training/training.hpp>

#include <cmath>

#include "tests/core/every_layout.hpp"
#include "tests/core/residuals.hpp"

namespace nullscope {
namespace {

using test::random_numbers;

using host = std::vector<double>;

class optimizer_test : public test::every_layout_test {};

TEST_P(optimizer_test, adam_agrees_with_its_formula) {
  on_every_layout([]<class T>(context& ctx) {
    for (const bool decoupled : {true, false}) {
      const std::int64_t n = 20011;
      const auto start = random_numbers<T>(n, 1);
      host p(start.begin(), start.end()), m(n), v(n);
      tensor<T> p_(ctx, {n}, start), m_(ctx, {n}, std::vector<T>(n)), v_(ctx, {n}, std::vector<T>(n));
      for (std::int64_t step = 1; step <= 3; ++step) {
        const auto g = random_numbers<T>(n, 10 + step);
        const tensor<T> g_(ctx, {n}, g), scale(ctx, {1}, std::vector<T>{T(0.5)});
        const adam_options options{.learning_rate = 0.01, .weight_decay = 0.1, .decoupled = decoupled, .step = step};
        adam(ctx, {g_, scale}, {p_, m_, v_}, options).wait_and_throw();
        for (std::int64_t i = 0; i < n; ++i) {
          const double gradient = 0.5 * g[i] + (decoupled ? 0 : 0.1 * p[i]);
          m[i] = 0.9 * m[i] + 0.1 * gradient;
          v[i] = 0.999 * v[i] + 0.001 * gradient * gradient;
          if (decoupled) p[i] -= 0.01 * 0.1 * p[i];
          p[i] -= 0.01 * (m[i] / (1 - std::pow(0.9, step))) / (std::sqrt(v[i] / (1 - std::pow(0.999, step))) + 1e-8);
        }
      }
      EXPECT_LT(scaled_residual(p_.to_host(), p, 10), 10);
      EXPECT_LT(scaled_residual(m_.to_host(), m, 10), 10);
      EXPECT_LT(scaled_residual(v_.to_host(), v, 100), 10);
    }
  });
}

TEST_P(optimizer_test, clipping_scales_to_the_largest_norm_and_reports_nan) {
  on_every_layout([]<class T>(context& ctx) {
    auto g = random_numbers<T>(40001, 3);
    double squares = 0;
    for (const T value : g) squares += double(value) * value;
    tensor<T> g_(ctx, {40001}, g), norm(ctx, {1}), scale(ctx, {1});
    clip_scale(ctx, g_, {norm, scale}, 1.5).wait_and_throw();
    EXPECT_LT(scaled_residual(norm.to_host(), {std::sqrt(squares)}, 100), 10);
    EXPECT_LT(scaled_residual(scale.to_host(), {1.5 / std::sqrt(squares)}, 100), 10);
    clip_scale(ctx, g_, {norm, scale}, 0).wait_and_throw();
    EXPECT_EQ(scale.to_host()[0], T(1));
    g[20000] = std::numeric_limits<T>::quiet_NaN();
    g_.copy_from(g);
    clip_scale(ctx, g_, {norm, scale}, 1.5).wait_and_throw();
    EXPECT_TRUE(std::isnan(norm.to_host()[0]) && std::isnan(scale.to_host()[0]));
  });
}

INSTANTIATE_TEST_SUITE_P(devices, optimizer_test, testing::ValuesIn(devices()), test::device_name);

}  // namespace
}  // namespace nullscope
