/// Matrix multiplication: c = alpha a b + beta c for each matrix of a batch.
///
///   a (batch, m, k), b (batch, k, n) -> c (batch, m, n)
///
///   gemm(ctx, {a, transposed(b)}, c, {.alpha = 0.5}, {ready});
///
/// Any strides: a transposed operand is `transposed(view)`, a part of a larger matrix is a `slice`, and c may be
/// transposed too. A batch extent of 1, or a batch stride of 0, of a or b means one matrix for the whole batch. c must
/// not overlap a or b.
///
/// beta = 0 overwrites c without reading it (NaN in c vanishes). alpha = 0 or k = 0 gives beta c without reading a and
/// b. Otherwise NaN and infinity spread as in the formula. Sums are computed in the type of c, in an order that depends
/// only on shapes, strides, device and layout. Cost: 2 batch m n k flops. Only bfloat16 factors may need workspace,
/// about as many bytes as a and b have.
///
/// Throws invalid_argument (null pointer, negative extent or stride, extents that do not agree, elements of c that
/// share an address) and unsupported_device (no 64-bit floating point).
#pragma once

#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>
#include <type_traits>

namespace nullscope {

/// Which implementation multiplies.
enum class gemm_path {
  automatic,  ///< the vendor's library where it is there and takes the strides, otherwise the kernels of this library;
              ///< those also on CPUs with AVX2 for batches and short sides, where they are faster
  vendor,     ///< oneMKL (CPUs and GPUs of Intel), cuBLAS 12 or newer (NVIDIA) or rocBLAS (AMD); throws
              ///< unsupported_device or invalid_argument where it cannot be used
  own,        ///< the kernels of this library
};

/// The factors: a (batch or 1, m, k), b (batch or 1, k, n).
template <class T>
struct gemm_operands {
  view<const T, 3> a, b;
};

struct gemm_options {
  double alpha = 1;
  double beta = 0;
  gemm_path path = gemm_path::automatic;
  bool tf32 = false;  ///< lets cuBLAS round float factors to 10 bits of mantissa for tensor cores
};

sycl::event gemm(context& ctx, const gemm_operands<float>& operands, view<float, 3> c, const gemm_options& options = {},
                 const events& dependencies = {});
sycl::event gemm(context& ctx, const gemm_operands<double>& operands, view<double, 3> c,
                 const gemm_options& options = {}, const events& dependencies = {});

/// Factors in bfloat16, sums and c in float, on the matrix engine if the device has one.
sycl::event gemm(context& ctx, const gemm_operands<bfloat16>& operands, view<float, 3> c,
                 const gemm_options& options = {}, const events& dependencies = {});

/// The type in which products of T are summed.
template <class T>
using product_of = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

/// alpha a b as a new tensor, complete on return: (m, k) (k, n) -> (m, n), or with a batch in front of both or of one
/// of them. T is float, double or bfloat16 (then the product is float). Throws invalid_argument also if a or b has
/// another number of dimensions, or if beta is not 0.
template <class T>
tensor<product_of<T>> matrix_product(context& ctx, const tensor<T>& a, const tensor<T>& b,
                                     const gemm_options& options = {});

}  // namespace nullscope
