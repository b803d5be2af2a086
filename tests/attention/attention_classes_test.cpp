/// Attention between classes of tokens, entropy and rollout, against dense matrices in double.
#include <nullscope/attention/attention_statistics.hpp>
#include <nullscope/attention/effective_attention.hpp>

#include "lib/src/core/dispatch.hpp"
#include "tests/attention/effective_attention_reference.hpp"

namespace nullscope::test {
namespace {

constexpr double bound = 10;  // of a scaled residual

class attention_classes_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, attention_classes_test, testing::ValuesIn(devices()), device_name);

/// Every class occurs if there are enough tokens; -1 and `count` belong to no class.
std::vector<std::int32_t> some_classes(std::int64_t tokens, std::int32_t count) {
  std::vector<std::int32_t> classes;
  for (std::int64_t i = 0; i < tokens; ++i)
    classes.push_back(static_cast<std::int32_t>((i * i + 3 * i) % (count + 2)) - 1);
  return classes;
}

/// Sums of x (queries, keys) between classes, by plain loops.
matrix sums_of(const matrix& x, const std::vector<std::int32_t>& queries, const std::vector<std::int32_t>& keys,
               std::int32_t count) {
  matrix sums(static_cast<std::size_t>(count * count), 0.0);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    for (std::size_t j = 0; j < keys.size(); ++j) {
      if (queries[i] < 0 || keys[j] < 0 || queries[i] >= count || keys[j] >= count) continue;
      sums[static_cast<std::size_t>(queries[i] * count + keys[j])] += x[i * keys.size() + j];
    }
  }
  return sums;
}

template <class T>
void check_classes(context& ctx, const head_shape& s, std::int64_t tile_bytes, bool by_rows) {
  constexpr std::int32_t count = 3;
  const head_data<T> data = make_data<T>(s);
  const tensor<T> q(ctx, {s.heads, s.queries, s.dk}, data.q), k(ctx, {s.heads, s.keys, s.dk}, data.k),
      v(ctx, {s.heads, s.keys, s.dv}, data.v);
  const attention_heads<T> heads{q, k, v};
  const std::int64_t columns = heads.basis_columns();
  tensor<T> p(ctx, {s.heads, s.queries, columns}), u(ctx, {s.heads, s.keys, columns}), values(ctx, {s.heads, columns}),
      log_sum_exp(ctx, {s.heads, s.queries}), raw(ctx, {s.heads, count, count}),
      effective(ctx, {s.heads, count, count}), entropy(ctx, {s.heads, s.queries}),
      dense(ctx, {s.heads, s.queries, s.keys});
  tensor<std::int64_t> rank(ctx, {s.heads});
  tensor<std::int32_t> status(ctx, {s.heads});
  const effective_attention_results<T> results{p, u, values, rank, status, log_sum_exp};
  if (by_rows) {
    effective_attention_by_rows(ctx, heads, results).wait_and_throw();
  } else {
    effective_attention(ctx, heads, results, {.causal = s.causal}).wait_and_throw();
  }
  for (tensor<T>* x : {&raw, &effective, &entropy}) {  // rubbish
    ctx.queue().fill(x->data(), static_cast<T>(NAN), static_cast<std::size_t>(x->size())).wait();
  }
  const auto of_queries = some_classes(s.queries, count), of_keys = some_classes(s.keys, count);
  const tensor<std::int32_t> queries(ctx, {s.queries}, of_queries), keys(ctx, {s.keys}, of_keys);
  const attention_factors<T> factors{q, k, log_sum_exp, p, u};
  attention_classes(ctx, attention_class_operands<T>{factors, {queries, keys}},
                    attention_class_results<T>{raw, effective, entropy},
                    {.causal = s.causal, .by_rows = by_rows, .tile_bytes = tile_bytes})
      .wait_and_throw();
  attention_part(ctx, factors, dense, {.causal = s.causal, .by_rows = by_rows}).wait_and_throw();
  const std::vector<T> of_raw = raw.to_host(), of_effective = effective.to_host(), of_rows = entropy.to_host(),
                       all = dense.to_host();
  for (std::int64_t head = 0; head < s.heads; ++head) {
    const matrix a = weights(data, s, head);
    const auto part = [&](const std::vector<T>& x, std::int64_t size) {
      return std::vector<T>(x.begin() + head * size, x.begin() + (head + 1) * size);
    };
    const std::vector<T> a_perp = part(all, s.queries * s.keys);
    const double depth = std::sqrt(static_cast<double>(s.queries * s.keys));
    EXPECT_LT(scaled_residual(part(of_raw, count * count), sums_of(a, of_queries, of_keys, count), depth), bound);
    EXPECT_LT(scaled_residual(part(of_effective, count * count),
                              sums_of(matrix(a_perp.begin(), a_perp.end()), of_queries, of_keys, count), depth),
              bound);
    matrix expected;
    for (std::int64_t i = 0; i < s.queries; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < s.keys; ++j) {
        const double weight = a[static_cast<std::size_t>(i * s.keys + j)];
        if (weight > 0) sum -= weight * std::log(weight);
      }
      expected.push_back(sum);
    }
    EXPECT_LT(scaled_residual(part(of_rows, s.queries), expected, std::sqrt(static_cast<double>(s.keys))), bound);
  }
}

TEST_P(attention_classes_test, agree_with_dense_matrices) {
  check_classes<float>(ctx_, {1, 1, 1, 2, 1, 0}, 1 << 20, false);
  check_classes<float>(ctx_, {3, 29, 29, 5, 4, 0}, 1 << 20, false);
  check_classes<float>(ctx_, {2, 40, 23, 5, 4, 0}, 1000, false);  // tiles of a few rows
  check_classes<float>(ctx_, {2, 31, 31, 5, 4, 0, true}, 3000, true);
}

TEST_P(attention_classes_test, agree_with_dense_matrices_in_double) {
  if (!has_fp64()) GTEST_SKIP() << "no fp64";
  check_classes<double>(ctx_, {2, 33, 33, 5, 4, 0}, 1 << 20, false);
}

TEST_P(attention_classes_test, agree_with_dense_matrices_in_the_layout_of_gpus) {
  if (!detail::has_gpu_layouts) GTEST_SKIP() << "this build has no layouts of GPUs";
  context ctx(queue_, lane_layout::work_items(ctx_.device(), 32));
  check_classes<float>(ctx, {2, 31, 31, 5, 4, 0, true}, 3000, true);
}

TEST_P(attention_classes_test, sums_of_a_matrix_of_known_numbers) {
  const tensor<float> x(ctx_, {1, 2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const tensor<std::int32_t> queries(ctx_, {2}, std::vector<std::int32_t>{1, 0}),
      keys(ctx_, {3}, std::vector<std::int32_t>{0, 1, 0});
  tensor<float> sums(ctx_, {1, 2, 2});
  class_sums(ctx_, class_sum_operands<float>{x, {queries, keys}}, sums).wait_and_throw();
  EXPECT_EQ(sums.to_host(), (std::vector<float>{10, 5, 4, 2}));
}

TEST_P(attention_classes_test, of_no_queries_are_zero) {
  const tensor<float> x(ctx_, {2, 0, 3});
  const tensor<std::int32_t> queries(ctx_, {0}), keys(ctx_, {3}, std::vector<std::int32_t>{0, 1, 0});
  tensor<float> sums(ctx_, {2, 2, 2}, std::vector<float>(8, 7.f));
  class_sums(ctx_,
             class_sum_operands<float>{view<const float, 3>{x.data(), {2, 0, 3}, {0, 3, 1}},
                                       {view<const std::int32_t, 1>{queries.data(), {0}, {1}}, keys}},
             sums)
      .wait_and_throw();
  EXPECT_EQ(sums.to_host(), std::vector<float>(8, 0.f));
}

/// Layer by layer in double.
matrix rolled(const std::vector<std::vector<float>>& layers, std::int64_t heads, std::size_t n, double residual) {
  matrix r(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) r[i * n + i] = 1;
  for (const std::vector<float>& a : layers) {
    matrix mix(n * n, 0.0), next(n * n, 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
          mix[i * n + j] += std::abs(static_cast<double>(a[(h * n + i) * n + j]));
        }
        sum += mix[i * n + j];
      }
      for (std::size_t j = 0; j < n; ++j) mix[i * n + j] *= sum == 0 ? 0 : (1 - residual) / sum;
      mix[i * n + i] += sum == 0 ? 1 : residual;
    }
    for (std::size_t i = 0; i < n * n; ++i) {
      for (std::size_t k = 0; k < n; ++k) next[i] += mix[i / n * n + k] * r[k * n + i % n];
    }
    r = next;
  }
  return r;
}

TEST_P(attention_classes_test, rollout_agrees_with_products_in_double) {
  constexpr std::int64_t heads = 3;
  for (const std::int64_t n : {1, 7, 33}) {
    std::vector<std::vector<float>> layers;
    tensor<float> now(ctx_, {n, n}), before(ctx_, {n, n});
    for (std::uint64_t layer = 0; layer < 3; ++layer) {
      layers.push_back(random_numbers<float>(heads * n * n, 5 + layer));  // some are negative
      if (n == 7) {
        for (std::int64_t h = 0; h < heads; ++h) std::fill_n(layers.back().begin() + (h * n + 2) * n, n, 0.f);
      }
      const tensor<float> a(ctx_, {heads, n, n}, layers.back());
      std::swap(now, before);
      rollout_operands<float> operands{a};
      if (layer > 0) operands.below = before;
      attention_rollout(ctx_, operands, now, {.residual = 0.3}).wait_and_throw();
      const matrix expected = rolled(layers, heads, static_cast<std::size_t>(n), 0.3);
      EXPECT_LT(scaled_residual(now.to_host(), expected, std::sqrt(double(n))), bound) << n;
    }
  }
}

TEST_P(attention_classes_test, rollout_refuses_a_residual_that_is_no_share) {
  const tensor<float> a(ctx_, {1, 2, 2}, std::vector<float>(4, 0.5f));
  tensor<float> out(ctx_, {2, 2});
  for (const double residual : {-0.1, 1.1, static_cast<double>(NAN)}) {
    EXPECT_THROW(attention_rollout(ctx_, rollout_operands<float>{a}, out, {.residual = residual}), invalid_argument);
  }
}

}  // namespace
}  // namespace nullscope::test
