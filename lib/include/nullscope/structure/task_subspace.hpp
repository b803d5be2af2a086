/// The subspace R of a task: the directions of attention rows that some input's output depends on.
///
///   R = (intersection of ker T_i')^perp = sum of the ranges of all T_i,   T_i = v_i h (S x d), i over a data set
///
///   task_subspace<float> task(ctx, heads, S);
///   for (...) task.add(ctx, {v, h});                      // each input once, v (heads, S, d_v)
///   const task_subspace_basis<float> r = task.basis(ctx);  // r.basis (heads, S, S), r.s, r.dimension
///   project(ctx, {a, r.basis}, out, row_part::range);      // proj_R(A), of null_space.hpp
///
/// The T_i are not kept. The state of a head is a triangle F (S x S) with F^T F = sum of T_i T_i^T: new columns of T_i
/// are collected below it and folded in by one QR per block, which is backward stable. The singular values of F are
/// those of all T_i side by side, and its right singular vectors their left ones. Memory: O(heads S^2), whatever the
/// number of inputs. Two triangles merge by one more QR, in any order.
///
/// Generic inputs soon fill the space: after S / d_v of them dim R is S at the default tolerance. The spectrum, and R
/// at a larger tolerance, then say more.
#pragma once

#include <cstdint>
#include <memory>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/linalg/svd.hpp>
#include <nullscope/null_space/null_space.hpp>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

template <class T>
struct task_subspace_basis {
  tensor<T> basis;                      ///< (heads, S, S): columns [0, dimension) orthonormal, the others zero
  tensor<T> s;                          ///< (heads, S): singular values of all T_i side by side, descending
  std::vector<std::int64_t> dimension;  ///< (heads): dim R, the values above the tolerance
};

template <class T>
class task_subspace {
 public:
  /// `block` columns of T_i are collected between two QR; 0: 4 S.
  task_subspace(context& ctx, std::int64_t heads, std::int64_t tokens, std::int64_t block = 0);

  std::int64_t samples() const { return samples_; }  ///< inputs that have been added

  /// Adds one input: v (heads, s, d_v) with s <= S tokens (rows beyond s count as zero), h as for range_basis. Throws
  /// invalid_argument; nothing has been added then.
  sycl::event add(context& ctx, const head_values<T>& values, const events& dependencies = {});

  /// Adds what another one has collected. Throws invalid_argument if its shape differs.
  void merge(context& ctx, const task_subspace& other);

  /// The same for the triangles (heads, S, S) of another process, and the number of its inputs.
  void merge(context& ctx, view<const T, 3> factor, std::int64_t samples);

  /// F (heads, S, S) of all inputs so far, upper triangular. Waits.
  tensor<T> factor(context& ctx) const;

  /// R at a tolerance, by the SVD of F. The default for `relative` is S sqrt(samples) eps, which covers the rounding of
  /// all blocks. Waits. Throws computation_error with the heads that hold NaN or infinity.
  task_subspace_basis<T> basis(context& ctx, rank_tolerance tolerance = {}) const;

 private:
  sycl::event fold(context& ctx, const view<T, 3>& to, const events& dependencies) const;

  std::int64_t tokens_, block_, used_ = 0, samples_ = 0;
  tensor<T> stack_;  // (heads, S + block, S): the triangle, then `used_` rows that are not folded in yet
  std::shared_ptr<sycl::event> last_ = std::make_shared<sycl::event>();  // of the calls so far
};

template <class T>
struct subspace_distance_operands {
  view<const T, 3> a, b;   ///< (batch, rows, S)
  view<const T, 3> basis;  ///< (batch, S, k), orthonormal or zero columns
};

/// out (batch) = |proj_R(a) - proj_R(b)|_F. Throws invalid_argument and unsupported_device.
sycl::event subspace_distance(context& ctx, const subspace_distance_operands<float>& operands, view<float, 1> out,
                              const events& dependencies = {});
sycl::event subspace_distance(context& ctx, const subspace_distance_operands<double>& operands, view<double, 1> out,
                              const events& dependencies = {});

/// a ~ b, head by head: |proj_R(a) - proj_R(b)|_F <= max(relative max(|a|_F, |b|_F), absolute). The default for
/// `relative` is 10 S eps. Tensors (batch, rows, S) and (batch, S, k). Waits. NaN is equivalent to nothing.
template <class T>
std::vector<bool> equivalent_in(context& ctx, const tensor<T>& a, const tensor<T>& b, const tensor<T>& basis,
                                const rank_tolerance& tolerance = {});

/// For one input with T = v h: R intersected with ker(T'), the structures of the task that the meaning of this input
/// switches off.
template <class T>
struct switched_off_operands {
  view<const T, 3> basis;   ///< (heads, S, k): of R, orthonormal columns and then zeros
  view<const T, 3> v;       ///< (heads, s, d_v), s <= S: rows beyond s count as zero
  view<const T, 3> h = {};  ///< (heads, d_v, d); default: T = v
};
template <class T>
struct switched_off_results {
  view<T, 3> u;                     ///< (heads, S, k): columns [0, dimension) orthonormal, the others zero
  view<std::int64_t, 1> dimension;  ///< (heads); dim R - rank T if this input is part of the data set; -1: not known
  view<std::int32_t, 1> status;     ///< (heads): svd_status
};

/// `tolerance` is that of the rank of T within R, as for range_basis. Throws invalid_argument and unsupported_device.
sycl::event switched_off(context& ctx, const switched_off_operands<float>& operands,
                         const switched_off_results<float>& results, const rank_tolerance& tolerance = {},
                         const events& dependencies = {});
sycl::event switched_off(context& ctx, const switched_off_operands<double>& operands,
                         const switched_off_results<double>& results, const rank_tolerance& tolerance = {},
                         const events& dependencies = {});

}  // namespace nullscope
