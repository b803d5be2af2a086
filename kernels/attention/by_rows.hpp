/// Effective attention by rows: row i projected onto the range of the rows of U that it sees, for one row after the
/// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/attention/growing_triangle.hpp"
#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// u (heads, keys, c), with zeros from column `rank` on; p (heads, queries, c) comes as A U. With n = i + 1 + keys -
/// queries keys that query i sees, and G = sum of u_j u_j^T over them, row i of p becomes y_i = G^+ p_i: then <y_i,
/// u_j> are the weights of the projected row. One group per head:
///
/// - While the rows of U span less than all `rank` dimensions, `basis` (c, ld) holds an orthonormal basis of their
///   span, and everything is computed in its coordinates, where G = R^T R has full rank. A row belongs to the span if
///   what is left of it is not longer than `tolerance` times the longest row of U.
/// - When the span is complete, R moves to the coordinates of U, once.
///
/// R is updated by rotations, so that its error does not grow with the number of rows.
template <class T, int W, int Items>
struct attention_by_rows {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr std::int64_t row_step = 16;  // rows of matrices are a multiple, at least as long as a pack
  using number = pack<T, 1>;
  using numbers = pack<T, W>;
  using triangle = growing_triangle<T, W, Items>;

  view<T, 3> p;
  view<const T, 3> u;
  view<const std::int64_t, 1> rank;  // (heads)
  view<T, 3> row_sums;               // (heads, queries, 2): |a|^2 and the sum of a, of the projected row a
  view<T, 2> received;               // (heads, keys): sums of the columns; data is null: not asked for
  T* memory;                         // (heads, memory_of(c))
  T tolerance;

  static constexpr std::int64_t padded(std::int64_t columns) { return (columns + row_step - 1) / row_step * row_step; }
  /// Three matrices and five vectors.
  static constexpr std::int64_t memory_of(std::int64_t columns) { return (3 * columns + 5) * padded(columns); }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    const std::int64_t head = members.number(), columns = u.extent[2], ld = padded(columns), full = rank(head);
    if (full < 0) return fill(members, head, std::numeric_limits<T>::quiet_NaN());
    T* const mine = memory + head * memory_of(columns);
    for (std::int64_t i = members.rank() * W; i < memory_of(columns); i += Items * W) store(mine + i, numbers(T(0)));
    members.barrier();
    triangle in_span{mine, 0, ld}, in_u{mine + columns * ld, full, ld};
    T* const basis = mine + 2 * columns * ld;
    T* const x = basis + columns * ld;  // a row of U
    T* const along = x + ld;            // the same, in the coordinates of the basis
    T* const wanted = along + ld;       // a row of p, then that of the solution in some coordinates
    T* const y = wanted + ld;
    T* const total = y + ld;  // the sum of the rows of U so far
    const T least = tolerance * longest_row(members, head);
    const std::int64_t before = u.extent[1] - p.extent[1];  // keys that the first query sees besides its own
    for (std::int64_t i = 0; i < -before && i < p.extent[1]; ++i) put(members, head, i, nullptr, T(0), T(0));

    bool is_complete = full == 0;
    for (std::int64_t key = 0; key < u.extent[1]; ++key) {
      for (std::int64_t c = members.rank(); c < columns; c += Items) {
        x[c] = u(head, key, c);
        total[c] += x[c];
      }
      members.barrier();
      const std::int64_t query = key - before;
      if (is_complete) {
        in_u.append(members, x);
        if (query < 0) continue;
        for (std::int64_t c = members.rank(); c < columns; c += Items) wanted[c] = p(head, query, c);
        const T square = in_u.solve(members, wanted, y);
        put(members, head, query, y, square, dot(members, y, total, ld));
        continue;
      }
      split(members, basis, x, along, in_span.size, ld);
      const T rest = sycl::sqrt(dot(members, x, x, ld));
      if (rest > least) {
        for (std::int64_t c = members.rank(); c < columns; c += Items) basis[in_span.size * ld + c] = x[c] / rest;
        if (members.rank() == 0) along[in_span.size] = rest;
        ++in_span.size;
        members.barrier();
      }
      in_span.append(members, along);
      if (query >= 0) {
        for (std::int64_t c = members.rank(); c < columns; c += Items) x[c] = p(head, query, c);
        members.barrier();
        split(members, basis, x, wanted, in_span.size, ld);
        const T square = in_span.solve(members, wanted, y);
        combine(members, basis, y, x, in_span.size, ld);
        put(members, head, query, x, square, dot(members, x, total, ld));
      }
      is_complete = in_span.size == full;
      for (std::int64_t k = 0; is_complete && k < full; ++k) {  // R basis is a triangle again after rotations
        combine(members, basis, in_span.r + k * ld, x, full, ld);
        in_u.append(members, x);
      }
    }
    if (received.data != nullptr) receive(members, head, total, before, ld);
  }

 private:
  static T dot(group<Items>& members, const T* a, const T* b, std::int64_t ld) {
    numbers sum(T(0));
    for (std::int64_t c = members.rank() * W; c < ld; c += Items * W) sum = fma(load<W>(a + c), load<W>(b + c), sum);
    return members.sum(sum);
  }

  T longest_row(group<Items>& members, std::int64_t head) const {
    T longest(0);
    for (std::int64_t key = members.rank(); key < u.extent[1]; key += Items) {
      T square(0);
      for (std::int64_t c = 0; c < u.extent[2]; ++c) square += u(head, key, c) * u(head, key, c);
      longest = sycl::fmax(longest, square);
    }
    return sycl::sqrt(members.largest(number(longest)));
  }

  /// coordinates = basis x, and x loses its part in the span. Twice, so that what is left is orthogonal to rounding.
  static void split(group<Items>& members, const T* basis, T* x, T* coordinates, std::int64_t size, std::int64_t ld) {
    for (std::int64_t c = members.rank() * W; c < ld; c += Items * W) store(coordinates + c, numbers(T(0)));
    members.barrier();
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t k = 0; k < size; ++k) {
        const T* const vector = basis + k * ld;
        const T part = dot(members, vector, x, ld);
        for (std::int64_t c = members.rank() * W; c < ld; c += Items * W) {
          store(x + c, fma(numbers(-part), load<W>(vector + c), load<W>(x + c)));
        }
        if (members.rank() == 0) coordinates[k] += part;
        members.barrier();
      }
    }
  }

  /// x = coordinates basis.
  static void combine(group<Items>& members, const T* basis, const T* coordinates, T* x, std::int64_t size,
                      std::int64_t ld) {
    members.barrier();
    for (std::int64_t c = members.rank() * W; c < ld; c += Items * W) {
      numbers sum(T(0));
      for (std::int64_t k = 0; k < size; ++k) sum = fma(numbers(coordinates[k]), load<W>(basis + k * ld + c), sum);
      store(x + c, sum);
    }
    members.barrier();
  }

  /// Row `query` of p, and its sums; zeros if there is no y.
  void put(const group<Items>& members, std::int64_t head, std::int64_t query, const T* y, T square, T sum) const {
    for (std::int64_t c = members.rank(); c < p.extent[2]; c += Items) p(head, query, c) = y == nullptr ? T(0) : y[c];
    if (members.rank() == 0) {
      row_sums(head, query, 0) = square;
      row_sums(head, query, 1) = sum;
    }
    members.barrier();  // before y is overwritten
  }

  /// Column j is <u_j, sum of y_i over the queries that see j>: from the last one on.
  void receive(group<Items>& members, std::int64_t head, T* sum, std::int64_t before, std::int64_t ld) const {
    members.barrier();
    for (std::int64_t c = members.rank() * W; c < ld; c += Items * W) store(sum + c, numbers(T(0)));
    members.barrier();
    for (std::int64_t key = u.extent[1] - 1; key >= 0; --key) {
      const std::int64_t query = key - before;
      T mine(0);
      for (std::int64_t c = members.rank(); c < u.extent[2]; c += Items) {
        if (query >= 0) sum[c] += p(head, query, c);
        mine += sum[c] * u(head, key, c);
      }
      const T all = members.sum(number(mine));
      if (members.rank() == 0) received(head, key) = all;
    }
  }

  void fill(const group<Items>& members, std::int64_t head, T value) const {
    for (std::int64_t i = members.rank(); i < p.extent[1]; i += Items) {
      for (std::int64_t c = 0; c < p.extent[2]; ++c) p(head, i, c) = value;
      for (int which : {0, 1}) row_sums(head, i, which) = value;
    }
    if (received.data == nullptr) return;
    for (std::int64_t i = members.rank(); i < u.extent[1]; i += Items) received(head, i) = value;
  }
};

}  // namespace nullscope::kernels
