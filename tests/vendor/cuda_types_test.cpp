/// The declarations in lib/src/vendor against CUDA's own headers, and its libraries' symbols. Built where these are.
#include <cublas_v2.h>
#include <cusolverDn.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "lib/src/vendor/cusolver.hpp"

namespace nullscope::test {
namespace {

/// Whether a function of one declaration can be called by the other: each argument is passed in the same way.
template <class Ours, class Theirs>
constexpr bool are_passed_alike() {
  const auto is_integer = [](auto tag) {
    using type = typename decltype(tag)::type;
    return std::is_integral_v<type> || std::is_enum_v<type>;
  };
  return sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
         is_integer(std::type_identity<Ours>{}) == is_integer(std::type_identity<Theirs>{});
}

template <class Ours, class Theirs>
struct is_same_call : std::false_type {};

template <class OurResult, class... Ours, class TheirResult, class... Theirs>
requires(sizeof...(Ours) == sizeof...(Theirs)) struct is_same_call<OurResult (*)(Ours...), TheirResult (*)(Theirs...)>
    : std::bool_constant<are_passed_alike<OurResult, TheirResult>() && (are_passed_alike<Ours, Theirs>() && ...)> {
};

namespace blas = detail::cublas;

static_assert(is_same_call<decltype(blas::functions::create), decltype(&cublasCreate_v2)>::value);
static_assert(is_same_call<decltype(blas::functions::set_stream), decltype(&cublasSetStream_v2)>::value);
static_assert(is_same_call<decltype(blas::functions::set_workspace), decltype(&cublasSetWorkspace_v2)>::value);
static_assert(is_same_call<decltype(blas::functions::gemm), decltype(&cublasGemmStridedBatchedEx_64)>::value);
static_assert(!is_same_call<int (*)(void*, int), int (*)(void*, long)>::value, "the comparison sees a wrong size");

static_assert(int{CUBLAS_STATUS_SUCCESS} == 0);
static_assert(int{blas::as_it_is} == int{CUBLAS_OP_N} && int{blas::transpose} == int{CUBLAS_OP_T});
static_assert(int{blas::f32} == int{CUDA_R_32F} && int{blas::f64} == int{CUDA_R_64F});
static_assert(int{blas::bf16} == int{CUDA_R_16BF});
static_assert(int{blas::in_f32} == int{CUBLAS_COMPUTE_32F} && int{blas::in_f64} == int{CUBLAS_COMPUTE_64F});
static_assert(int{blas::in_tf32} == int{CUBLAS_COMPUTE_32F_FAST_TF32});
static_assert(int{blas::automatic} == int{CUBLAS_GEMM_DEFAULT});

namespace solver = detail::cusolver;

static_assert(is_same_call<decltype(solver::functions::create), decltype(&cusolverDnCreate)>::value);
static_assert(is_same_call<decltype(solver::functions::set_stream), decltype(&cusolverDnSetStream)>::value);
static_assert(is_same_call<decltype(solver::functions::create_parameters), decltype(&cusolverDnCreateParams)>::value);
static_assert(is_same_call<decltype(solver::functions::destroy_parameters), decltype(&cusolverDnDestroyParams)>::value);
static_assert(is_same_call<decltype(solver::functions::svd_sizes), decltype(&cusolverDnXgesvd_bufferSize)>::value);
static_assert(is_same_call<decltype(solver::functions::svd), decltype(&cusolverDnXgesvd)>::value);
static_assert(int{CUSOLVER_STATUS_SUCCESS} == 0);

TEST(cuda_types, the_functions_are_in_the_library) {
  if (blas::library() == nullptr) GTEST_SKIP() << "the dynamic linker finds no cuBLAS";
  EXPECT_NE(blas::library()->gemm, nullptr);
  EXPECT_NE(solver::library(), nullptr);
}

}  // namespace
}  // namespace nullscope::test
