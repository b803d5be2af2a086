/// What svd promises beside the numbers: the same bits, NaN, sweeps, strides, ranks, dependencies, bad arguments.
#include "svd_support.hpp"

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
    for (const svd_algorithm algorithm : algorithms()) {
      SCOPED_TRACE(int(algorithm));
      const svd_options options{svd_vectors::thin, algorithm};
      const host_svd<T> got = run(queue_, a, options), again = run(queue_, a, options);
      const host_svd<T> other = run(queue_, turned, options);
      same(got.s, again.s, false, "s");
      same(got.u, again.u, false, "u");
      same(got.vt, again.vt, false, "vt");
      same(got.s, other.s, true, "s, turned");
      same(got.u, other.u, true, "u, turned");
      same(got.vt, other.vt, true, "vt, turned");
    }
  });
}

TEST_P(svd_test, not_finite_matrices_are_named_and_do_not_spread) {
  for_types([&]<class T>(T) {
    batch_of<T> a = random_batch<T>(20, 12, 10);
    const batch_of<T> before = a;
    a[3][17] = std::numeric_limits<T>::quiet_NaN();
    a[18][0] = -std::numeric_limits<T>::infinity();
    for (const svd_algorithm algorithm : algorithms()) {
      const svd_options options{svd_vectors::thin, algorithm};
      const host_svd<T> clean = run(queue_, before, options), got = run(queue_, a, options);
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
    }
    const tensor<T> input(queue_, {20, 12, 10}, a.numbers);
    try {
      svd(queue_, input);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const computation_error& failure) {
      EXPECT_EQ(failure.failed_batch_ids(), (std::vector<std::int64_t>{3, 18}));
      EXPECT_STREQ(failure.what(),
                   "svd: 2 of 20 matrices of (12 x 10) failed; the first is matrix 3, which holds NaN or infinity");
    }
  });
}

TEST_P(svd_test, too_few_sweeps_leave_orthonormal_vectors_of_bidiagonal) {
  for (const auto& [m, n] : {std::pair{20, 20}, std::pair{90, 20}, std::pair{20, 31}}) {
    const batch_of<float> a = random_batch<float>(18, m, n);
    const host_svd<float> got = run(queue_, a, {.algorithm = svd_algorithm::bidiagonal, .max_sweeps = 2});
    for (std::int64_t b = 0; b < a.batch; ++b) {
      EXPECT_EQ(got.status[std::size_t(b)], svd_not_converged);
      EXPECT_EQ(got.sweeps[std::size_t(b)], 2);
      EXPECT_LT(orthogonality(&got.u[std::size_t(m * 20 * b)], m, 20, 20, 1), bound) << m << " x " << n;
      EXPECT_LT(orthogonality(&got.vt[std::size_t(20 * n * b)], n, 20, 1, n), bound) << m << " x " << n;
    }
  }
  const host_svd<float> enough = run(queue_, random_batch<float>(18, 20, 20), {.algorithm = svd_algorithm::bidiagonal});
  for (const std::int32_t sweeps : enough.sweeps) {
    EXPECT_GT(sweeps, 5);
    EXPECT_LT(sweeps, 60);
  }
}

TEST_P(svd_test, too_few_sweeps_of_jacobi_leave_one_side_orthonormal_and_a_product_that_is_a) {
  for (const auto& [m, n] : {std::pair{30, 20}, std::pair{20, 31}}) {
    const batch_of<float> a = random_batch<float>(5, m, n);
    const host_svd<float> got = run(queue_, a, {.algorithm = svd_algorithm::jacobi, .max_sweeps = 1});
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
  if (!detail::lapack_path<float>::serves(queue_)) GTEST_SKIP() << "no LAPACK";
  const batch_of<float> a = random_batch<float>(3, 20, 20);
  const host_svd<float> got = run(queue_, a, {.algorithm = svd_algorithm::lapack, .max_sweeps = 1});
  for (std::int64_t b = 0; b < a.batch; ++b) check_matrix(a, b, got, svd_vectors::thin);
  EXPECT_EQ(got.sweeps, std::vector<std::int32_t>(3, 0));
}

TEST_P(svd_test, strided_views_and_one_matrix_for_the_whole_batch) {
  // a is every second row and column of a larger array, transposed; u and vt lie column-major with gaps
  constexpr std::int64_t batch = 5, m = 9, n = 6;
  const std::vector<float> numbers = random_numbers<float>(batch * 2 * n * 2 * m, 5);
  const tensor<float> memory(queue_, {batch, 2 * n, 2 * m}, numbers);
  const view<const float, 3> a{memory.data(), {batch, m, n}, {4 * n * m, 2, 4 * m}};
  tensor<float> s(queue_, {batch, 2 * n}), u(queue_, {batch, n, m + 3}), vt(queue_, {n, batch, n});
  tensor<std::int32_t> status(queue_, {batch});
  tensor<std::byte> scratchpad(queue_, {svd_scratchpad_size<float>(queue_, batch, m, n)});
  const std::span<std::byte> scratch = scratchpad.span();
  const view<float, 2> s_view{s.data(), {batch, n}, {2 * n, 2}};
  const view<float, 3> u_view{u.data(), {batch, m, n}, {n * (m + 3), 1, m + 3}};
  const view<float, 3> vt_view{vt.data(), {batch, n, n}, {n, n * batch, 1}};
  svd<float>(queue_, a, s_view, u_view, vt_view, status.as<1>(), {}, scratch).wait_and_throw();
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
  host_svd<float> got{gather(s_view, s.to_host(), s.data()),
                      gather(u_view, u.to_host(), u.data()),
                      gather(vt_view, vt.to_host(), vt.data()),
                      status.to_host(),
                      {}};
  const batch_of<float> packed{batch, m, n, gather(a, numbers, memory.data())};
  for (std::int64_t b = 0; b < batch; ++b) check_matrix(packed, b, got, svd_vectors::thin);

  const view<const float, 3> repeated{memory.data(), {batch, m, n}, {0, 2, 4 * m}};
  svd<float>(queue_, repeated, s_view, u_view, vt_view, status.as<1>(), {}, scratch).wait_and_throw();
  const std::vector<float> values = gather(s_view, s.to_host(), s.data());
  for (std::int64_t i = 0; i < batch * n; ++i) EXPECT_EQ(values[std::size_t(i)], got.s[std::size_t(i % n)]);
}

TEST_P(svd_test, ranks_by_relative_and_absolute_tolerance) {
  const tensor<float> s(queue_, {3, 4}, std::vector<float>{10, 1, 1e-3f, 0, 0, 0, 0, 0, NAN, NAN, NAN, NAN});
  tensor<std::int64_t> rank(queue_, {3});
  const auto ranks = [&](float rtol, float atol) {
    numerical_rank<float>(queue_, s.as<2>(), 4, 9, rtol, atol, rank.as<1>()).wait_and_throw();
    return rank.to_host();
  };
  using ids = std::vector<std::int64_t>;
  EXPECT_EQ(ranks(-1, 0), (ids{3, 0, -1}));
  EXPECT_EQ(ranks(1e-2f, 0), (ids{2, 0, -1}));
  EXPECT_EQ(ranks(1e-2f, 5), (ids{1, 0, -1}));
  EXPECT_EQ(ranks(0, 1e-4f), (ids{3, 0, -1}));
}

TEST_P(svd_test, a_value_that_overflows_leaves_the_rank_unknown) {
  tensor<float> a(queue_, {8, 8}, std::vector<float>(64, 3e38f));  // sigma is 8 times that
  EXPECT_EQ(numerical_rank<float>(queue_, a), std::vector<std::int64_t>{-1});
}

TEST_P(svd_test, the_rank_of_what_failed_is_not_known) {
  const tensor<float> s(queue_, {3, 2}, std::vector<float>{2, 1, 2, 1, 2, 1});
  const tensor<std::int32_t> status(queue_, {3}, std::vector<std::int32_t>{0, svd_not_converged, svd_not_finite});
  tensor<std::int64_t> rank(queue_, {3});
  detail::rank_of_decomposed<float>(queue_, s.as<2>(), status.as<1>(), 2, 2, -1, 0, rank.as<1>(), {}).wait_and_throw();
  EXPECT_EQ(rank.to_host(), (std::vector<std::int64_t>{2, -1, -1}));
}

TEST_P(svd_test, waits_for_its_dependencies) {
  sycl::queue out_of_order(GetParam());
  const batch_of<float> a = random_batch<float>(40, 16, 16);
  const std::size_t bytes = a.numbers.size() * sizeof(float);
  const tensor<float> source(queue_, {40, 16, 16}, a.numbers);
  tensor<float> input(queue_, {40, 16, 16}), s(queue_, {40, 16}), large(queue_, {1 << 24});
  tensor<std::int32_t> status(queue_, {40});
  for (const svd_algorithm algorithm : algorithms()) {
    const svd_options options{svd_vectors::none, algorithm};
    const std::vector<float> expected = run(queue_, a, options).s;  // and the kernel is compiled
    tensor<std::byte> scratchpad(queue_, {svd_scratchpad_size<float>(queue_, 40, 16, 16, options)});
    input.copy_from(std::vector<float>(a.numbers.size(), 0.0f));
    sycl::event before;
    for (int i = 0; i < 8; ++i) before = out_of_order.fill(large.data(), float(i), 1 << 24, before);  // takes a while
    const sycl::event copied = out_of_order.memcpy(input.data(), source.data(), bytes, before);
    svd<float>(out_of_order, input.as<3>(), s.as<2>(), {}, {}, status.as<1>(), {}, scratchpad.span(), options, {copied})
        .wait_and_throw();
    out_of_order.wait();  // of a svd that did not wait
    EXPECT_EQ(s.to_host(), expected) << int(algorithm);
  }
}

TEST_P(svd_test, bad_arguments_are_named) {
  tensor<float> a(queue_, {2, 5, 4}), s(queue_, {2, 4}), u(queue_, {2, 5, 4}), vt(queue_, {2, 4, 4});
  tensor<std::int32_t> status(queue_, {2});
  tensor<std::byte> scratchpad(queue_, {svd_scratchpad_size<float>(queue_, 2, 5, 4)});
  const std::span<std::byte> scratch = scratchpad.span();
  const view<const float, 3> input = a.as<3>();
  const auto message = [&](view<const float, 3> in, view<float, 2> values, view<float, 3> left,
                           std::span<std::byte> memory, svd_options options) {
    return message_of<invalid_argument>(
        [&] { svd<float>(queue_, in, values, left, vt.as<3>(), status.as<1>(), {}, memory, options); });
  };
  EXPECT_EQ(message(input, vt.as<3>().data == nullptr ? s.as<2>() : view<float, 2>{s.data(), {2, 3}, {4, 1}}, u.as<3>(),
                    scratch, {}),
            "svd: s (2, 3) with strides (4, 1) should be (2, 4)");
  EXPECT_EQ(message(input, s.as<2>(), u.as<3>(), scratch, {svd_vectors::full}),
            "svd: u (2, 5, 4) with strides (20, 4, 1) should be (2, 5, 5)");
  EXPECT_EQ(message({nullptr, {2, 5, 4}, {20, 4, 1}}, s.as<2>(), u.as<3>(), scratch, {}),
            "svd: a (2, 5, 4) with strides (20, 4, 1) has a null pointer");
  EXPECT_EQ(message({a.data(), {2, 5, 0}, {20, 4, 1}}, s.as<2>(), u.as<3>(), scratch, {}),
            "svd: a (2, 5, 0) has a matrix without elements");
  EXPECT_EQ(message({a.data(), {-2, 5, 4}, {20, 4, 1}}, s.as<2>(), u.as<3>(), scratch, {}),
            "svd: a (-2, 5, 4) with strides (20, 4, 1) has a negative extent");
  EXPECT_EQ(message(input, s.as<2>(), {u.data(), {2, 5, 4}, {20, 3, 1}}, scratch, {}),
            "svd: u (2, 5, 4) with strides (20, 3, 1) has strides that overlap");
  if (scratch.size() > 16) {  // a GPU decomposes small matrices in local memory
    EXPECT_NE(message(input, s.as<2>(), u.as<3>(), scratch.first(16), {}).find("the scratchpad holds 16 bytes"),
              std::string::npos);
  }
  EXPECT_EQ(message(input, s.as<2>(), u.as<3>(), scratch, {.max_sweeps = -1}),
            "svd: max_sweeps is -1, it must not be negative");
  EXPECT_EQ(message_of<invalid_argument>([&] { svd(queue_, tensor<float>(queue_, {4})); }),
            "svd: a [4] is neither a matrix nor a batch of matrices");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              tensor<std::int64_t> rank(queue_, {2});
              numerical_rank<float>(queue_, s.as<2>(), 5, 3, -1, 0, rank.as<1>());
            }),
            "numerical_rank: s (2, 4) with strides (4, 1) does not hold the values of 5 x 3 matrices");
}

TEST_P(svd_test, an_empty_batch_is_nothing_to_do) {
  const svd_result<float> result = svd(queue_, tensor<float>(queue_, {0, 5, 4}));
  EXPECT_EQ(result.s.shape(), (std::vector<std::int64_t>{0, 4}));
}

TEST_P(svd_test, one_matrix_as_a_tensor_of_two_dimensions) {
  const batch_of<float> a = random_batch<float>(1, 7, 5);
  const svd_result<float> result = svd(queue_, tensor<float>(queue_, {7, 5}, a.numbers));
  check_matrix(a, 0, {result.s.to_host(), result.u.to_host(), result.vt.to_host(), result.status.to_host(), {}},
               svd_vectors::thin);
}

}  // namespace
}  // namespace nullscope::test
