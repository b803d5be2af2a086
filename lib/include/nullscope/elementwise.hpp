/// Operations element by element on views of one to three dimensions with any strides: sums, products, activations,
/// copies, conversions, transposes.
///
/// Inputs may have stride 0 to repeat a row or a matrix: adding a bias is `axpby` with a y of stride (0, 1). Outputs
/// may be one of the inputs (the same view); any other overlap is undefined. T is float or double. Every function
/// returns at once with an event, and throws invalid_argument (shapes, strides, null pointers) or unsupported_device
/// (double without fp64) before anything is launched.
#pragma once

#include <cstdint>
#include <nullscope/bfloat16.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>
#include <type_traits>
#include <vector>

namespace nullscope {

/// out = alpha x.
template <class T, int Rank>
sycl::event scale(sycl::queue& queue, std::type_identity_t<T> alpha, std::type_identity_t<view<const T, Rank>> x,
                  view<T, Rank> out, const std::vector<sycl::event>& dependencies = {});

/// out = alpha x + beta y. Nothing is special about a factor 0: 0 times NaN is NaN.
template <class T, int Rank>
sycl::event axpby(sycl::queue& queue, std::type_identity_t<T> alpha, std::type_identity_t<view<const T, Rank>> x,
                  std::type_identity_t<T> beta, std::type_identity_t<view<const T, Rank>> y, view<T, Rank> out,
                  const std::vector<sycl::event>& dependencies = {});

/// out = x y, element by element.
template <class T, int Rank>
sycl::event multiply(sycl::queue& queue, std::type_identity_t<view<const T, Rank>> x,
                     std::type_identity_t<view<const T, Rank>> y, view<T, Rank> out,
                     const std::vector<sycl::event>& dependencies = {});

/// Functions of one number. NaN gives NaN; infinities give the limit.
enum class unary_function {
  exp,        ///< within 1.4 units in the last place; underflow is gradual
  relu,       ///< max(x, 0)
  gelu,       ///< x (1 + erf(x / sqrt(2))) / 2, within 8 eps of the result (f64: 16), in both tails too
  gelu_tanh,  ///< x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
};

/// out = function(x).
template <class T, int Rank>
sycl::event apply(sycl::queue& queue, unary_function function, std::type_identity_t<view<const T, Rank>> x,
                  view<T, Rank> out, const std::vector<sycl::event>& dependencies = {});

namespace detail {

template <class From, class To, int Rank>
sycl::event copy_elements(sycl::queue& queue, view<const From, Rank> x, view<To, Rank> out,
                          const std::vector<sycl::event>& dependencies);

}  // namespace detail

/// out = x, converted to the type of out, rounded to nearest. The types are float, double or bfloat16, but not double
/// with bfloat16. Fast where the last stride of both is 1, and where one of them is transposed; right for any strides.
template <class From, class To, int Rank>
sycl::event copy(sycl::queue& queue, view<From, Rank> x, view<To, Rank> out,
                 const std::vector<sycl::event>& dependencies = {}) {
  return detail::copy_elements<std::remove_const_t<From>, To, Rank>(queue, x, out, dependencies);
}

/// out (..., columns, rows) = the transpose of x (..., rows, columns), out of place.
template <class From, class To, int Rank>
sycl::event transpose(sycl::queue& queue, view<From, Rank> x, view<To, Rank> out,
                      const std::vector<sycl::event>& dependencies = {}) {
  return copy(queue, transposed(x), out, dependencies);
}

}  // namespace nullscope
