/// task_subspace: R against an SVD of all T side by side in double, merging, projection, equivalence, intersections.
#include <nullscope/linalg/svd.hpp>
#include <nullscope/structure/task_subspace.hpp>

#include "tests/null_space/null_space_support.hpp"

namespace nullscope::test {
namespace {

class task_subspace_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, task_subspace_test, testing::ValuesIn(devices()), device_name);

/// Inputs of a task, head by head.
template <class T>
struct data_set {
  heads shape;
  std::vector<std::vector<T>> v;  // (heads, S, d_v) of each input
  std::vector<T> h;               // (heads, d_v, d)

  data_set(const heads& s, std::int64_t inputs, std::int64_t rank) : shape(s) {
    for (std::int64_t i = 0; i < inputs; ++i) {
      factored<T> f = make_heads<T>(s, std::vector<std::int64_t>(static_cast<std::size_t>(s.batch), rank),
                                    static_cast<std::uint64_t>(100 * i));
      if (i == 0) h = f.h;
      v.push_back(i % 3 == 2 ? v.back() : f.v);  // every third input is a duplicate
    }
  }

  tensor<T> values(context& ctx, std::size_t input) const {
    return tensor<T>(ctx, {shape.batch, shape.tokens, shape.value_width}, v[input]);
  }
  tensor<T> projection(context& ctx) const {
    return tensor<T>(ctx, {shape.batch, shape.value_width, shape.model_width}, h);
  }

  /// T of one input and head, (S, d), in double.
  matrix t(std::size_t input, std::int64_t head) const {
    return product(v[input].data() + head * shape.tokens * shape.value_width,
                   h.data() + head * shape.value_width * shape.model_width, shape.tokens, shape.value_width,
                   shape.model_width);
  }

  /// All T of a head side by side, (S, inputs d).
  matrix stacked(std::int64_t head) const {
    const std::int64_t inputs = std::ssize(v), d = shape.model_width;
    matrix all(static_cast<std::size_t>(shape.tokens * inputs * d));
    for (std::int64_t i = 0; i < inputs; ++i) {
      const matrix one = t(static_cast<std::size_t>(i), head);
      for (std::int64_t r = 0; r < shape.tokens; ++r) {
        std::copy_n(one.begin() + r * d, d, all.begin() + (r * inputs + i) * d);
      }
    }
    return all;
  }
};

/// U U^T of the first `rank` of `columns` columns.
template <class U>
matrix projector(const U* u, std::int64_t tokens, std::int64_t columns, std::int64_t rank) {
  matrix p(static_cast<std::size_t>(tokens * tokens), 0.0);
  for (std::int64_t i = 0; i < tokens; ++i) {
    for (std::int64_t j = 0; j < tokens; ++j) {
      for (std::int64_t c = 0; c < rank; ++c) {
        p[static_cast<std::size_t>(i * tokens + j)] +=
            static_cast<double>(u[i * columns + c]) * static_cast<double>(u[j * columns + c]);
      }
    }
  }
  return p;
}

double difference(matrix a, const matrix& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return norm(a);
}

/// Compares with the SVD of all T side by side, in double. The space is as certain as its gap: sigma_last / sigma_0.
template <class T>
void expect_same_space(context& ctx, const data_set<T>& data, const task_subspace_basis<T>& found) {
  const auto& [batch, tokens, value_width, width] = data.shape;
  const std::vector<T> basis = found.basis.to_host(), s = found.s.to_host();
  for (std::int64_t head = 0; head < batch; ++head) {
    const matrix all = data.stacked(head);
    const std::int64_t columns = std::ssize(all) / tokens, k = std::min(tokens, columns);
    const svd_tensors<double> expected = svd(ctx, tensor<double>(ctx, {tokens, columns}, all));
    const std::vector<double> values = expected.s.to_host(), u = expected.u.to_host();
    const std::int64_t rank =
        std::count_if(values.begin(), values.end(), [&](double x) { return x > 1e-5 * values[0]; });
    ASSERT_EQ(found.dimension[static_cast<std::size_t>(head)], rank);
    matrix padded(static_cast<std::size_t>(tokens), 0.0);
    std::copy(values.begin(), values.end(), padded.begin());
    const std::vector<T> of_head(s.begin() + head * tokens, s.begin() + (head + 1) * tokens);
    EXPECT_LT(scaled_residual(of_head, padded, static_cast<double>(tokens)), bound);
    const T* own = basis.data() + head * tokens * tokens;
    EXPECT_LT(orthogonality(own, tokens, tokens, rank), bound);
    if (rank == 0) continue;
    const double gap = values[static_cast<std::size_t>(rank - 1)] / values[0];
    EXPECT_LT(difference(projector(own, tokens, tokens, rank), projector(u.data(), tokens, k, rank)) * gap,
              bound * static_cast<double>(tokens) * eps<T>);
  }
}

template <class T>
void check_space(context& ctx, const data_set<T>& data, std::int64_t block, bool is_reduced) {
  task_subspace<T> task(ctx, data.shape.batch, data.shape.tokens, block);
  tensor<T> h = data.projection(ctx);
  if (is_reduced) {
    tensor<T> reduced(ctx, {data.shape.batch, data.shape.value_width, data.shape.value_width});
    reduce_projection(ctx, h, reduced).wait_and_throw();
    h = std::move(reduced);
  }
  for (std::size_t i = 0; i < data.v.size(); ++i) task.add(ctx, {data.values(ctx, i), h}).wait_and_throw();
  EXPECT_EQ(task.samples(), std::ssize(data.v));
  expect_same_space(ctx, data, task.basis(ctx));
}

TEST_P(task_subspace_test, is_the_range_of_all_t_side_by_side) {
  if (!has_fp64()) GTEST_SKIP() << "the reference is in double";
  check_space<float>(ctx_, {{3, 40, 5, 12}, 5, 5}, 0, false);  // 5 inputs of rank 5, two distinct duplicates
  check_space<float>(ctx_, {{3, 40, 5, 12}, 5, 3}, 7, true);   // rank-deficient inputs; blocks end inside an input
  check_space<float>(ctx_, {{2, 17, 6, 9}, 8, 6}, 4, false);   // the space is full
  check_space<float>(ctx_, {{1, 9, 6, 4}, 2, 6}, 0, false);    // d < d_v
  check_space<float>(ctx_, {{2, 13, 4, 4}, 2, 0}, 0, false);   // no rank at all
  check_space<float>(ctx_, {{1, 1, 1, 1}, 1, 1}, 1, false);
  check_space<double>(ctx_, {{2, 40, 5, 12}, 6, 4}, 11, true);
}

TEST_P(task_subspace_test, merges_parts_in_any_order) {
  if (!has_fp64()) GTEST_SKIP() << "the reference is in double";
  const data_set<float> data({2, 30, 4, 11}, 6, 3);
  const tensor<float> h = data.projection(ctx_);
  for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{0, 1, 2}, {2, 0, 1}, {1, 2, 0}}) {
    std::vector<task_subspace<float>> parts;
    for (std::size_t part = 0; part < 3; ++part) {
      parts.emplace_back(ctx_, 2, 30);
      for (std::size_t i = part; i < data.v.size(); i += 3)
        parts[part].add(ctx_, {data.values(ctx_, i), h}).wait_and_throw();
    }
    task_subspace<float> whole(ctx_, 2, 30);
    for (const std::size_t part : order) whole.merge(ctx_, parts[part]);
    EXPECT_EQ(whole.samples(), 6);
    expect_same_space(ctx_, data, whole.basis(ctx_));
  }
  task_subspace<float> other(ctx_, 2, 29);
  EXPECT_THROW(other.merge(ctx_, task_subspace<float>(ctx_, 2, 30)), invalid_argument);
  EXPECT_EQ(other.samples(), 0);
}

TEST_P(task_subspace_test, counts_tokens_that_are_not_there_as_zero) {
  const data_set<float> data({2, 12, 3, 5}, 2, 3);
  const tensor<float> h = data.projection(ctx_), first = data.values(ctx_, 0), second = data.values(ctx_, 1);
  const view<const float, 3> shorter = slice(second.as<3>(), 1, 0, 7);
  std::vector<float> zeros = data.v[1];
  for (std::size_t i = 0; i < zeros.size(); ++i) {
    if (i / 3 % 12 >= 7) zeros[i] = 0;
  }
  task_subspace<float> task(ctx_, 2, 12, 4), padded(ctx_, 2, 12, 4);
  task.add(ctx_, {first, h}).wait_and_throw();
  task.add(ctx_, {shorter, h}).wait_and_throw();
  padded.add(ctx_, {first, h}).wait_and_throw();
  padded.add(ctx_, {tensor<float>(ctx_, {2, 12, 3}, zeros), h}).wait_and_throw();
  EXPECT_EQ(task.basis(ctx_).s.to_host(), padded.basis(ctx_).s.to_host());
  EXPECT_THROW(task.add(ctx_, {tensor<float>(ctx_, {2, 13, 3}), h}), invalid_argument);
  EXPECT_THROW(task.add(ctx_, {tensor<float>(ctx_, {3, 12, 3}), h}), invalid_argument);
  EXPECT_THROW(task.add(ctx_, {tensor<float>(ctx_, {2, 12, 4}), h}), invalid_argument);
  EXPECT_EQ(task.samples(), 2);
}

TEST_P(task_subspace_test, takes_a_tolerance_and_names_heads_that_are_not_finite) {
  // T = diag(1, 1e-2, 1e-4) in three inputs of one column each
  task_subspace<float> task(ctx_, 1, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<float> column(3, 0.f);
    column[i] = std::pow(10.f, -2.f * static_cast<float>(i));
    task.add(ctx_, {tensor<float>(ctx_, {1, 3, 1}, column)}).wait_and_throw();
    EXPECT_EQ(task.basis(ctx_).dimension[0], static_cast<std::int64_t>(i) + 1);
  }
  EXPECT_EQ(task.basis(ctx_, {.relative = 1e-3}).dimension[0], 2);
  EXPECT_EQ(task.basis(ctx_, {.relative = 0, .absolute = 0.5}).dimension[0], 1);
  EXPECT_THROW(task.basis(ctx_, {.absolute = -1}), invalid_argument);

  task_subspace<float> broken(ctx_, 2, 2);
  broken.add(ctx_, {tensor<float>(ctx_, {2, 2, 1}, std::vector<float>{1, 2, 3, NAN})}).wait_and_throw();
  try {
    broken.basis(ctx_);
    ADD_FAILURE() << "NaN was accepted";
  } catch (const computation_error& failure) {
    EXPECT_EQ(failure.failed_batch_ids(), (std::vector<std::int64_t>{1}));
  }
  EXPECT_THROW(task_subspace<float>(ctx_, 0, 3), invalid_argument);
  EXPECT_THROW(task_subspace<float>(ctx_, 1, 3, -1), invalid_argument);
}

TEST_P(task_subspace_test, tells_which_attention_the_task_can_distinguish) {
  constexpr std::int64_t batch = 2, S = 20;
  const data_set<float> data({batch, S, 4, 9}, 3, 4);
  task_subspace<float> task(ctx_, batch, S);
  for (std::size_t i = 0; i < 3; ++i) task.add(ctx_, {data.values(ctx_, i), data.projection(ctx_)}).wait_and_throw();
  const task_subspace_basis<float> r = task.basis(ctx_);
  const tensor<float> a(ctx_, {batch, S, S}, random_numbers<float>(batch * S * S, 1));
  tensor<float> projected(ctx_, {batch, S, S}), distance(ctx_, {batch});
  project(ctx_, projection_operands<float>{a, r.basis}, projected, row_part::range).wait_and_throw();
  EXPECT_EQ(equivalent_in(ctx_, a, projected, r.basis), (std::vector<bool>{true, true}));
  // A change along R in the second head only, by one row of length 0.01
  std::vector<float> changed = a.to_host();
  const std::vector<float> basis = r.basis.to_host();
  for (std::int64_t j = 0; j < S; ++j) {
    changed[static_cast<std::size_t>((S + 3) * S + j)] += 0.01f * basis[static_cast<std::size_t>((S + j) * S)];
  }
  const tensor<float> other(ctx_, {batch, S, S}, changed);
  EXPECT_EQ(equivalent_in(ctx_, a, other, r.basis), (std::vector<bool>{true, false}));
  EXPECT_EQ(equivalent_in(ctx_, a, other, r.basis, {.relative = 0, .absolute = 0.1}), (std::vector<bool>{true, true}));
  subspace_distance(ctx_, subspace_distance_operands<float>{a, other, r.basis}, distance).wait_and_throw();
  EXPECT_EQ(distance.to_host()[0], 0);
  EXPECT_NEAR(distance.to_host()[1], 0.01, 1e-5);
}

TEST_P(task_subspace_test, finds_what_an_input_switches_off) {
  const data_set<float> data({2, 30, 4, 9}, 3, 3);
  const tensor<float> h = data.projection(ctx_);
  task_subspace<float> task(ctx_, 2, 30);
  for (std::size_t i = 0; i < 2; ++i) task.add(ctx_, {data.values(ctx_, i), h}).wait_and_throw();
  const task_subspace_basis<float> r = task.basis(ctx_);
  tensor<float> u(ctx_, {2, 30, 30});
  tensor<std::int64_t> dimension(ctx_, {2});
  tensor<std::int32_t> status(ctx_, {2});
  switched_off(ctx_, switched_off_operands<float>{r.basis, data.values(ctx_, 0), h},
               switched_off_results<float>{u, dimension, status})
      .wait_and_throw();
  const std::vector<float> found = u.to_host(), basis = r.basis.to_host();
  EXPECT_EQ(status.to_host(), (std::vector<std::int32_t>{0, 0}));
  for (std::int64_t head = 0; head < 2; ++head) {
    const std::int64_t rank = dimension.to_host()[static_cast<std::size_t>(head)];
    EXPECT_EQ(rank, r.dimension[static_cast<std::size_t>(head)] - 3);  // dim R - rank T
    const float *own = found.data() + head * 900, *space = basis.data() + head * 900;
    EXPECT_LT(orthogonality(own, 30, 30, rank), bound);
    EXPECT_LT(outside(matrix(own, own + 900), space, 30, 30, 30), bound);  // it is a part of R
    const matrix t = data.t(0, head);
    EXPECT_LT(norm(product(transpose(own, 30, 30).data(), t.data(), 30, 30, 9)) / norm(t), bound * 30 * eps<float>);
  }
}

}  // namespace
}  // namespace nullscope::test
