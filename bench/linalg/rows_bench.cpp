/// The row-wise building blocks: softmax, layer norm, reductions, elementwise functions, transposes. All are bound by
/// memory bandwidth: the share of the roofline is the share of what a copy of the same matrix reaches.
#include <algorithm>
#include <cmath>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/rows.hpp>
#include <numbers>

#include "bench/core/harness.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_trans.h>
#include <mkl_vml_functions.h>
#endif

namespace nullscope::bench {
namespace {

/// x (rows, columns) -> out (rows, results): results is the number of columns, or 1 for a reduction.
template <class T>
struct rows_data {
  rows_data(context& ctx, std::int64_t rows, std::int64_t columns, std::int64_t results)
      : ctx(ctx),
        rows(rows),
        columns(columns),
        results(results),
        host_x(random_numbers<T>(rows * columns, 1)),
        host_weights(random_numbers<T>(columns, 2)),
        host_out(static_cast<std::size_t>(rows * results)),
        x(ctx, {rows, columns}, host_x),
        weights(ctx, {columns}, host_weights),
        out(ctx, {rows, results}) {}

  /// The weights in every row: (rows, columns) with stride 0.
  view<const T, 2> repeated_weights() const { return {weights.data(), {rows, columns}, {0, 1}}; }

  context& ctx;
  std::int64_t rows, columns, results;
  std::vector<T> host_x, host_weights, host_out;
  tensor<T> x, weights, out;
};

/// An operation as a plain loop over one row: (x, weights, out, columns). In T it is the path "loop", in double the
/// reference.
template <class T>
using row_loop = void (*)(const T* x, const T* weights, T* out, std::int64_t columns);

template <class T>
void softmax_row(const T* x, const T*, T* out, std::int64_t columns) {
  const T largest = *std::max_element(x, x + columns);
  T sum = 0;
  for (std::int64_t j = 0; j < columns; ++j) sum += out[j] = std::exp(x[j] - largest);
  for (std::int64_t j = 0; j < columns; ++j) out[j] /= sum;
}

template <class T>
void layer_norm_row(const T* x, const T* weights, T* out, std::int64_t columns) {
  T sum = 0, squares = 0;
  for (std::int64_t j = 0; j < columns; ++j) sum += x[j];
  const T mean = sum / static_cast<T>(columns);
  for (std::int64_t j = 0; j < columns; ++j) squares += (x[j] - mean) * (x[j] - mean);
  const T scale = 1 / std::sqrt(squares / static_cast<T>(columns) + static_cast<T>(1e-5));
  for (std::int64_t j = 0; j < columns; ++j) out[j] = (x[j] - mean) * scale * weights[j] + weights[j];
}

template <class T>
void sum_of_squares_row(const T* x, const T*, T* out, std::int64_t columns) {
  T sum = 0;
  for (std::int64_t j = 0; j < columns; ++j) sum += x[j] * x[j];
  *out = sum;
}

template <class T>
void maximum_row(const T* x, const T*, T* out, std::int64_t columns) {
  *out = *std::max_element(x, x + columns);
}

template <class T>
void add_bias_row(const T* x, const T* weights, T* out, std::int64_t columns) {
  for (std::int64_t j = 0; j < columns; ++j) out[j] = 2 * x[j] + weights[j];
}

template <class T>
void gelu_row(const T* x, const T*, T* out, std::int64_t columns) {
  constexpr T scale = std::numbers::sqrt2_v<T> / 2;
  for (std::int64_t j = 0; j < columns; ++j) out[j] = x[j] / 2 * (1 + std::erf(x[j] * scale));
}

template <class T>
void exp_row(const T* x, const T*, T* out, std::int64_t columns) {
  for (std::int64_t j = 0; j < columns; ++j) out[j] = std::exp(x[j]);
}

/// Compares some rows, including the first and the last, with the loop in double.
template <class T>
void verify(rows_data<T>& d, report& report, row_loop<double> reference) {
  const std::vector<T> got = report.path() == "sycl" ? d.out.to_host() : d.host_out;
  const std::vector<double> weights(d.host_weights.begin(), d.host_weights.end());
  std::vector<double> x(static_cast<std::size_t>(d.columns)), out(static_cast<std::size_t>(d.results)), expected;
  std::vector<T> sample;
  const std::int64_t count = std::min(d.rows, std::max<std::int64_t>(2, (1 << 20) / d.columns));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = i * (d.rows - 1) / std::max<std::int64_t>(1, count - 1);
    std::copy_n(d.host_x.begin() + row * d.columns, d.columns, x.begin());
    reference(x.data(), weights.data(), out.data(), d.columns);
    expected.insert(expected.end(), out.begin(), out.end());
    sample.insert(sample.end(), got.begin() + row * d.results, got.begin() + (row + 1) * d.results);
  }
  report.residual("residual", scaled_residual<T>(sample, expected, std::sqrt(static_cast<double>(d.columns))), 10);
}

/// Adds one operation on (rows, columns); `flops` are per element; a function such as exp counts as one. The roofline
/// is that of a copy of x, for a reduction too: a copy of half of x would find more of it in the caches.
template <class T, class Sycl>
auto& add_rows(suite& suite, const std::string& operation, std::int64_t rows, std::int64_t columns,
               std::int64_t results, double flops, Sycl sycl, row_loop<T> loop, row_loop<double> reference) {
  return suite
      .add({.operation = operation,
            .type = type_name<T>(),
            .sizes = {{"rows", rows}, {"columns", columns}},
            .flops = flops * static_cast<double>(rows * columns),
            .bytes = sizeof(T) * static_cast<double>(rows * (columns + results)),
            .footprint = 2.0 * sizeof(T) * static_cast<double>(rows * columns)},
           [=](context& ctx) { return rows_data<T>(ctx, rows, columns, results); })
      .path("sycl", [=](rows_data<T>& d) { sycl(d).wait(); })
      .path("loop",
            [=](rows_data<T>& d) {
              parallel_for(d.rows, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t row = begin; row < end; ++row) {
                  loop(d.host_x.data() + row * d.columns, d.host_weights.data(), d.host_out.data() + row * d.results,
                       d.columns);
                }
              });
            })
      .clear([](rows_data<T>& d) {
        d.ctx.queue()
            .fill(d.out.data(), std::numeric_limits<T>::quiet_NaN(), static_cast<std::size_t>(d.out.size()))
            .wait();
        std::fill(d.host_out.begin(), d.host_out.end(), std::numeric_limits<T>::quiet_NaN());
      })
      .verify([=](rows_data<T>& d, report& report) { verify(d, report, reference); });
}

template <class T>
void add_all_rows(suite& suite, std::int64_t rows, std::int64_t columns) {
  using data = rows_data<T>;
  const auto vector_of = [](tensor<T>& matrix) { return contiguous(matrix.data(), matrix.shape()[0]); };
  add_rows<T>(
      suite, "softmax", rows, columns, columns, 5, [](data& d) { return softmax(d.ctx, d.x, {d.out}); }, softmax_row<T>,
      softmax_row<double>);
  add_rows<T>(
      suite, "layer_norm", rows, columns, columns, 8,
      [](data& d) {
        return layer_norm(d.ctx, {d.x, d.weights, d.weights}, {d.out});
      },
      layer_norm_row<T>, layer_norm_row<double>);
  add_rows<T>(
      suite, "sum_of_squares", rows, columns, 1, 2,
      [=](data& d) { return row_reduce(d.ctx, d.x, vector_of(d.out), row_reduction::sum_of_squares); },
      sum_of_squares_row<T>, sum_of_squares_row<double>);
  add_rows<T>(
      suite, "maximum", rows, columns, 1, 1,
      [=](data& d) { return row_reduce(d.ctx, d.x, vector_of(d.out), row_reduction::maximum); }, maximum_row<T>,
      maximum_row<double>);
  add_rows<T>(
      suite, "add_bias", rows, columns, columns, 2,
      [](data& d) {
        return axpby(d.ctx, {d.x, d.repeated_weights()}, d.out, {.alpha = 2});
      },
      add_bias_row<T>, add_bias_row<double>);
  add_rows<T>(
      suite, "gelu", rows, columns, columns, 4, [](data& d) { return apply(d.ctx, d.x, d.out, unary_function::gelu); },
      gelu_row<T>, gelu_row<double>);
  add_rows<T>(
      suite, "exp", rows, columns, columns, 1, [](data& d) { return apply(d.ctx, d.x, d.out, unary_function::exp); },
      exp_row<T>, exp_row<double>)
#ifdef NULLSCOPE_HAS_ONEMKL
      .path("onemkl",
            [](data& d) {
              if constexpr (std::is_same_v<T, float>) {
                vsExp(d.rows * d.columns, d.host_x.data(), d.host_out.data());
              } else {
                vdExp(d.rows * d.columns, d.host_x.data(), d.host_out.data());
              }
            })
#endif
      ;
}

/// out (columns, rows) = x (rows, columns) transposed.
template <class T>
void add_transpose(suite& suite, std::int64_t rows, std::int64_t columns) {
  using data = rows_data<T>;
  suite
      .add({.operation = "transpose",
            .type = type_name<T>(),
            .sizes = {{"rows", rows}, {"columns", columns}},
            .bytes = 2.0 * sizeof(T) * static_cast<double>(rows * columns)},
           [=](context& ctx) { return data(ctx, rows, columns, columns); })
      .path("sycl", [](data& d) { transpose(d.ctx, d.x, contiguous(d.out.data(), d.columns, d.rows)).wait(); })
#ifdef NULLSCOPE_HAS_ONEMKL
      .path("onemkl",
            [](data& d) {
              if constexpr (std::is_same_v<T, float>) {
                mkl_somatcopy('R', 'T', d.rows, d.columns, 1, d.host_x.data(), d.columns, d.host_out.data(), d.rows);
              } else {
                mkl_domatcopy('R', 'T', d.rows, d.columns, 1, d.host_x.data(), d.columns, d.host_out.data(), d.rows);
              }
            })
#endif
      .path("loop",
            [](data& d) {
              parallel_for(d.columns, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t j = begin; j < end; ++j) {
                  for (std::int64_t i = 0; i < d.rows; ++i) d.host_out[j * d.rows + i] = d.host_x[i * d.columns + j];
                }
              });
            })
      .clear([](data& d) {
        d.ctx.queue().fill(d.out.data(), T{2}, static_cast<std::size_t>(d.out.size())).wait();
        std::fill(d.host_out.begin(), d.host_out.end(), T{2});
      })
      .verify([](data& d, report& report) {
        const std::vector<T> got = report.path() == "sycl" ? d.out.to_host() : d.host_out;
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < d.rows; ++i) {
          for (std::int64_t j = 0; j < d.columns; ++j) wrong += got[j * d.rows + i] != d.host_x[i * d.columns + j];
        }
        report.residual("wrong", static_cast<double>(wrong), 0);
      });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "softmax, layer norm, reductions, elementwise functions, transposes", [](suite& suite) {
    add_all_rows<float>(suite, 6144, 512);    // 12 heads of 512 tokens; in the caches
    add_all_rows<float>(suite, 65536, 1024);  // in main memory
    add_all_rows<double>(suite, 6144, 512);
    add_transpose<float>(suite, 2048, 1536);
    add_transpose<float>(suite, 8192, 8192);
    add_transpose<double>(suite, 2048, 1536);
  });
}
