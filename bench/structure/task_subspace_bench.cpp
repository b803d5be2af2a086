/// The subspace R of a task: the ranges of T = V H of many inputs, folded in block by block, against LAPACK's economy
/// gesdd of all T side by side, one head per thread. Heads of MiniLM: 128 tokens, d_v = 32, d = 384.
#include <algorithm>
#include <cmath>
#include <nullscope/core/tensor.hpp>
#include <nullscope/structure/task_subspace.hpp>
#include <thread>

#include "bench/core/harness.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_lapacke.h>
#include <mkl_service.h>
#endif

namespace nullscope::bench {
namespace {

constexpr std::int64_t tokens = 128, value_width = 32, model_width = 384, texts = 32;

struct task_data {
  task_data(context& ctx, std::int64_t heads)
      : ctx(ctx),
        heads(heads),
        v_host(random_numbers<float>(texts * heads * tokens * value_width, 1)),
        h_host(random_numbers<float>(heads * value_width * model_width, 2)),
        v(ctx, {texts, heads, tokens, value_width}, v_host),
        h(ctx, {heads, value_width, model_width}, h_host),
        s(static_cast<std::size_t>(heads * tokens)) {}

  context& ctx;
  std::int64_t heads;
  std::vector<float> v_host, h_host, t;  // t (heads, S, texts d), made when LAPACK needs it
  tensor<float> v, h;
  std::vector<float> s;  // (heads, S): the result
};

void run_sycl(task_data& d) {
  task_subspace<float> task(d.ctx, d.heads, tokens);
  tensor<float> reduced(d.ctx, {d.heads, value_width, value_width});
  reduce_projection(d.ctx, d.h, reduced).wait_and_throw();
  const view<const float, 4> v = d.v;
  for (std::int64_t i = 0; i < texts; ++i) task.add(d.ctx, {select(v, 0, i), reduced});
  d.s = task.basis(d.ctx).s.to_host();
}

/// T of one text and head, row by row, into rows of `stride` numbers.
void form_t(const task_data& d, std::int64_t text, std::int64_t head, float* t, std::int64_t stride) {
  for (std::int64_t i = 0; i < tokens; ++i) {
    std::fill_n(t + i * stride, model_width, 0.0f);
    for (std::int64_t l = 0; l < value_width; ++l) {
      const float factor = d.v_host[static_cast<std::size_t>(((text * d.heads + head) * tokens + i) * value_width + l)];
      const float* from = d.h_host.data() + (head * value_width + l) * model_width;
      for (std::int64_t j = 0; j < model_width; ++j) t[i * stride + j] += factor * from[j];
    }
  }
}

#ifdef NULLSCOPE_HAS_ONEMKL
void run_lapack(task_data& d) {
  const std::int64_t columns = texts * model_width, size = tokens * columns;
  if (d.t.empty()) {
    d.t.resize(static_cast<std::size_t>(d.heads * size));
    for (std::int64_t head = 0; head < d.heads; ++head) {
      for (std::int64_t i = 0; i < texts; ++i) {
        form_t(d, i, head, d.t.data() + head * size + i * model_width, columns);
      }
    }
  }
  parallel_for(d.heads, [&](std::int64_t begin, std::int64_t end) {
    const int threads = mkl_set_num_threads_local(1);
    std::vector<float> left(static_cast<std::size_t>(size)), right(static_cast<std::size_t>(tokens * tokens));
    for (std::int64_t head = begin; head < end; ++head) {
      std::vector<float> a(d.t.begin() + head * size, d.t.begin() + (head + 1) * size);  // gesdd overwrites it
      // Column-major, it is the transpose: its right singular vectors are T's left ones.
      LAPACKE_sgesdd(LAPACK_COL_MAJOR, 'S', columns, tokens, a.data(), columns, d.s.data() + head * tokens, left.data(),
                     columns, right.data(), tokens);
    }
    mkl_set_num_threads_local(threads);
  });
}
#endif

/// Of the last head: the squares of the singular values add up to |T|^2, and none is lost.
void verify(task_data& d, report& found) {
  const float* s = d.s.data() + (d.heads - 1) * tokens;
  double squares = 0, expected = 0;
  for (std::int64_t i = 0; i < tokens; ++i) squares += static_cast<double>(s[i]) * static_cast<double>(s[i]);
  std::vector<float> t(static_cast<std::size_t>(tokens * model_width));
  for (std::int64_t i = 0; i < texts; ++i) {
    form_t(d, i, d.heads - 1, t.data(), model_width);
    for (const float x : t) expected += static_cast<double>(x) * static_cast<double>(x);
  }
  constexpr double eps = 0x1p-23;
  found.residual("norm", std::abs(std::sqrt(squares / expected) - 1) / (std::sqrt(static_cast<double>(tokens)) * eps),
                 10);
  found.residual("lost",
                 static_cast<double>(std::count_if(s, s + tokens, [&](float x) { return !(x > 1e-3f * s[0]); })), 0);
}

void add(suite& suite, std::int64_t heads, [[maybe_unused]] bool has_peer) {
  const double n = static_cast<double>(heads * texts), s = tokens;
  [[maybe_unused]] auto& comparison =
      suite
          .add({.operation = "task_subspace",
                .type = "f32",
                .sizes = {{"heads", heads}, {"texts", texts}, {"s", tokens}, {"dv", value_width}, {"d", model_width}},
                .flops = n * 2 * s * s * value_width,
                .bytes = n * 4 * s * value_width},
               [=](context& ctx) { return task_data(ctx, heads); })
          .path("sycl", run_sycl)
          .clear([](task_data& d) { std::fill(d.s.begin(), d.s.end(), NAN); })
          .verify(verify);
#ifdef NULLSCOPE_HAS_ONEMKL
  if (has_peer) comparison.path("onemkl", run_lapack);
#endif
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "The subspace R of a task", [](suite& suite) {
    add(suite, std::max(1u, std::thread::hardware_concurrency()), true);
    add(suite, 72, false);
  });
}
