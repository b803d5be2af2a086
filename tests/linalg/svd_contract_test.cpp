/// What svd promises besides the numbers: the same bits, NaN, sweeps, strides, ranks, dependencies, bad arguments.
#include "tests/linalg/svd_support.hpp"

namespace nullscope::test {
namespace {

TEST_P(svd_test, a_matrix_gives_the_same_bits_wherever_it_stands) {
  for_types([&]<class T>(T) {
    batch_of<T> a = difficult_batch<T>(21, 18);
    const batch_of<T> b = random_batch<T>(a.batch, 21, 18);
    a.numbers.insert(a.numbers.end(), b.numbers.begin(), b.numbers.end());
    a.batch *= 2;
    batch_of<T> turned = a;  // the last comes first
    for (std::int64_t i = 0; i < a.batch; ++i) std::copy_n(a[i], a.size(), turned[a.batch - 1 - i]);
    const auto same = [&](const std::vector<T>& x, const std::vector<T>& y, bool is_turned, const char* name) {
      const std::int64_t size = static_cast<std::int64_t>(x.size()) / a.batch;
      for (std::int64_t i = 0; i < a.batch; ++i) {
        const std::int64_t j = is_turned ? a.batch - 1 - i : i;
        EXPECT_EQ(std::memcmp(&x[std::size_t(i * size)], &y[std::size_t(j * size)], std::size_t(size) * sizeof(T)), 0)
            << name << " of matrix " << i;
      }
    };
    const auto check = [&](context& ctx, svd_algorithm algorithm) {
      SCOPED_TRACE(int(algorithm));
      const svd_options options{svd_vectors::thin, algorithm};
      const host_svd<T> got = run(ctx, a, options), again = run(ctx, a, options);
      const host_svd<T> other = run(ctx, turned, options);
      same(got.s, again.s, false, "s");
      same(got.u, again.u, false, "u");
      same(got.vt, again.vt, false, "vt");
      same(got.s, other.s, true, "s, turned");
      same(got.u, other.u, true, "u, turned");
      same(got.vt, other.vt, true, "vt, turned");
    };
    for_layouts([&](context& ctx) {
      for (const svd_algorithm algorithm : {svd_algorithm::bidiagonal, svd_algorithm::jacobi}) check(ctx, algorithm);
    });
    if (detail::has_lapack(ctx_)) check(ctx_, svd_algorithm::lapack);
  });
}

TEST_P(svd_test, not_finite_matrices_are_named_and_do_not_spread) {
  for_types([&]<class T>(T) {
    batch_of<T> a = random_batch<T>(20, 12, 10);
    const batch_of<T> before = a;
    a[3][17] = std::numeric_limits<T>::quiet_NaN();
    a[18][0] = -std::numeric_limits<T>::infinity();
    const auto check = [&](context& ctx, svd_algorithm algorithm) {
      const svd_options options{svd_vectors::thin, algorithm};
      const host_svd<T> clean = run(ctx, before, options), got = run(ctx, a, options);
      for (std::int64_t b = 0; b < a.batch; ++b) {
        const bool is_bad = b == 3 || b == 18;
        EXPECT_EQ(got.status[std::size_t(b)], is_bad ? svd_not_finite : svd_converged);
        for (std::int64_t i = 0; i < 10; ++i) {
          const std::size_t at = std::size_t(b * 10 + i);
          EXPECT_TRUE(is_bad ? std::isnan(got.s[at]) : got.s[at] == clean.s[at]) << b;
        }
        for (std::int64_t i = 0; i < 120; ++i) {
          const std::size_t at = std::size_t(b * 120 + i);
          EXPECT_TRUE(is_bad ? std::isnan(got.u[at]) : got.u[at] == clean.u[at]) << b;
        }
        for (std::int64_t i = 0; i < 100; ++i) {
          const std::size_t at = std::size_t(b * 100 + i);
          EXPECT_TRUE(is_bad ? std::isnan(got.vt[at]) : got.vt[at] == clean.vt[at]) << b;
        }
      }
    };
    for_layouts([&](context& ctx) {
      for (const svd_algorithm algorithm : {svd_algorithm::bidiagonal, svd_algorithm::jacobi}) check(ctx, algorithm);
    });
    if (detail::has_lapack(ctx_)) check(ctx_, svd_algorithm::lapack);
    const tensor<T> input(queue_, {20, 12, 10}, a.numbers);
    try {
      svd(ctx_, input);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const computation_error& failure) {
      EXPECT_EQ(failure.failed_batch_ids(), (std::vector<std::int64_t>{3, 18}));
      EXPECT_STREQ(failure.what(),
                   "svd: 2 of 20 matrices of (12 x 10) failed; the first is matrix 3, which contains NaN or infinity");
    }
  });
}

TEST_P(svd_test, too_few_sweeps_leave_orthonormal_vectors_of_bidiagonal) {
  for (const auto& [m, n] : {std::pair{20, 20}, std::pair{90, 20}, std::pair{20, 31}}) {
    const batch_of<float> a = random_batch<float>(18, m, n);
    const host_svd<float> got = run(ctx_, a, {.algorithm = svd_algorithm::bidiagonal, .max_sweeps = 2});
    for (std::int64_t b = 0; b < a.batch; ++b) {
      EXPECT_EQ(got.status[std::size_t(b)], svd_not_converged);
      EXPECT_EQ(got.sweeps[std::size_t(b)], 2);
      EXPECT_LT(orthogonality(&got.u[std::size_t(m * 20 * b)], m, 20, 20, 1), bound) << m << " x " << n;
      EXPECT_LT(orthogonality(&got.vt[std::size_t(20 * n * b)], n, 20, 1, n), bound) << m << " x " << n;
    }
  }
  const host_svd<float> enough = run(ctx_, random_batch<float>(18, 20, 20), {.algorithm = svd_algorithm::bidiagonal});
  for (const std::int32_t sweeps : enough.sweeps) {
    EXPECT_GT(sweeps, 5);
    EXPECT_LT(sweeps, 60);
  }
}

TEST_P(svd_test, too_few_sweeps_of_jacobi_leave_one_side_orthonormal_and_a_product_that_is_a) {
  for (const auto& [m, n] : {std::pair{30, 20}, std::pair{20, 31}}) {
    const batch_of<float> a = random_batch<float>(5, m, n);
    const host_svd<float> got = run(ctx_, a, {.algorithm = svd_algorithm::jacobi, .max_sweeps = 1});
    for (std::int64_t b = 0; b < a.batch; ++b) {
      SCOPED_TRACE(testing::Message() << "matrix " << b << " of " << m << " x " << n);
      EXPECT_EQ(got.status[std::size_t(b)], svd_not_converged);
      EXPECT_EQ(got.sweeps[std::size_t(b)], 1);
      const float* const u = &got.u[std::size_t(m * 20 * b)];
      const float* const vt = &got.vt[std::size_t(20 * n * b)];
      const double of_u = orthogonality(u, m, 20, 20, 1), of_vt = orthogonality(vt, n, 20, 1, n);
      EXPECT_LT(m < n ? of_u : of_vt, bound);
      EXPECT_GT(m < n ? of_vt : of_u, 1000 * bound) << "one sweep is enough, so the header promises too little";
      EXPECT_LT(reconstruction(a, b, got, svd_vectors::thin), bound);
    }
  }
}

TEST_P(svd_test, lapack_has_no_sweeps_to_count) {
  if (!detail::has_lapack(ctx_)) GTEST_SKIP() << "no LAPACK";
  const batch_of<float> a = random_batch<float>(3, 20, 20);
  const host_svd<float> got = run(ctx_, a, {.algorithm = svd_algorithm::lapack, .max_sweeps = 1});
  for (std::int64_t b = 0; b < a.batch; ++b) check_matrix(a, b, got, svd_vectors::thin);
  EXPECT_EQ(got.sweeps, std::vector<std::int32_t>(3, 0));
}

TEST_P(svd_test, lapack_takes_a_large_batch_in_parts) {
  if (!detail::has_lapack(ctx_)) GTEST_SKIP() << "no LAPACK";
  // the matrices overlap: each begins one row after the one before; 100 of them are more than is staged at once
  constexpr std::int64_t batch = 100, m = 100000, n = 2;
  const std::vector<float> numbers = random_numbers<float>((m + batch) * n, 3);
  const tensor<float> memory(queue_, {m + batch, n}, numbers);
  const view<const float, 3> a{memory.data(), {batch, m, n}, {n, n, 1}};
  tensor<float> s(queue_, {batch, n}, std::vector<float>(batch * n, 777.0f));
  tensor<std::int32_t> status(queue_, {batch}, std::vector<std::int32_t>(batch, 7));
  const svd_options options{svd_vectors::none, svd_algorithm::lapack};
  svd(ctx_, a, {.s = s, .status = status}, options).wait_and_throw();
  EXPECT_EQ(status.to_host(), std::vector<std::int32_t>(batch, svd_converged));
  const std::vector<float> together = s.to_host();
  s.copy_from(std::vector<float>(batch * n, 777.0f));
  for (std::int64_t b = 0; b < batch; ++b) {
    svd(ctx_, slice(a, 0, b, 1),
        {.s = slice(view<float, 2>(s), 0, b, 1), .status = slice(view<std::int32_t, 1>(status), 0, b, 1)}, options)
        .wait_and_throw();
  }
  EXPECT_EQ(together, s.to_host());
}

TEST_P(svd_test, lapack_is_refused_where_it_is_missing) {
  if (!detail::has_gpu_layouts) GTEST_SKIP() << "this build has no layouts of GPUs";
  context ctx(queue_, lane_layout::work_items(ctx_.device()));
  const tensor<float> a(queue_, {2, 2}, std::vector<float>{1, 0, 0, 1});
  EXPECT_EQ(message_of<unsupported_device>([&] { svd(ctx, a, {.algorithm = svd_algorithm::lapack}); }),
            "svd: no LAPACK for " + ctx.device().name + " with " + to_string(ctx.layout()));
}

TEST_P(svd_test, strided_views_and_one_matrix_for_the_whole_batch) {
  // a is every second row and column of a larger array, transposed; u and vt lie column-major with gaps
  constexpr std::int64_t batch = 5, m = 9, n = 6;
  const std::vector<float> numbers = random_numbers<float>(batch * 2 * n * 2 * m, 5);
  const tensor<float> memory(queue_, {batch, 2 * n, 2 * m}, numbers);
  const view<const float, 3> a{memory.data(), {batch, m, n}, {4 * n * m, 2, 4 * m}};
  tensor<float> s(queue_, {batch, 2 * n}), u(queue_, {batch, n, m + 3}), vt(queue_, {n, batch, n});
  tensor<std::int32_t> status(queue_, {batch});
  const view<float, 2> s_view{s.data(), {batch, n}, {2 * n, 2}};
  const view<float, 3> u_view{u.data(), {batch, m, n}, {n * (m + 3), 1, m + 3}};
  const view<float, 3> vt_view{vt.data(), {batch, n, n}, {n, n * batch, 1}};
  const svd_results<float> results{.s = s_view, .u = u_view, .vt = vt_view, .status = status};
  const auto gather = [&](const auto& x, const std::vector<float>& host, const float* base) {
    std::vector<float> packed;
    for (std::int64_t b = 0; b < x.extent[0]; ++b) {
      for (std::int64_t r = 0; r < x.extent[1]; ++r) {
        if constexpr (std::is_same_v<decltype(x), const view<float, 2>&>) {
          packed.push_back(host[std::size_t(&x(b, r) - base)]);
        } else {
          for (std::int64_t c = 0; c < x.extent[2]; ++c) packed.push_back(host[std::size_t(&x(b, r, c) - base)]);
        }
      }
    }
    return packed;
  };
  const batch_of<float> packed{batch, m, n, gather(a, numbers, memory.data())};
  const view<const float, 3> repeated{memory.data(), {batch, m, n}, {0, 2, 4 * m}};
  for (const svd_algorithm algorithm : algorithms()) {
    SCOPED_TRACE(int(algorithm));
    for (tensor<float>* x : {&s, &u, &vt}) x->copy_from(std::vector<float>(std::size_t(x->size()), 777.0f));
    svd(ctx_, a, results, {.algorithm = algorithm}).wait_and_throw();
    const host_svd<float> got{gather(s_view, s.to_host(), s.data()),
                              gather(u_view, u.to_host(), u.data()),
                              gather(vt_view, vt.to_host(), vt.data()),
                              status.to_host(),
                              {}};
    for (std::int64_t b = 0; b < batch; ++b) check_matrix(packed, b, got, svd_vectors::thin);
    for (const tensor<float>* x : {&s, &u}) {  // the gaps keep their content
      const std::vector<float> host = x->to_host();
      EXPECT_EQ(std::count(host.begin(), host.end(), 777.0f), x == &s ? batch * n : batch * n * 3);
    }
    svd(ctx_, repeated, results, {.algorithm = algorithm}).wait_and_throw();
    const std::vector<float> values = gather(s_view, s.to_host(), s.data());
    for (std::int64_t i = 0; i < batch * n; ++i) EXPECT_EQ(values[std::size_t(i)], got.s[std::size_t(i % n)]);
  }
}

TEST_P(svd_test, ranks_by_relative_and_absolute_tolerance) {
  const tensor<float> s(queue_, {3, 4}, std::vector<float>{10, 1, 1e-3f, 0, 0, 0, 0, 0, NAN, NAN, NAN, NAN});
  tensor<std::int64_t> rank(queue_, {3});
  const auto ranks = [&](double relative, double absolute) {
    numerical_rank(ctx_, s, rank, {4, 9, {relative, absolute}}).wait_and_throw();
    return rank.to_host();
  };
  using ids = std::vector<std::int64_t>;
  EXPECT_EQ(ranks(-1, 0), (ids{3, 0, -1}));
  EXPECT_EQ(ranks(1e-2, 0), (ids{2, 0, -1}));
  EXPECT_EQ(ranks(1e-2, 5), (ids{1, 0, -1}));
  EXPECT_EQ(ranks(0, 1e-4), (ids{3, 0, -1}));
  EXPECT_EQ(ranks(1e300, 0), (ids{0, 0, -1}));  // beyond float
  EXPECT_EQ(ranks(0, 1e300), (ids{0, 0, -1}));
}

TEST_P(svd_test, a_value_that_overflows_leaves_the_rank_unknown) {
  tensor<float> a(queue_, {8, 8}, std::vector<float>(64, 3e38f));  // sigma is 8 times that
  EXPECT_EQ(numerical_rank(ctx_, a), std::vector<std::int64_t>{-1});
}

TEST_P(svd_test, the_rank_of_what_failed_is_not_known) {
  const tensor<float> s(queue_, {3, 2}, std::vector<float>{2, 1, 2, 1, 2, 1});
  const tensor<std::int32_t> status(queue_, {3}, std::vector<std::int32_t>{0, svd_not_converged, svd_not_finite});
  tensor<std::int64_t> rank(queue_, {3});
  detail::rank_of_decomposed(ctx_, s, status, rank, {2, 2}).wait_and_throw();
  EXPECT_EQ(rank.to_host(), (std::vector<std::int64_t>{2, -1, -1}));
}

TEST_P(svd_test, waits_for_its_dependencies) {
  context out_of_order(sycl::queue{GetParam()});
  const batch_of<float> a = random_batch<float>(40, 16, 16);
  const std::size_t bytes = a.numbers.size() * sizeof(float);
  const tensor<float> source(queue_, {40, 16, 16}, a.numbers);
  tensor<float> input(queue_, {40, 16, 16}), s(queue_, {40, 16}), large(queue_, {1 << 24});
  tensor<std::int32_t> status(queue_, {40});
  for (const svd_algorithm algorithm : algorithms()) {
    const svd_options options{svd_vectors::none, algorithm};
    const std::vector<float> expected = run(ctx_, a, options).s;  // and the kernel is compiled
    input.copy_from(std::vector<float>(a.numbers.size(), 0.0f));
    sycl::event before;
    for (int i = 0; i < 8; ++i)
      before = out_of_order.queue().fill(large.data(), float(i), 1 << 24, before);  // takes a while
    const sycl::event copied = out_of_order.queue().memcpy(input.data(), source.data(), bytes, before);
    svd(out_of_order, input, {.s = s, .status = status}, options, {copied}).wait_and_throw();
    out_of_order.queue().wait();  // of an svd that did not wait
    EXPECT_EQ(s.to_host(), expected) << int(algorithm);
  }
}

TEST_P(svd_test, bad_arguments_are_named) {
  tensor<float> a(queue_, {2, 5, 4}), s(queue_, {2, 4}), u(queue_, {2, 5, 4}), vt(queue_, {2, 4, 4});
  tensor<std::int32_t> status(queue_, {2});
  const view<float, 3> all_vt = vt;
  const auto message = [&](view<const float, 3> in, const svd_results<float>& results, svd_options options = {}) {
    return message_of<invalid_argument>([&] { svd(ctx_, in, results, options); });
  };
  const auto of_input = [&](view<const float, 3> in) {
    return message(in, {.s = s, .u = u, .vt = vt, .status = status});
  };
  const view<float, 2> short_s{s.data(), {2, 3}, {4, 1}};
  EXPECT_EQ(message(a, {.s = short_s, .u = u, .vt = vt, .status = status}),
            "svd: s (2, 3) with strides (4, 1) should be (2, 4)");
  EXPECT_EQ(message(a, {.s = s, .u = u, .vt = vt, .status = status}, {svd_vectors::full}),
            "svd: u (2, 5, 4) with strides (20, 4, 1) should be (2, 5, 5)");
  EXPECT_EQ(message(a, {.s = s, .u = u, .vt = slice(all_vt, 1, 0, 3), .status = status}),
            "svd: vt (2, 3, 4) with strides (16, 4, 1) should be (2, 4, 4)");
  EXPECT_EQ(message(a, {.s = s, .vt = vt, .status = status}),
            "svd: u (0, 0, 0) with strides (0, 0, 0) should be (2, 5, 4)");
  EXPECT_EQ(message(a, {.s = s, .u = u, .status = status}, {svd_vectors::none}),
            "svd: u (2, 5, 4) with strides (20, 4, 1) should be (2, 5, 0)");
  EXPECT_EQ(message(a, {.s = s, .u = u, .vt = vt, .status = {}}), "svd: status (0) with strides (0) should be (2)");
  EXPECT_EQ(message(a, {.s = s, .u = u, .vt = vt, .status = status, .sweeps = contiguous(status.data(), 1)}),
            "svd: sweeps (1) with strides (1) should be (2)");
  EXPECT_EQ(of_input({nullptr, {2, 5, 4}, {20, 4, 1}}), "svd: a (2, 5, 4) with strides (20, 4, 1) has a null pointer");
  EXPECT_EQ(of_input({a.data(), {2, 5, 0}, {20, 4, 1}}),
            "svd: a (2, 5, 0) with strides (20, 4, 1) has matrices without elements");
  EXPECT_EQ(of_input({a.data(), {-2, 5, 4}, {20, 4, 1}}),
            "svd: a (-2, 5, 4) with strides (20, 4, 1) has a negative extent");
  EXPECT_EQ(message(a, {.s = s, .u = {u.data(), {2, 5, 4}, {20, 3, 1}}, .vt = vt, .status = status}),
            "svd: u (2, 5, 4) with strides (20, 3, 1) has strides that overlap");
  EXPECT_EQ(message(a, {.s = s, .u = u, .vt = vt, .status = status}, {.max_sweeps = -1}),
            "svd: max_sweeps is -1, it must not be negative");
  EXPECT_EQ(message_of<invalid_argument>([&] { svd(ctx_, tensor<float>(queue_, {4})); }),
            "svd: a [4] is neither a matrix nor a batch of matrices");
  tensor<std::int64_t> rank(queue_, {2});
  const auto of_rank = [&](view<std::int64_t, 1> out, const numerical_rank_options& options) {
    return message_of<invalid_argument>([&] { numerical_rank(ctx_, s, out, options); });
  };
  EXPECT_EQ(of_rank(rank, {5, 3}),
            "numerical_rank: s (2, 4) with strides (4, 1) does not hold the values of 5 x 3 matrices");
  EXPECT_EQ(of_rank(contiguous(rank.data(), 1), {5, 4}), "numerical_rank: rank (1) with strides (1) should be (2)");
  EXPECT_NE(of_rank(rank, {5, 4, {-1, -1.5}}).find("-1.5 (absolute)"), std::string::npos);
  EXPECT_NE(of_rank(rank, {5, 4, {NAN, 0}}).find("nan (relative)"), std::string::npos);
}

TEST_P(svd_test, a_workspace_that_is_too_small_is_refused) {
  const tensor<float> a(queue_, {2, 5, 4});
  tensor<float> s(queue_, {2, 4}, std::vector<float>(8, 777.0f));
  tensor<std::int32_t> status(queue_, {2});
  const svd_options options{svd_vectors::none, svd_algorithm::bidiagonal};
  const auto pipeline = [&](context& ctx) { return svd(ctx, a, {.s = s, .status = status}, options); };
  const std::int64_t size = required_workspace(ctx_, pipeline);
  tensor<std::byte> memory(queue_, {64});
  ctx_.use_workspace(memory.span());
  EXPECT_EQ(message_of<invalid_argument>([&] { pipeline(ctx_); }),
            "svd: the workspace is too small, " + std::to_string(size) + " bytes are needed");
  EXPECT_EQ(s.to_host(), std::vector<float>(8, 777.0f));
}

TEST_P(svd_test, an_empty_batch_is_nothing_to_do) {
  const svd_tensors<float> result = svd(ctx_, tensor<float>(queue_, {0, 5, 4}));
  EXPECT_EQ(result.s.shape(), (std::vector<std::int64_t>{0, 4}));
}

TEST_P(svd_test, one_matrix_as_a_tensor_of_two_dimensions) {
  const batch_of<float> a = random_batch<float>(1, 7, 5);
  const svd_tensors<float> result = svd(ctx_, tensor<float>(queue_, {7, 5}, a.numbers));
  check_matrix(a, 0, {result.s.to_host(), result.u.to_host(), result.vt.to_host(), result.status.to_host(), {}},
               svd_vectors::thin);
}

}  // namespace
}  // namespace nullscope::test
