/// What the work-items of a group do together. A row (or a tile) is handled by a team: the `Items` work-items of a
/// work-group with W lanes each. On a CPU a team is one work-item with a hardware vector of lanes, and all of this
/// compiles to nothing; on a GPU it is many work-items with one lane each.
#pragma once

#include <cstddef>
#include <sycl/sycl.hpp>

#include "pack.hpp"

namespace nullscope::kernels {

template <int Items>
class team {
 public:
  static_assert(Items >= 1 && (Items & (Items - 1)) == 0, "the number of work-items is a power of two");

  /// Bytes of local memory that a kernel gives to its team: two sets of one number a sub-group.
  static constexpr std::size_t local_bytes = Items == 1 ? 0 : 2 * Items * sizeof(double);

  team(const sycl::nd_item<1>& item, std::byte* local) : item_(item), local_(local) {}

  /// This work-item's place in the team, 0 to Items - 1.
  int rank() const {
    if constexpr (Items == 1) {
      return 0;
    } else {
      return static_cast<int>(item_.get_local_id(0));
    }
  }

  void barrier() const {
    if constexpr (Items > 1) sycl::group_barrier(item_.get_group());
  }

  /// Combines all lanes of all work-items with `combine(pack, pack)`, in the same order in every run. All work-items of
  /// the team call it, and all get the result.
  template <class T, int W, class Combine>
  T reduce(pack<T, W> x, Combine combine) {
    const T mine = kernels::reduce(x, combine);
    if constexpr (Items == 1) {
      return mine;
    } else {
      return across_items(mine, combine);
    }
  }

  template <class T, int W>
  T sum(pack<T, W> x) {
    return reduce(x, [](auto a, auto b) { return a + b; });
  }
  template <class T, int W>
  T largest(pack<T, W> x) {
    return reduce(x, [](auto a, auto b) { return max(a, b); });
  }

 private:
  template <class T, class Combine>
  T across_items(T mine, Combine combine) {
    using number = pack<T, 1>;
    const sycl::sub_group sub_group = item_.get_sub_group();
    const int size = static_cast<int>(sub_group.get_local_linear_range());
    for (int distance = size / 2; distance > 0; distance /= 2) {
      mine = combine(number(mine), number(sycl::permute_group_by_xor(sub_group, mine, distance))).lanes;
    }
    const int sub_groups = Items / size;
    if (sub_groups == 1) return mine;
    // The two sets take turns, so that one barrier a reduction is enough: who writes a set again has passed the barrier
    // of the reduction between, and so has everybody who read it.
    T* set = reinterpret_cast<T*>(local_) + turn_ * Items;
    turn_ ^= 1;
    if (sub_group.get_local_linear_id() == 0) set[sub_group.get_group_linear_id()] = mine;
    barrier();
    mine = set[0];
    for (int i = 1; i < sub_groups; ++i) mine = combine(number(mine), number(set[i])).lanes;
    return mine;
  }

  const sycl::nd_item<1>& item_;
  std::byte* local_;
  int turn_ = 0;
};

}  // namespace nullscope::kernels
