/// What the tests of groups run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

#include "kernels/group/group.hpp"

namespace nullscope::test {

/// Neither commutative nor associative: a result tells in which order numbers were combined.
struct entangle {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return a - b;
  }
};

/// The first of two numbers that is not zero: associative, not commutative.
struct first_of_two {
  template <class T>
  constexpr T operator()(T a, T b) const {
    return a != T(0) ? a : b;
  }
};

/// Numbers that group_probe gives per work-item.
enum group_result {
  sum,
  largest,
  entangled,
  first,
  inclusive,
  exclusive,
  broadcast,
  reversed,
  by_xor,
  of_all,
  anywhere,
  count
};

/// results (work-items, count) of x (work-items), one group after the other.
template <class T, int Items, int Lanes, int SubGroup>
struct group_probe {
  static constexpr const char* source = __FILE__;
  static constexpr int sub_group_size = SubGroup;

  const T* x;
  T* results;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    kernels::group<Items, Lanes> members(item, local);
    const std::int64_t at = members.number() * Items + members.rank();
    const T mine = x[at];
    T* const to = results + at * group_result::count;
    to[group_result::sum] = members.sum(mine);
    to[group_result::largest] = members.largest(mine);
    to[group_result::entangled] = members.reduce(mine, entangle{});
    to[group_result::first] = members.reduce(members.rank() < Items / 2 ? T(0) : mine, first_of_two{});
    to[group_result::inclusive] = members.inclusive_scan(mine, entangle{});
    to[group_result::exclusive] = members.exclusive_scan(mine, T(7), first_of_two{});
    to[group_result::broadcast] = members.broadcast(mine, Items / 3);
    to[group_result::reversed] = members.shuffle(mine, Items - 1 - members.rank());
    to[group_result::by_xor] = members.shuffle_xor(mine, Items / 2);
    to[group_result::of_all] = members.reduce_all(mine, entangle{});
    to[group_result::anywhere] = members.anywhere(at == 1) ? T(1) : T(0);
  }
};

/// Of each work-item: the sum, the reduction and the scan of its group, which asks for the size of the sub-groups.
template <int Items, int SubGroup>
struct asking_probe {
  static constexpr const char* source = __FILE__;
  static constexpr int sub_group_size = SubGroup;

  const float* x;
  float* results;  // (work-items, 3)
  int* lanes;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    kernels::group<Items, kernels::asks_for_lanes> members(item, local);
    const std::int64_t at = members.number() * Items + members.rank();
    results[3 * at] = members.sum(x[at]);
    results[3 * at + 1] = members.reduce(x[at], entangle{});
    results[3 * at + 2] = members.inclusive_scan(x[at], entangle{});
    if (at == 0) *lanes = kernels::detail::lanes_of_sub_group(item);
  }
};

/// sums (rows) of x (rows, columns). Groups without a row write nothing.
template <class T, int Items>
struct row_sums {
  static constexpr const char* source = __FILE__;

  const T* x;
  T* sums;
  int* rank_sums;  // (rows): the sum of 1 + rank over the group
  std::int64_t rows, columns;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    kernels::group<Items> members(item, local, rows);
    T sum = 0;
    for (std::int64_t c = members.rank(); c < columns; c += Items) sum += x[members.number() * columns + c];
    const T total = members.sum(sum);
    members.barrier();
    const int ranks = members.sum(1 + members.rank());
    if (members.rank() != 0) return;
    sums[members.number()] = total;
    rank_sums[members.number()] = ranks;
  }
};

/// Each work-group reverses its part of x through local memory, where its work-items meet at the barrier of the group.
template <int Items>
struct reverse_by_group {
  static constexpr const char* source = __FILE__;

  const int* x;
  int* out;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const kernels::group<Items> members(item);
    int* const numbers = reinterpret_cast<int*>(local) + members.index() * members.size();
    const std::int64_t first = members.number() * members.size();
    numbers[members.rank()] = x[first + members.rank()];
    members.barrier();
    out[first + members.rank()] = numbers[members.size() - 1 - members.rank()];
  }
};

/// Sums and maxima over the packs of a group: out (Items, 3) holds what each work-item got from x (Items, W).
template <class T, int W, int Items>
struct pack_sums {
  static constexpr const char* source = __FILE__;

  const T* x;
  T* out;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    kernels::group<Items> members(item, local);
    const auto mine = kernels::load<W>(x + members.rank() * W);
    T* results = out + 3 * members.rank();
    results[0] = members.sum(mine);
    results[1] = members.largest(mine);
    results[2] = members.reduce(mine, [](auto a, auto b) { return max_or_nan(a, b); });
  }
};

}  // namespace nullscope::test
