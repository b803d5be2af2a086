/// Effective attention with its correlation: factors and sums, without the S x S matrices, beside the dense way by
/// oneMKL: QR of v, A by product, softmax and product, A_perp stored, and the correlation of all its entries.
#include <nullscope/effective_attention.hpp>
#include <nullscope/gemm.hpp>
#include <nullscope/rows.hpp>
#include <nullscope/tensor.hpp>

#include "harness.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_lapacke.h>
#endif

namespace nullscope::bench {
namespace {

constexpr std::int64_t width = 64, model_width = 768;
constexpr auto shared = sycl::usm::alloc::shared;

struct effective_data {
  effective_data(sycl::queue& q, std::int64_t heads, std::int64_t length)
      : queue(q),
        count(heads),
        tokens(length),
        q(queue, {heads, length, width}, random_numbers<float>(heads * length * width, 1)),
        k(queue, {heads, length, width}, random_numbers<float>(heads * length * width, 2)),
        v(queue, {heads, length, width}, random_numbers<float>(heads * length * width, 3)),
        h(queue, {heads, width, model_width}, random_numbers<float>(heads * width * model_width, 4)),
        p(queue, {heads, length, width}),
        u(queue, {heads, length, width}, shared),
        s(queue, {heads, width}),
        log_sum_exp(queue, {heads, length}),
        received(queue, {2, heads, length}),
        rank(queue, {heads}),
        status(queue, {heads}),
        summary(queue, {heads}, shared),
        scratchpad(queue, {effective_attention_scratchpad_size<float>(queue, operands())}) {}

  attention_heads<float> operands() const { return {q.as<3>(), k.as<3>(), v.as<3>(), h.as<3>()}; }

  sycl::queue& queue;
  std::int64_t count, tokens;
  tensor<float> q, k, v, h, p, u, s, log_sum_exp, received;
  tensor<std::int64_t> rank;
  tensor<std::int32_t> status;
  tensor<effective_attention_summary<float>> summary;
  tensor<std::byte> scratchpad;
  tensor<float> raw, effective;  // (heads, S, S), made when the dense way needs them
};

void run_factors(effective_data& d, bool with_received) {
  effective_attention_results<float> results{d.p.as<3>(),      d.u.as<3>(),           d.s.as<2>(),      d.rank.as<1>(),
                                             d.status.as<1>(), d.log_sum_exp.as<2>(), d.summary.as<1>()};
  if (with_received) {
    results.received_raw = contiguous(d.received.data(), d.count, d.tokens);
    results.received_effective = contiguous(d.received.data() + d.count * d.tokens, d.count, d.tokens);
  }
  effective_attention<float>(d.queue, d.operands(), results, d.scratchpad.span()).wait();
}

/// Sums of x, y, x^2, y^2 and x y over all entries, in double.
struct moments {
  double x = 0, y = 0, xx = 0, yy = 0, xy = 0;

  double correlation(double n) const { return (xy - x * y / n) / std::sqrt((xx - x * x / n) * (yy - y * y / n)); }
};

moments add_up(const float* x, const float* y, std::int64_t count) {
  moments sum;
  for (std::int64_t i = 0; i < count; ++i) {
    const double a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
    sum.x += a;
    sum.y += b;
    sum.xx += a * a;
    sum.yy += b * b;
    sum.xy += a * b;
  }
  return sum;
}

#ifdef NULLSCOPE_HAS_ONEMKL
void run_dense(effective_data& d) {
  const gemm_options onemkl{gemm_path::onemkl};
  if (d.raw.size() == 0) {
    d.raw = tensor<float>(d.queue, {d.count, d.tokens, d.tokens}, shared);
    d.effective = tensor<float>(d.queue, {d.count, d.tokens, d.tokens}, shared);
  }
  // T = v h with an h of full rank has the range of v: its QR is enough.
  d.queue.copy(d.v.data(), d.u.data(), static_cast<std::size_t>(d.v.size())).wait();
  parallel_for(d.count, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> reflectors(static_cast<std::size_t>(width));
    for (std::int64_t head = begin; head < end; ++head) {
      float* u = d.u.data() + head * d.tokens * width;
      LAPACKE_sgeqrf(LAPACK_ROW_MAJOR, d.tokens, width, u, width, reflectors.data());
      LAPACKE_sorgqr(LAPACK_ROW_MAJOR, d.tokens, width, width, u, width, reflectors.data());
    }
  });
  const tensor<float>&q = d.q, &k = d.k, &u = d.u, &p = d.p, &raw = d.raw;
  sycl::event event = gemm(d.queue, 0.125f, q.as<3>(), transposed(k.as<3>()), 0.f, d.raw.as<3>(), onemkl);
  event = softmax<float, 3>(d.queue, raw.as<3>(), d.raw.as<3>(), {}, {event});
  event = gemm(d.queue, 1.f, raw.as<3>(), u.as<3>(), 0.f, d.p.as<3>(), onemkl, {event});
  gemm(d.queue, 1.f, p.as<3>(), transposed(u.as<3>()), 0.f, d.effective.as<3>(), onemkl, {event}).wait();
  const std::int64_t size = d.tokens * d.tokens;
  parallel_for(d.count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      const moments sum = add_up(d.raw.data() + head * size, d.effective.data() + head * size, size);
      d.summary.data()[head].pearson = static_cast<float>(sum.correlation(static_cast<double>(size)));
    }
  });
}
#endif

/// The correlation of the last head from its dense matrices, row by row in double.
void verify(effective_data& d, report& found) {
  const std::vector<float> q = d.q.to_host(), k = d.k.to_host();
  const std::vector<float> u = d.u.to_host();
  const std::int64_t first = (d.count - 1) * d.tokens * width;
  moments sum;
  std::vector<double> row(static_cast<std::size_t>(d.tokens)), along(width);
  const std::int64_t step = std::max<std::int64_t>(1, d.tokens / 256);  // a sample of the rows
  std::int64_t entries = 0;
  for (std::int64_t i = 0; i < d.tokens; i += step) {
    double total = 0;
    for (std::int64_t j = 0; j < d.tokens; ++j) {
      double score = 0;
      for (std::int64_t c = 0; c < width; ++c) {
        score += 0.125 * static_cast<double>(q[static_cast<std::size_t>(first + i * width + c)]) *
                 static_cast<double>(k[static_cast<std::size_t>(first + j * width + c)]);
      }
      total += row[static_cast<std::size_t>(j)] = std::exp(score);
    }
    std::fill(along.begin(), along.end(), 0.0);
    for (std::int64_t j = 0; j < d.tokens; ++j) {
      for (std::int64_t c = 0; c < width; ++c) {
        along[static_cast<std::size_t>(c)] += row[static_cast<std::size_t>(j)] / total *
                                              static_cast<double>(u[static_cast<std::size_t>(first + j * width + c)]);
      }
    }
    for (std::int64_t j = 0; j < d.tokens; ++j) {
      double part = 0;
      for (std::int64_t c = 0; c < width; ++c) {
        part += along[static_cast<std::size_t>(c)] *
                static_cast<double>(u[static_cast<std::size_t>(first + j * width + c)]);
      }
      const double weight = row[static_cast<std::size_t>(j)] / total;
      sum.x += weight;
      sum.y += part;
      sum.xx += weight * weight;
      sum.yy += part * part;
      sum.xy += weight * part;
    }
    entries += d.tokens;
  }
  const double expected = sum.correlation(static_cast<double>(entries));
  // The sample of rows has an error of its own, unless it is all rows.
  found.residual("correlation", std::abs(d.summary.data()[d.count - 1].pearson - expected), step == 1 ? 1e-4 : 2e-2);
}

void add_effective(suite& suite, const char* operation, bool with_received, std::int64_t heads, std::int64_t tokens,
                   bool beside_dense) {
  const double s = static_cast<double>(tokens), all = static_cast<double>(heads), w = width;
  const double scores = with_received ? 2 : 1;  // how often they are computed
  auto& added = suite.add({.operation = operation,
                           .type = "f32",
                           .sizes = {{"heads", heads}, {"d", model_width}, {"s", tokens}},
                           .flops = all * (2 * s * s * w * (scores + 1) + 6 * s * w * w),
                           .bytes = all * 5 * s * w * sizeof(float)},
                          [=](sycl::queue& queue) { return effective_data(queue, heads, tokens); });
  added.path("sycl", [=](effective_data& d) { run_factors(d, with_received); });
#ifdef NULLSCOPE_HAS_ONEMKL
  if (beside_dense) added.path("onemkl", run_dense);
#endif
  added
      .clear([](effective_data& d) {
        d.queue.fill(d.p.data(), NAN, static_cast<std::size_t>(d.p.size())).wait();
        d.queue.fill(d.u.data(), NAN, static_cast<std::size_t>(d.u.size())).wait();
        for (std::int64_t i = 0; i < d.count; ++i) d.summary.data()[i].pearson = NAN;
      })
      .verify(verify);
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
