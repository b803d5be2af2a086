/// Rank and range basis of T = V H for batches of heads, against LAPACK's economy gesdd of T with one matrix per
/// thread.
///
/// LAPACK would need a minute for 144 heads, so it is timed on fewer, the same number for each thread; the last lines
/// scale that to 144 and say so. They also give the exponent with which the time grows with the number of tokens. All
/// are medians.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/svd.hpp>
#include <nullscope/null_space/null_space.hpp>
#include <set>
#include <thread>

#include "bench/core/harness.hpp"
#include "bench/core/probes.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_lapacke.h>
#include <mkl_service.h>
#endif

namespace nullscope::bench {
namespace {

constexpr std::int64_t value_width = 64, model_width = 768;
constexpr std::int64_t many_heads = 144, some_heads = 12, usual_tokens = 2048;

/// At least 4, and a multiple of the threads, so that all threads have the same number.
std::int64_t lapack_heads() {
  const std::int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  return (4 + threads - 1) / threads * threads;
}

/// The seconds of all calls of each kind: what the last lines are made of.
struct call_times {
  std::map<std::int64_t, std::vector<double>> by_tokens;  // some_heads
  std::vector<double> many, lapack;                       // many_heads, lapack_heads() of usual_tokens
};

template <class Call>
double seconds(Call call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct heads_data {
  heads_data(context& ctx, std::int64_t heads, std::int64_t tokens)
      : ctx(ctx),
        heads(heads),
        tokens(tokens),
        v_host(random_numbers<float>(heads * tokens * value_width, 1)),
        h_host(random_numbers<float>(heads * value_width * model_width, 2)),
        v(ctx, {heads, tokens, value_width}, v_host),
        h(ctx, {heads, value_width, model_width}, h_host),
        u(ctx, {heads, tokens, value_width}, sycl::usm::alloc::shared),
        s(ctx, {heads, value_width}, sycl::usm::alloc::shared),
        rank(ctx, {heads}, sycl::usm::alloc::shared),
        status(ctx, {heads}, sycl::usm::alloc::shared) {}

  context& ctx;
  std::int64_t heads, tokens;
  std::vector<float> v_host, h_host, t;  // t (heads, S, d), made when LAPACK needs it
  tensor<float> v, h, u, s;
  tensor<std::int64_t> rank;
  tensor<std::int32_t> status;
};

void run_sycl(heads_data& d) {
  range_basis(d.ctx, {d.v, d.h}, {.u = d.u, .s = d.s, .rank = d.rank, .status = d.status}).wait();
}

/// T of one head, row-major.
void form_t(const heads_data& d, std::int64_t head, float* t) {
  for (std::int64_t i = 0; i < d.tokens; ++i) {
    float* row = t + i * model_width;
    std::fill_n(row, model_width, 0.0f);
    for (std::int64_t l = 0; l < value_width; ++l) {
      const float factor = d.v_host[static_cast<std::size_t>((head * d.tokens + i) * value_width + l)];
      const float* from = d.h_host.data() + (head * value_width + l) * model_width;
      for (std::int64_t j = 0; j < model_width; ++j) row[j] += factor * from[j];
    }
  }
}

#ifdef NULLSCOPE_HAS_ONEMKL
/// gesdd of T^T in LAPACK's column-major order, which is T in ours: its right singular vectors are T's left ones.
double run_lapack(heads_data& d) {
  const std::int64_t size = d.tokens * model_width, k = std::min(d.tokens, model_width);
  if (d.t.empty()) {
    d.t.resize(static_cast<std::size_t>(d.heads * size));
    for (std::int64_t head = 0; head < d.heads; ++head) form_t(d, head, d.t.data() + head * size);
  }
  return seconds([&] {
    parallel_for(d.heads, [&](std::int64_t begin, std::int64_t end) {
      const int threads = mkl_set_num_threads_local(1);
      std::vector<float> a(static_cast<std::size_t>(size)), s(static_cast<std::size_t>(k));
      std::vector<float> left(static_cast<std::size_t>(model_width * k)), right(static_cast<std::size_t>(k * d.tokens));
      for (std::int64_t head = begin; head < end; ++head) {
        std::copy_n(d.t.data() + head * size, size, a.data());
        const lapack_int info = LAPACKE_sgesdd(LAPACK_COL_MAJOR, 'S', model_width, d.tokens, a.data(), model_width,
                                               s.data(), left.data(), model_width, right.data(), k);
        d.status.data()[head] = info == 0 ? svd_converged : svd_not_converged;
        const float tolerance = static_cast<float>(std::max(d.tokens, model_width)) * 0x1p-23f * s[0];
        d.rank.data()[head] = std::count_if(s.begin(), s.end(), [&](float x) { return x > tolerance; });
        std::copy_n(s.begin(), value_width, d.s.data() + head * value_width);
        for (std::int64_t i = 0; i < d.tokens; ++i) {
          std::copy_n(right.data() + i * k, value_width, d.u.data() + (head * d.tokens + i) * value_width);
        }
      }
      mkl_set_num_threads_local(threads);
    });
  });
}
#endif

/// Of the last head: orthogonality of U, and what of T the basis misses. Of all heads the rank, which is d_v, and the
/// status.
void verify(heads_data& d, report& found) {
  const std::int64_t head = d.heads - 1, k = value_width;
  const float* u = d.u.data() + head * d.tokens * k;
  std::vector<float> t(static_cast<std::size_t>(d.tokens * model_width));
  form_t(d, head, t.data());
  double gram_error = 0, missed = 0, norm = 0;
  for (std::int64_t a = 0; a < k; a += 7) {
    for (std::int64_t b = 0; b < k; ++b) {
      double sum = a == b ? -1 : 0;
      for (std::int64_t i = 0; i < d.tokens; ++i)
        sum += static_cast<double>(u[i * k + a]) * static_cast<double>(u[i * k + b]);
      gram_error += sum * sum;
    }
  }
  for (std::int64_t j = 0; j < model_width; j += 97) {
    std::vector<double> coefficients(static_cast<std::size_t>(k), 0.0);
    for (std::int64_t i = 0; i < d.tokens; ++i) {
      const double x = static_cast<double>(t[static_cast<std::size_t>(i * model_width + j)]);
      for (std::int64_t l = 0; l < k; ++l)
        coefficients[static_cast<std::size_t>(l)] += static_cast<double>(u[i * k + l]) * x;
    }
    for (std::int64_t i = 0; i < d.tokens; ++i) {
      double x = static_cast<double>(t[static_cast<std::size_t>(i * model_width + j)]);
      norm += x * x;
      for (std::int64_t l = 0; l < k; ++l)
        x -= coefficients[static_cast<std::size_t>(l)] * static_cast<double>(u[i * k + l]);
      missed += x * x;
    }
  }
  constexpr double eps = 0x1p-23;
  found.residual("orthogonality", std::sqrt(gram_error) / (static_cast<double>(k) * eps), 10);
  found.residual("missed", std::sqrt(missed / norm) / (static_cast<double>(k) * eps), 10);
  found.residual("wrong ranks",
                 static_cast<double>(std::count_if(d.rank.data(), d.rank.data() + d.heads,
                                                   [](std::int64_t r) { return r != value_width; })),
                 0);
  const std::int64_t converged = std::count(d.status.data(), d.status.data() + d.heads, svd_converged);
  found.residual("failed", static_cast<double>(d.heads - converged), 0);
}

void add(suite& suite, const std::shared_ptr<call_times>& times, std::int64_t heads, std::int64_t tokens) {
  const double s = static_cast<double>(tokens), dv = value_width, d = model_width, n = static_cast<double>(heads);
  [[maybe_unused]] auto& comparison =
      suite
          .add({.operation = "range_basis",
                .type = "f32",
                .sizes = {{"heads", heads}, {"s", tokens}, {"dv", value_width}, {"d", model_width}},
                .flops = n * (6 * s * dv * dv + 4 * d * dv * dv + 20 * dv * dv * dv),
                .bytes = n * 4 * (2 * s * dv + dv * d)},
               [=](context& ctx) { return heads_data(ctx, heads, tokens); })
          .path("sycl",
                [=](heads_data& d) {
                  const double time = seconds([&] { run_sycl(d); });
                  if (heads == many_heads) times->many.push_back(time);
                  if (heads == some_heads) times->by_tokens[tokens].push_back(time);
                })
          .clear([](heads_data& d) {
            std::fill_n(d.u.data(), d.u.size(), NAN);
            std::fill_n(d.rank.data(), d.rank.size(), -7);
            std::fill_n(d.status.data(), d.status.size(), -7);
          })
          .verify(verify);
#ifdef NULLSCOPE_HAS_ONEMKL
  if (heads == lapack_heads() && tokens == usual_tokens) {
    comparison.path("onemkl", [=](heads_data& d) { times->lapack.push_back(run_lapack(d)); });
  }
#endif
}

/// The slope of log(time) over log(tokens), by least squares.
double exponent(const std::map<std::int64_t, std::vector<double>>& times) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [tokens, all] : times) {
    const double a = std::log(static_cast<double>(tokens)), b = std::log(median(all));
    n += 1, x += a, y += b, xx += a * a, xy += a * b;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  const auto times = std::make_shared<call_times>();
  const int result = run(argc, argv, "Rank and range basis of T = V H", [&](suite& suite) {
    // Each shape once, whatever the number of threads.
    std::set<std::pair<std::int64_t, std::int64_t>> shapes{{many_heads, usual_tokens}, {lapack_heads(), usual_tokens}};
    for (std::int64_t tokens = 512; tokens <= 32768; tokens *= 2) shapes.emplace(some_heads, tokens);
    for (const auto& [heads, tokens] : shapes) add(suite, times, heads, tokens);
  });
  if (!times->many.empty() && !times->lapack.empty()) {
    const double ours = median(times->many);
    const double theirs = median(times->lapack) * static_cast<double>(many_heads) / static_cast<double>(lapack_heads());
    std::fprintf(stderr,
                 "%lld heads: %.1f ms; gesdd of T, measured on %lld heads and scaled to %lld: %.0f ms; ratio %.0f\n",
                 static_cast<long long>(many_heads), 1e3 * ours, static_cast<long long>(lapack_heads()),
                 static_cast<long long>(many_heads), 1e3 * theirs, theirs / ours);
  }
  if (times->by_tokens.size() > 2) {
    std::fprintf(stderr, "%lld heads, S = %lld to %lld: time grows as S^%.2f\n", static_cast<long long>(some_heads),
                 static_cast<long long>(times->by_tokens.begin()->first),
                 static_cast<long long>(times->by_tokens.rbegin()->first), exponent(times->by_tokens));
  }
  return result;
}
