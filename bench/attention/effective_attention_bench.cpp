/// Effective attention with its correlation, from factors and sums without S x S matrices, against the dense way by
/// oneMKL: QR of v, A by product, softmax and product, A_perp stored, and the correlation of all its entries.
#include <algorithm>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/linalg/svd.hpp>

#include "bench/core/harness.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_lapacke.h>
#endif

namespace nullscope::bench {
namespace {

constexpr std::int64_t width = 64, model_width = 768;
constexpr auto shared = sycl::usm::alloc::shared;

struct effective_data {
  effective_data(context& context, std::int64_t heads, std::int64_t length)
      : ctx(context),
        count(heads),
        tokens(length),
        q(ctx, {heads, length, width}, random_numbers<float>(heads * length * width, 1)),
        k(ctx, {heads, length, width}, random_numbers<float>(heads * length * width, 2)),
        v(ctx, {heads, length, width}, random_numbers<float>(heads * length * width, 3)),
        h(ctx, {heads, width, model_width}, random_numbers<float>(heads * width * model_width, 4)),
        p(ctx, {heads, length, width}),
        u(ctx, {heads, length, width}, shared),
        s(ctx, {heads, width}),
        log_sum_exp(ctx, {heads, length}),
        received(ctx, {2, heads, length}),
        rank(ctx, {heads}),
        status(ctx, {heads}),
        summary(ctx, {heads}, shared) {}

  context& ctx;
  std::int64_t count, tokens;
  tensor<float> q, k, v, h, p, u, s, log_sum_exp, received;
  tensor<std::int64_t> rank;
  tensor<std::int32_t> status;
  tensor<effective_attention_summary<float>> summary;
  tensor<float> raw, effective;  // (heads, S, S), made when the dense way needs them
};

void run_factors(effective_data& d, bool with_received) {
  effective_attention_results<float> results{.p = d.p,
                                             .u = d.u,
                                             .s = d.s,
                                             .rank = d.rank,
                                             .status = d.status,
                                             .log_sum_exp = d.log_sum_exp,
                                             .summary = d.summary};
  if (with_received) {
    results.received_raw = select(d.received.as<3>(), 0, 0);
    results.received_effective = select(d.received.as<3>(), 0, 1);
  }
  effective_attention(d.ctx, {d.q, d.k, d.v, d.h}, results).wait();
}

/// Sums of x, y, x^2, y^2 and x y over all entries, in double.
struct moments {
  double x = 0, y = 0, xx = 0, yy = 0, xy = 0;

  void add(double a, double b) {
    x += a;
    y += b;
    xx += a * a;
    yy += b * b;
    xy += a * b;
  }

  double correlation(double n) const { return (xy - x * y / n) / std::sqrt((xx - x * x / n) * (yy - y * y / n)); }
};

#ifdef NULLSCOPE_HAS_ONEMKL
moments add_up(const float* x, const float* y, std::int64_t count) {
  moments sum;
  for (std::int64_t i = 0; i < count; ++i) sum.add(static_cast<double>(x[i]), static_cast<double>(y[i]));
  return sum;
}

void run_dense(effective_data& d) {
  const gemm_options onemkl{.path = gemm_path::vendor};
  if (d.raw.size() == 0) {
    d.raw = tensor<float>(d.ctx, {d.count, d.tokens, d.tokens}, shared);
    d.effective = tensor<float>(d.ctx, {d.count, d.tokens, d.tokens}, shared);
  }
  // T = v h with an h of full rank has the range of v: its QR is enough.
  d.ctx.queue().copy(d.v.data(), d.u.data(), static_cast<std::size_t>(d.v.size())).wait();
  parallel_for(d.count, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> reflectors(static_cast<std::size_t>(width));
    for (std::int64_t head = begin; head < end; ++head) {
      float* u = d.u.data() + head * d.tokens * width;
      LAPACKE_sgeqrf(LAPACK_ROW_MAJOR, d.tokens, width, u, width, reflectors.data());
      LAPACKE_sorgqr(LAPACK_ROW_MAJOR, d.tokens, width, width, u, width, reflectors.data());
    }
  });
  // The queue is in order.
  gemm(d.ctx, {d.q, transposed(d.k.as<3>())}, d.raw, {.alpha = 0.125, .path = gemm_path::vendor});
  softmax(d.ctx, d.raw, {.y = d.raw});
  gemm(d.ctx, {d.raw, d.u}, d.p, onemkl);
  gemm(d.ctx, {d.p, transposed(d.u.as<3>())}, d.effective, onemkl).wait();
  const std::int64_t size = d.tokens * d.tokens;
  parallel_for(d.count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      const moments sum = add_up(d.raw.data() + head * size, d.effective.data() + head * size, size);
      d.summary.data()[head].pearson = static_cast<float>(sum.correlation(static_cast<double>(size)));
    }
  });
}
#endif

/// The last head of x (heads, rows, columns), in double.
std::vector<double> last_head(const tensor<float>& x) {
  const std::vector<float> all = x.to_host();
  return std::vector<double>(all.end() - x.size() / x.shape()[0], all.end());
}

/// U^T x (64, 64), for u and x (tokens, 64).
std::vector<double> coefficients(const std::vector<double>& u, const std::vector<double>& x) {
  std::vector<double> sum(static_cast<std::size_t>(width * width), 0.0);
  for (std::size_t i = 0; i < u.size(); i += width) {
    for (std::size_t a = 0; a < width; ++a) {
      for (std::size_t b = 0; b < width; ++b) sum[a * width + b] += u[i + a] * x[i + b];
    }
  }
  return sum;
}

/// U is orthonormal, and its range is that of v: an h of full rank leaves T = v h the range of v.
void verify_basis(const std::vector<double>& u, const std::vector<double>& v, report& found) {
  constexpr double unit = width * static_cast<double>(std::numeric_limits<float>::epsilon());
  std::vector<double> gram = coefficients(u, u);
  double gram_error = 0, missed = 0, norm = 0;
  for (std::size_t a = 0; a < width; ++a) gram[a * width + a] -= 1;
  for (const double x : gram) gram_error += x * x;
  const std::vector<double> along = coefficients(u, v);
  for (std::size_t i = 0; i < v.size(); i += width) {
    for (std::size_t b = 0; b < width; ++b) {
      double rest = v[i + b];
      for (std::size_t a = 0; a < width; ++a) rest -= u[i + a] * along[a * width + b];
      missed += rest * rest;
      norm += v[i + b] * v[i + b];
    }
  }
  found.residual("orthogonality", std::sqrt(gram_error) / unit, 10);
  found.residual("missed", std::sqrt(missed / norm) / unit, 10);
}

/// What only the factors have: ranks and status of all heads; of the last one the singular values, whose squares add up
/// to |T|_F^2 = <v^T v, h h^T>.
void verify_ranks(effective_data& d, const std::vector<double>& v, report& found) {
  const std::vector<std::int64_t> ranks = d.rank.to_host();
  const std::vector<std::int32_t> status = d.status.to_host();
  found.residual("wrong ranks", static_cast<double>(d.count - std::count(ranks.begin(), ranks.end(), width)), 0);
  found.residual("failed", static_cast<double>(d.count - std::count(status.begin(), status.end(), svd_converged)), 0);
  const std::vector<double> of_v = coefficients(v, v), h = last_head(d.h);
  double squares = 0, expected = 0;
  for (const double value : last_head(d.s)) squares += value * value;
  for (std::size_t a = 0; a < width; ++a) {
    for (std::size_t b = 0; b < width; ++b) {
      double of_h = 0;
      for (std::size_t j = 0; j < model_width; ++j) of_h += h[a * model_width + j] * h[b * model_width + j];
      expected += of_v[a * width + b] * of_h;
    }
  }
  constexpr double eps = static_cast<double>(std::numeric_limits<float>::epsilon());
  found.residual("values", std::abs(squares / expected - 1) / (width * eps), 10);
}

/// The last head in double, row by row from dense A and A U U^T, U being the path's: P, the correlation, and what the
/// factors give besides. All rows of short sequences, a sample of long ones.
void verify(effective_data& d, report& found, bool with_received) {
  const std::vector<double> q = last_head(d.q), k = last_head(d.k), v = last_head(d.v), u = last_head(d.u);
  const std::vector<double> p = last_head(d.p), log_sum_exp = last_head(d.log_sum_exp);
  verify_basis(u, v, found);
  const auto tokens = static_cast<std::size_t>(d.tokens), step = tokens <= 2048 ? 1 : tokens / 256;
  moments sum;
  std::vector<double> weights(tokens), received(tokens, 0.0), expected_p, expected_sums;
  std::vector<float> got_p, got_sums;
  for (std::size_t i = 0; i < tokens; i += step) {
    double total = 0;
    for (std::size_t j = 0; j < tokens; ++j) {
      double score = 0;
      for (std::size_t c = 0; c < width; ++c) score += q[i * width + c] * k[j * width + c];
      total += weights[j] = std::exp(0.125 * score);
    }
    std::vector<double> along(width, 0.0);  // row i of A U
    for (std::size_t j = 0; j < tokens; ++j) {
      received[j] += weights[j] /= total;
      for (std::size_t c = 0; c < width; ++c) along[c] += weights[j] * u[j * width + c];
    }
    for (std::size_t j = 0; j < tokens; ++j) {
      double part = 0;
      for (std::size_t c = 0; c < width; ++c) part += along[c] * u[j * width + c];
      sum.add(weights[j], part);
    }
    expected_p.insert(expected_p.end(), along.begin(), along.end());
    got_p.insert(got_p.end(), p.begin() + i * width, p.begin() + (i + 1) * width);
    expected_sums.push_back(std::log(total));
    got_sums.push_back(static_cast<float>(log_sum_exp[i]));
  }
  found.residual("p", scaled_residual<float>(got_p, expected_p, std::sqrt(static_cast<double>(tokens))), 10);
  const double entries = static_cast<double>(expected_sums.size() * tokens);
  const double correlation = d.summary.data()[d.count - 1].pearson;
  // The sample of rows has an error of its own, unless it is all rows.
  found.residual("correlation", std::abs(correlation - sum.correlation(entries)), step == 1 ? 1e-4 : 2e-2);
  if (found.path() != "sycl") return;
  verify_ranks(d, v, found);
  found.residual("log_sum_exp", scaled_residual<float>(got_sums, expected_sums, 1), 10);
  if (!with_received) return;
  std::vector<double> along(width, 0.0), effective(tokens, 0.0);  // 1^T A U, and that times U^T
  for (std::size_t j = 0; j < tokens; ++j) {
    for (std::size_t c = 0; c < width; ++c) along[c] += received[j] * u[j * width + c];
  }
  for (std::size_t j = 0; j < tokens; ++j) {
    for (std::size_t c = 0; c < width; ++c) effective[j] += along[c] * u[j * width + c];
  }
  const std::vector<float> got = d.received.to_host();  // (2, heads, S)
  const std::span<const float> raw_and_effective(got);
  const auto last_of = [&](std::size_t end) { return raw_and_effective.subspan(end - tokens, tokens); };
  found.residual("received", scaled_residual<float>(last_of(got.size() / 2), received, 1), 10);
  found.residual("effective", scaled_residual<float>(last_of(got.size()), effective, 1), 10);
}

void add_effective(suite& suite, const char* operation, bool with_received, std::int64_t heads, std::int64_t tokens,
                   [[maybe_unused]] bool with_dense) {
  const double s = static_cast<double>(tokens), all = static_cast<double>(heads), w = width;
  const double scores = with_received ? 2 : 1;  // how often they are computed
  auto& added = suite.add({.operation = operation,
                           .type = "f32",
                           .sizes = {{"heads", heads}, {"d", model_width}, {"s", tokens}},
                           .flops = all * (2 * s * s * w * (scores + 1) + 6 * s * w * w),
                           .bytes = all * 5 * s * w * sizeof(float)},
                          [=](context& ctx) { return effective_data(ctx, heads, tokens); });
  added.path("sycl", [=](effective_data& d) { run_factors(d, with_received); });
#ifdef NULLSCOPE_HAS_ONEMKL
  if (with_dense) added.path("onemkl", run_dense);
#endif
  added
      .clear([](effective_data& d) {
        for (tensor<float>* x : {&d.p, &d.u, &d.s, &d.log_sum_exp, &d.received}) {
          d.ctx.queue().fill(x->data(), NAN, static_cast<std::size_t>(x->size())).wait();
        }
        d.ctx.queue().fill(d.rank.data(), std::int64_t{-7}, static_cast<std::size_t>(d.count)).wait();
        d.ctx.queue().fill(d.status.data(), -7, static_cast<std::size_t>(d.count)).wait();
        for (std::int64_t i = 0; i < d.count; ++i) d.summary.data()[i].pearson = NAN;
      })
      .verify([=](effective_data& d, report& found) { verify(d, found, with_received); });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "effective attention with its correlation", [](suite& suite) {
    for (const std::int64_t tokens : {512, 1024, 2048}) {
      add_effective(suite, "effective_attention", false, 12, tokens, true);
    }
    add_effective(suite, "effective_attention_received", true, 12, 2048, false);
    for (const std::int64_t tokens : {4096, 8192, 16384}) {  // grows as S^2
      add_effective(suite, "effective_attention", false, 1, tokens, false);
    }
  });
}
