/// Adds the vector of ones to an orthonormal basis, one work-group per matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/group/group.hpp"

namespace nullscope::kernels {

/// basis (B,S,k), orthonormal columns [0, rank) and zero after them: o = 1 - U U^T 1, orthogonalised twice. If |o| is
/// above tolerance * |1|, column `rank` becomes o / |o| and rank_with_ones = rank + 1. Otherwise, and whenever rank =
/// S, 1 is in the span: the basis stays as it is and rank_with_ones = rank. rank_with_ones = -1 if the rank is negative
/// (not known) or above S or k, or if the basis has no column left.
template <class T, int Items>
struct append_ones {
  static constexpr const char* source = __FILE__;

  view<T, 3> basis;
  view<const std::int64_t, 1> rank;
  view<std::int64_t, 1> rank_with_ones;
  T* rest;          // (B,S): o
  T* coefficients;  // (B,S): U^T o, `rank` numbers; too many for local memory
  T tolerance;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    const std::int64_t matrix = members.number(), tokens = basis.extent[1], id = members.rank();
    const std::int64_t used = rank(matrix);
    if (used < 0 || used > tokens || used > basis.extent[2]) {
      if (id == 0) rank_with_ones(matrix) = -1;
      return;  // all work-items do
    }
    T* coefficient = coefficients + matrix * tokens;
    T* o = rest + matrix * tokens;
    for (std::int64_t i = id; i < tokens; i += Items) o[i] = 1;
    members.barrier();
    T norm = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t j = id; j < used; j += Items) {  // U^T o
        T sum = 0;
        for (std::int64_t i = 0; i < tokens; ++i) sum += basis(matrix, i, j) * o[i];
        coefficient[j] = sum;
      }
      members.barrier();
      T squares = 0;
      for (std::int64_t i = id; i < tokens; i += Items) {  // o - U (U^T o)
        T sum = 0;
        for (std::int64_t j = 0; j < used; ++j) sum += basis(matrix, i, j) * coefficient[j];
        o[i] -= sum;
        squares += o[i] * o[i];
      }
      norm = sycl::sqrt(members.sum(squares));
      members.barrier();  // all have written o
    }
    const bool is_inside = used == tokens || norm <= tolerance * sycl::sqrt(static_cast<T>(tokens));  // NaN is not
    const bool has_room = used < basis.extent[2];
    if (id == 0) rank_with_ones(matrix) = is_inside ? used : has_room ? used + 1 : -1;
    if (is_inside || !has_room) return;
    for (std::int64_t i = id; i < tokens; i += Items) basis(matrix, i, used) = o[i] / norm;
  }
};

}  // namespace nullscope::kernels
