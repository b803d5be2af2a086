/// The maps of probes: outputs against plain loops, gradients against finite differences, in all layouts.
#include <nullscope/core/tensor.hpp>

#include "lib/src/probes/probe_data.hpp"
#include "lib/src/probes/probe_map.hpp"
#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

using detail::probe_activations;
using detail::probe_shape;

class probe_map_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, probe_map_test, testing::ValuesIn(devices()), device_name);

constexpr std::int64_t tokens = 23, width = 19, layers = 2, batch = 9;
const std::vector<std::int64_t> sentences{5, 1, 10, 7};

/// Two probes: both read layer 2, the first a list that fills a batch and more, the second a shorter one.
const std::vector<detail::token_list> lists{{1, 2, 3, 7, 8, 9, 10, 11, 12, 13, 14}, {16, 17, 20, 21}};

template <class T>
struct probe_fixture {
  probe_fixture(context& ctx, const probe_shape& shape, std::int64_t offset)
      : ctx(ctx),
        shape(shape),
        inputs(ctx, {tokens, width}, random_numbers<T>(tokens * width, 1)),
        hidden(ctx, {layers, tokens, width}, random_numbers<T>(layers * tokens * width, 2)),
        data(ctx, inputs, hidden, sentences, true),
        device(ctx, lists, {{0, 2, 0}, {1, 2, 1}}, offset) {}

  struct result {
    std::vector<T> loss, gradient;
  };

  /// The mean loss of each probe, and the gradients.
  result run(const std::vector<T>& numbers, probe_distance distance) {
    const std::int64_t size = shape.size();
    const tensor<T> parameters(ctx, {2, size}, numbers);
    tensor<T> e(ctx, {2, batch, width}), y(ctx, {2, batch, width}), pre(ctx, {2, batch, shape.hidden}),
        post(ctx, {2, batch, shape.hidden}), loss(ctx, {2, batch}), gradient(ctx, {2, size});
    operation op(ctx, "test");
    const probe_activations<T> x{e, y, pre, post};
    data.gather(op, device.from(0), x.e);
    detail::apply_probes<T>(ctx, shape, parameters, x);
    data.loss(op, device.from(0), distance, x.y, loss, true);
    detail::probe_gradients<T>(ctx, shape, parameters, x, gradient);
    op.submit_and_wait();
    result found{{T(0), T(0)}, gradient.to_host()};
    const std::vector<T> rows = loss.to_host();
    for (std::size_t i = 0; i < rows.size(); ++i) found.loss[i / batch] += rows[i] / T(i / batch == 0 ? batch : 4);
    return found;
  }

  context& ctx;
  probe_shape shape;
  tensor<T> inputs, hidden;
  detail::probe_data<T> data;
  detail::device_lists device;
};

/// The mean loss by plain loops, in double.
double plain_loss(const probe_shape& shape, const std::vector<double>& parameters, std::size_t probe,
                  probe_distance distance, std::int64_t offset) {
  const std::vector<double> inputs = random_numbers<double>(tokens * width, 1),
                            hidden = random_numbers<double>(layers * tokens * width, 2);
  const double* p = parameters.data() + static_cast<std::int64_t>(probe) * shape.size();
  const std::int64_t rows = probe == 0 ? batch : 4, h = shape.hidden;
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t token = lists[probe][static_cast<std::size_t>(r)];
    const double* e = hidden.data() + (tokens + token) * width;
    const double* x = (probe == 0 ? inputs.data() : hidden.data()) + (token + offset) * width;
    std::vector<double> y(width, 0.0);
    if (shape.map == probe_map::linear) {
      for (std::int64_t i = 0; i < width * width; ++i) y[static_cast<std::size_t>(i % width)] += e[i / width] * p[i];
    } else {
      for (std::int64_t c = 0; c < width; ++c) y[static_cast<std::size_t>(c)] = p[shape.second_bias() + c];
      for (std::int64_t j = 0; j < h; ++j) {
        double pre = p[shape.first_weights() + j];
        for (std::int64_t c = 0; c < width; ++c) pre += e[c] * p[c * h + j];
        const double post = pre * std::erfc(-pre / std::sqrt(2.0)) / 2;
        for (std::int64_t c = 0; c < width; ++c) {
          y[static_cast<std::size_t>(c)] += post * p[shape.second_weights() + j * width + c];
        }
      }
    }
    double product = 0, of_y = 0, of_x = 0, squares = 0;
    for (std::int64_t c = 0; c < width; ++c) {
      const double a = y[static_cast<std::size_t>(c)], b = x[c];
      product += a * b;
      of_y += a * a;
      of_x += b * b;
      squares += (a - b) * (a - b);
    }
    total += distance == probe_distance::l2 ? squares : 1 - product / std::sqrt(of_y * of_x);
  }
  return total / static_cast<double>(rows);
}

template <class T>
void check_loss(context& ctx, const probe_shape& shape, probe_distance distance, std::int64_t offset) {
  const std::vector<double> numbers = random_numbers<double>(2 * shape.size(), 3);
  probe_fixture<T> probes(ctx, shape, offset);
  const auto found = probes.run(std::vector<T>(numbers.begin(), numbers.end()), distance);
  EXPECT_LT(
      scaled_residual(
          found.loss,
          {plain_loss(shape, numbers, 0, distance, offset), plain_loss(shape, numbers, 1, distance, offset)}, width),
      10);
}

TEST_P(probe_map_test, agrees_with_plain_loops_on_vectors_and_work_items) {
  for (const lane_layout& layout : compiled({ctx_.layout(), lane_layout::work_items(properties(GetParam()), 32)})) {
    SCOPED_TRACE(name_of(layout));
    context ctx(queue_, layout);
    for (const probe_distance distance : {probe_distance::cosine, probe_distance::l2}) {
      check_loss<float>(ctx, {probe_map::linear, width, 13}, distance, 0);
      check_loss<float>(ctx, {probe_map::mlp, width, 13}, distance, -1);
    }
  }
}

/// Central differences in double are good to about eps^(2/3) of the scale of the loss.
TEST_P(probe_map_test, has_the_gradients_of_finite_differences) {
  if (!has_fp64()) GTEST_SKIP() << "in double only";
  const double step = 6e-6;  // eps^(1/3)
  for (const probe_map map : {probe_map::linear, probe_map::mlp}) {
    const probe_shape shape{map, width, 13};
    probe_fixture<double> probes(ctx_, shape, 1);
    for (const probe_distance distance : {probe_distance::cosine, probe_distance::l2}) {
      const std::vector<double> numbers = random_numbers<double>(2 * shape.size(), 4);
      const std::vector<double> gradient = probes.run(numbers, distance).gradient;
      for (std::int64_t i = 0; i < 2 * shape.size(); i += 7) {
        std::vector<double> moved = numbers;
        const std::size_t at = static_cast<std::size_t>(i), probe = static_cast<std::size_t>(i / shape.size());
        moved[at] = numbers[at] + step;
        const double above = plain_loss(shape, moved, probe, distance, 1);
        moved[at] = numbers[at] - step;
        const double below = plain_loss(shape, moved, probe, distance, 1);
        EXPECT_NEAR(gradient[at], (above - below) / (2 * step), 1e-8 * std::max(1.0, above)) << i;
      }
    }
  }
}

TEST_P(probe_map_test, begins_with_glorot_uniform_weights_and_zero_biases) {
  const probe_shape shape{probe_map::mlp, width, 13};
  tensor<float> parameters(ctx_, {shape.size()});
  operation op(ctx_, "test");
  detail::initialise_probe(op, shape, view<float, 1>(parameters), 5, 9);
  op.submit_and_wait();
  const std::vector<float> host = parameters.to_host();
  const float limit = std::sqrt(6.f / (width + 13));
  float largest = 0;
  double sum = 0;
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    const float x = host[static_cast<std::size_t>(i)];
    const bool is_bias = (i >= shape.first_weights() && i < shape.second_weights()) || i >= shape.second_bias();
    if (is_bias) {
      EXPECT_EQ(x, 0);
    }
    largest = std::max(largest, std::abs(x));
    sum += static_cast<double>(x);
  }
  EXPECT_LE(largest, limit);
  EXPECT_GT(largest, 0.95f * limit);
  EXPECT_LT(std::abs(sum), 4 * limit / std::sqrt(3.0) * std::sqrt(static_cast<double>(shape.size())));
}

}  // namespace
}  // namespace nullscope::test
