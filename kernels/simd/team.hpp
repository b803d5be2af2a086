/// What the work-items of a group do together. A team handles a row or a tile: it is the `Items` work-items of a
/// work-group, with W lanes each. On a CPU a team is one work-item with a hardware vector of lanes, and all of this
/// compiles to nothing; on a GPU it is many work-items with one lane each.
#pragma once

#include <cstddef>
#include <sycl/sycl.hpp>

#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

template <int Items>
class team {
 public:
  static_assert(Items >= 1 && (Items & (Items - 1)) == 0, "the number of work-items is a power of two");

  /// Bytes of local memory that a kernel gives to its team: two sets of one number per work-item.
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
  /// Through local memory instead of shuffles: AdaptiveCpp 24.10 has none for its generic target, a sub-group may be
  /// one work-item, and this way the order of the sum does not depend on the size of a sub-group.
  template <class T, class Combine>
  T across_items(T mine, Combine combine) {
    // Two sets are used in turn, so that no barrier is needed at the end: before a set is written again, all work-items
    // have passed the barrier of the reduction in between, and so have finished reading it.
    T* set = reinterpret_cast<T*>(local_ + turn_ * local_bytes / 2);
    turn_ ^= 1;
    set[rank()] = mine;
    barrier();
    constexpr int columns = Items > 32 ? 16 : Items;  // read by all; more numbers are first combined column by column
    if constexpr (columns < Items) {
      if (rank() < columns) set[rank()] = combined<columns>(set + rank(), Items / columns, combine);
      barrier();
    }
    return combined<1>(set, columns, combine);
  }

  /// Combines `count` numbers that are `Stride` apart.
  template <int Stride, class T, class Combine>
  static T combined(const T* from, int count, Combine combine) {
    using number = pack<T, 1>;
    T result = from[0];
    for (int i = 1; i < count; ++i) result = combine(number(result), number(from[i * Stride])).lanes;
    return result;
  }

  const sycl::nd_item<1>& item_;
  std::byte* local_;
  int turn_ = 0;
};

}  // namespace nullscope::kernels
