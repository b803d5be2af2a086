/// c = a b: the kernels of this library, oneMKL, and for small matrices a plain loop. Square matrices, and
/// the first layer of a transformer's feed-forward block (m tokens, 384 -> 1536).
#include <algorithm>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/gemm.hpp>

#include "bench/core/harness.hpp"

namespace nullscope::bench {
namespace {

/// In is the type of a and b, T the type of c and of the sums.
template <class In, class T>
struct gemm_data {
  gemm_data(context& ctx, std::int64_t m, std::int64_t k, std::int64_t n)
      : ctx(ctx),
        numbers_a(random_numbers<In>(m * k, 1)),
        numbers_b(random_numbers<In>(k * n, 2)),
        a(ctx, {1, m, k}, numbers_a),
        b(ctx, {1, k, n}, numbers_b),
        c(ctx, {1, m, n}),
        host_c(static_cast<std::size_t>(m * n)) {}

  std::int64_t rows() const { return a.shape()[1]; }
  std::int64_t depth() const { return a.shape()[2]; }
  std::int64_t columns() const { return b.shape()[2]; }

  context& ctx;
  std::vector<In> numbers_a, numbers_b;
  tensor<In> a, b;
  tensor<T> c;
  std::vector<T> host_c;  // of the plain loop
};

template <class In, class T>
void run_path(gemm_data<In, T>& d, gemm_path path) {
  gemm(d.ctx, {d.a, d.b}, d.c, {.path = path}).wait_and_throw();
}

/// A loop that ignores caches, but whose order lets a compiler vectorise it.
template <class In, class T>
void run_loop(gemm_data<In, T>& d) {
  const std::int64_t k = d.depth(), n = d.columns();
  parallel_for(d.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* c = d.host_c.data() + i * n;
      std::fill_n(c, n, T(0));
      for (std::int64_t l = 0; l < k; ++l) {
        const T a = static_cast<T>(d.numbers_a[static_cast<std::size_t>(i * k + l)]);
        const In* b = d.numbers_b.data() + l * n;
        for (std::int64_t j = 0; j < n; ++j) c[j] += a * static_cast<T>(b[j]);
      }
    }
  });
}

/// Sixteen rows, the first and the last among them, against sums in double.
template <class In, class T>
void verify(gemm_data<In, T>& d, report& found) {
  const std::int64_t m = d.rows(), k = d.depth(), n = d.columns(), sampled = std::min<std::int64_t>(m, 16);
  const std::vector<T> all = found.path() == "loop" ? d.host_c : d.c.to_host();
  std::vector<T> got;
  std::vector<double> expected;
  for (std::int64_t s = 0; s < sampled; ++s) {
    const std::int64_t i = s * (m - 1) / std::max<std::int64_t>(sampled - 1, 1);
    got.insert(got.end(), all.begin() + i * n, all.begin() + (i + 1) * n);
    std::vector<double> row(static_cast<std::size_t>(n));
    for (std::int64_t l = 0; l < k; ++l) {
      const double a = static_cast<double>(d.numbers_a[static_cast<std::size_t>(i * k + l)]);
      const In* b = d.numbers_b.data() + l * n;
      for (std::int64_t j = 0; j < n; ++j) row[static_cast<std::size_t>(j)] += a * static_cast<double>(b[j]);
    }
    expected.insert(expected.end(), row.begin(), row.end());
  }
  found.residual("residual", scaled_residual<T>(got, expected, std::sqrt(static_cast<double>(k))), 10);
}

struct shape {
  std::int64_t m, k, n;
};

template <class In, class T>
void add(suite& suite, const std::string& type, const shape& s) {
  const auto elements = [](std::int64_t rows, std::int64_t columns) {
    return static_cast<double>(rows) * static_cast<double>(columns);
  };
  const bool is_square = s.m == s.k && s.k == s.n;
  auto& added = suite.add(
      {.operation = "gemm",
       .type = type,
       .sizes = is_square ? std::vector<std::pair<std::string, std::int64_t>>{{"n", s.n}}
                          : std::vector<std::pair<std::string, std::int64_t>>{{"m", s.m}, {"k", s.k}, {"n", s.n}},
       .flops = 2 * elements(s.m, s.k) * static_cast<double>(s.n),
       .bytes = sizeof(In) * (elements(s.m, s.k) + elements(s.k, s.n)) + sizeof(T) * elements(s.m, s.n)},
      [s](context& ctx) { return gemm_data<In, T>(ctx, s.m, s.k, s.n); });
  added.path("sycl", [](gemm_data<In, T>& d) { run_path(d, gemm_path::own); });
#ifdef NULLSCOPE_HAS_ONEMKL
  added.path("onemkl", [](gemm_data<In, T>& d) { run_path(d, gemm_path::vendor); });
#endif
  if (is_square && s.n <= 512) added.path("loop", [](gemm_data<In, T>& d) { run_loop(d); });
  added
      .clear([](gemm_data<In, T>& d) {
        d.ctx.queue().fill(d.c.data(), T(NAN), static_cast<std::size_t>(d.c.size())).wait();
        std::fill(d.host_c.begin(), d.host_c.end(), T(NAN));
      })
      .verify([](gemm_data<In, T>& d, report& found) { verify(d, found); });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "c = a b", [](suite& suite) {
    std::vector<shape> shapes{{512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}};
    for (const std::int64_t tokens : {128, 256, 512, 1024, 2048}) shapes.push_back({tokens, 384, 1536});
    for (const shape& s : shapes) add<float, float>(suite, "f32", s);
    for (const shape& s : shapes) add<double, double>(suite, "f64", s);
    for (const shape& s : shapes) add<nullscope::bfloat16, float>(suite, "bf16", s);
  });
}
