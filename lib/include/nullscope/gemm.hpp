/// Matrix multiplication: c = alpha a b + beta c for each matrix of a batch.
///
///   a (batch, m, k), b (batch, k, n), c (batch, m, n)
///
/// Any strides: a transposed operand is `transposed(view)`, a part of a larger matrix a `slice`, and c may be
/// transposed too. A batch extent of 1, or a batch stride of 0, of a or b is one matrix for the whole batch. c must not
/// overlap a or b.
///
/// beta = 0 overwrites c without reading it (NaN in c vanishes); alpha = 0 or k = 0 gives beta c without reading a and
/// b. Otherwise NaN and infinity spread as in the formula. Sums are taken in the type of c, in an order that depends on
/// shapes, strides and device alone: the same input gives the same bits. Cost 2 batch m n k operations; only
/// bfloat16 factors may need a scratchpad.
///
/// Throws, before anything is launched: invalid_argument (null pointer, negative extent or stride, extents that do not
/// agree, elements of c that share an address), unsupported_device (no 64-bit floating point).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/bfloat16.hpp>
#include <nullscope/tensor.hpp>
#include <nullscope/view.hpp>
#include <span>
#include <sycl/sycl.hpp>
#include <type_traits>
#include <vector>

namespace nullscope {

/// Who multiplies.
enum class gemm_path {
  automatic,  ///< oneMKL where it serves the device and can express the strides, otherwise the kernels of this library;
              ///< those too on CPUs with AVX2 for batches and short sides, where they were measured to be faster
  onemkl,     ///< oneMKL; throws unsupported_device or invalid_argument where it cannot
  own,        ///< the kernels of this library
};

struct gemm_options {
  gemm_path path = gemm_path::automatic;
};

sycl::event gemm(sycl::queue& queue, float alpha, view<const float, 3> a, view<const float, 3> b, float beta,
                 view<float, 3> c, const gemm_options& options = {}, const std::vector<sycl::event>& dependencies = {});

sycl::event gemm(sycl::queue& queue, double alpha, view<const double, 3> a, view<const double, 3> b, double beta,
                 view<double, 3> c, const gemm_options& options = {},
                 const std::vector<sycl::event>& dependencies = {});

/// Factors in bfloat16, sums and c in float, on the device's matrix engine if it has one. `scratchpad` is
/// gemm_scratchpad_size bytes of USM memory, which the call may overwrite until its event is complete.
sycl::event gemm(sycl::queue& queue, float alpha, view<const bfloat16, 3> a, view<const bfloat16, 3> b, float beta,
                 view<float, 3> c, std::span<std::byte> scratchpad, const gemm_options& options = {},
                 const std::vector<sycl::event>& dependencies = {});

/// Bytes of scratchpad for these operands: 0 where oneMKL multiplies or no matrix engine is there, otherwise about as
/// many as a and b have. Throws as gemm does. Only extents and strides matter, so the pointers may be null.
std::int64_t gemm_scratchpad_size(const sycl::queue& queue, const view<const bfloat16, 3>& a,
                                  const view<const bfloat16, 3>& b, const view<float, 3>& c,
                                  const gemm_options& options = {});

/// What a product of T is summed in.
template <class T>
using product_of = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

/// a b as a new tensor, complete on return: (m, k) (k, n) -> (m, n), or with a batch in front of both or of one of
/// them. T is float, double or bfloat16 (the product is float then). Throws invalid_argument on other ranks.
template <class T>
tensor<product_of<T>> matrix_product(sycl::queue& queue, const tensor<T>& a, const tensor<T>& b,
                                     const gemm_options& options = {});

}  // namespace nullscope
