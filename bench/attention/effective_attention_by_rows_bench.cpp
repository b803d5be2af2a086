/// Effective attention by rows, with rotations from key to key, against the plain way by LAPACK: a QR of the rows of v
/// that each query sees, and the projection of its row of A.
#include <algorithm>
#include <cmath>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>

#include "bench/core/harness.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_cblas.h>
#include <mkl_lapacke.h>
#endif

namespace nullscope::bench {
namespace {

constexpr std::int64_t width = 64;
constexpr auto shared = sycl::usm::alloc::shared;

struct rows_data {
  rows_data(context& context, std::int64_t heads, std::int64_t length)
      : ctx(context),
        count(heads),
        tokens(length),
        q(ctx, {heads, length, width}, random_numbers<float>(heads * length * width, 1)),
        k(ctx, {heads, length, width}, random_numbers<float>(heads * length * width, 2)),
        v(ctx, {heads, length, width}, random_numbers<float>(heads * length * width, 3), shared),
        p(ctx, {heads, length, width}, shared),
        u(ctx, {heads, length, width}, shared),
        s(ctx, {heads, width}),
        log_sum_exp(ctx, {heads, length}),
        rank(ctx, {heads}),
        status(ctx, {heads}),
        summary(ctx, {heads}) {}

  context& ctx;
  std::int64_t count, tokens;
  tensor<float> q, k, v, p, u, s, log_sum_exp;
  tensor<std::int64_t> rank;
  tensor<std::int32_t> status;
  tensor<effective_attention_summary<float>> summary;
  tensor<float> raw, effective;  // (heads, S, S), made when the plain way needs them
};

void run_rotations(rows_data& d) {
  effective_attention_by_rows(d.ctx, {d.q, d.k, d.v},
                              {.p = d.p,
                               .u = d.u,
                               .s = d.s,
                               .rank = d.rank,
                               .status = d.status,
                               .log_sum_exp = d.log_sum_exp,
                               .summary = d.summary})
      .wait();
}

#ifdef NULLSCOPE_HAS_ONEMKL
/// As long as a query sees at most as many keys as v has columns, its row stays as it is.
void run_prefixes(rows_data& d) {
  if (d.raw.size() == 0) {
    d.raw = tensor<float>(d.ctx, {d.count, d.tokens, d.tokens}, shared);
    d.effective = tensor<float>(d.ctx, {d.count, d.tokens, d.tokens}, shared);
  }
  gemm(d.ctx, {d.q, transposed(d.k.as<3>())}, d.raw, {.alpha = 0.125, .path = gemm_path::vendor}).wait();
  parallel_for(d.count * d.tokens, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> basis(static_cast<std::size_t>(d.tokens * width)), reflectors(width), along(width);
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t head = row / d.tokens, seen = row % d.tokens + 1;
      float* const raw = d.raw.data() + row * d.tokens;
      float* const effective = d.effective.data() + row * d.tokens;
      const float largest = *std::max_element(raw, raw + seen);
      float total = 0;
      for (std::int64_t j = 0; j < seen; ++j) total += raw[j] = std::exp(raw[j] - largest);
      for (std::int64_t j = 0; j < d.tokens; ++j) effective[j] = raw[j] = j < seen ? raw[j] / total : 0;
      if (seen <= width) continue;
      const float* const v = d.v.data() + head * d.tokens * width;
      std::copy(v, v + seen * width, basis.begin());
      LAPACKE_sgeqrf(LAPACK_ROW_MAJOR, seen, width, basis.data(), width, reflectors.data());
      LAPACKE_sorgqr(LAPACK_ROW_MAJOR, seen, width, width, basis.data(), width, reflectors.data());
      cblas_sgemv(CblasRowMajor, CblasTrans, seen, width, 1, basis.data(), width, raw, 1, 0, along.data(), 1);
      cblas_sgemv(CblasRowMajor, CblasNoTrans, seen, width, 1, basis.data(), width, along.data(), 1, 0, effective, 1);
    }
  });
}
#endif

/// Row `query` of the last head as the path left it.
std::vector<double> row_of(rows_data& d, const std::string& path, std::int64_t query) {
  std::vector<double> row(static_cast<std::size_t>(d.tokens), 0.0);
  const std::int64_t at = (d.count - 1) * d.tokens;
  for (std::int64_t j = 0; j <= query; ++j) {
    double& entry = row[static_cast<std::size_t>(j)];
    if (path != "sycl") entry = static_cast<double>(d.effective.data()[(at + query) * d.tokens + j]);
    for (std::int64_t c = 0; path == "sycl" && c < width; ++c) {
      entry += static_cast<double>(d.p.data()[(at + query) * width + c]) *
               static_cast<double>(d.u.data()[(at + j) * width + c]);
    }
  }
  return row;
}

/// What defines a row: it has the output of the raw one, and none smaller has. So row v = a v, and <row, a - row> = 0.
/// Some rows of the last head, in double.
void verify(rows_data& d, report& found) {
  const auto last = [&](const tensor<float>& x) {
    const std::vector<float> all = x.to_host();
    return std::vector<double>(all.end() - d.tokens * width, all.end());
  };
  const std::vector<double> q = last(d.q), k = last(d.k), v = last(d.v);
  double worst_output = 0, worst_angle = 0;
  for (const std::int64_t query : {std::int64_t{0}, width / 2, width + 20, d.tokens / 2, d.tokens - 1}) {
    std::vector<double> a;
    double total = 0;
    for (std::int64_t j = 0; j <= query; ++j) {
      double score = 0;
      for (std::int64_t c = 0; c < width; ++c) {
        score += q[static_cast<std::size_t>(query * width + c)] * k[static_cast<std::size_t>(j * width + c)];
      }
      total += a.emplace_back(std::exp(0.125 * score));
    }
    const std::vector<double> row = row_of(d, found.path(), query);
    double output = 0, error = 0, angle = 0, square = 0;
    for (double& weight : a) weight /= total;
    for (std::int64_t c = 0; c < width; ++c) {
      double expected = 0, got = 0;
      for (std::size_t j = 0; j < a.size(); ++j) {
        expected += a[j] * v[j * width + static_cast<std::size_t>(c)];
        got += row[j] * v[j * width + static_cast<std::size_t>(c)];
      }
      output += expected * expected;
      error += (got - expected) * (got - expected);
    }
    for (std::size_t j = 0; j < a.size(); ++j) {
      angle += row[j] * (a[j] - row[j]);
      square += a[j] * a[j];
    }
    worst_output = std::max(worst_output, std::sqrt(error / output));
    worst_angle = std::max(worst_angle, std::abs(angle) / square);
  }
  found.residual("output", worst_output, 1e-3);
  found.residual("orthogonality", worst_angle, 1e-3);
}

void add_rows(suite& suite, std::int64_t heads, std::int64_t tokens, [[maybe_unused]] bool with_prefixes) {
  const double s = static_cast<double>(tokens), all = static_cast<double>(heads), w = width;
  auto& added = suite.add({.operation = "effective_attention_by_rows",
                           .type = "f32",
                           .sizes = {{"heads", heads}, {"d", width}, {"s", tokens}},
                           .flops = all * (2 * s * s * w + 14 * s * w * w),
                           .bytes = all * 5 * s * w * sizeof(float)},
                          [=](context& ctx) { return rows_data(ctx, heads, tokens); });
  added.path("sycl", run_rotations);
#ifdef NULLSCOPE_HAS_ONEMKL
  if (with_prefixes) added.path("onemkl", run_prefixes);
#endif
  added
      .clear([](rows_data& d) {
        for (tensor<float>* x : {&d.p, &d.u}) {
          d.ctx.queue().fill(x->data(), NAN, static_cast<std::size_t>(x->size())).wait();
        }
      })
      .verify(verify);
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "effective attention by rows", [](suite& suite) {
    add_rows(suite, 12, 256, true);
    for (const std::int64_t tokens : {1024, 4096}) add_rows(suite, 12, tokens, false);
  });
}
