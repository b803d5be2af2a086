/// A group: the work-items that share a row, a tile or a matrix, and what they do together. On a CPU it is one
/// work-item with a hardware vector of lanes, and all of this compiles to nothing; on a GPU it is many work-items with
/// one lane each. A work-group may hold several groups, each with a row of its own.
///
/// All work-items of the work-group take part in every collective and barrier: a branch around one must go the same way
/// for all of them (see `anywhere`).
///
/// Numbers are combined in the order of a binary tree over the ranks: neighbours first, then pairs of neighbours. Its
/// shape depends on Items alone, so that a sum has the same bits whatever the size of a sub-group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <sycl/sycl.hpp>
#include <type_traits>

#include "kernels/group/collectives.hpp"
#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// As `Items`: all work-items of the work-group, however many there are. Such a group has no collectives but barriers.
inline constexpr int whole_work_group = 0;

/// As `busy`: every group of a launch has work.
inline constexpr std::int64_t all_groups = std::numeric_limits<std::int64_t>::max();

/// Of `Items` work-items, a power of two, of which `Lanes` neighbours can shuffle.
template <int Items, int Lanes = default_lanes>
class group {
 public:
  static_assert(Items >= 0 && (Items & (Items - 1)) == 0, "the number of work-items is a power of two");

  /// Bytes of local memory that a kernel with collectives gives to each group: two sets of one number per work-item.
  static constexpr std::size_t local_bytes = Items <= 1 ? 0 : 2 * Items * sizeof(double);

  /// `local` has local_bytes for each group of the work-group. The groups of a launch that have work are the first
  /// `busy` ones. The others, which fill the last work-group, only take part in collectives: they get the number of the
  /// last busy one, from which they may read, and ranks beyond all elements, so that their loops have no turns.
  explicit group(const sycl::nd_item<1>& item, std::byte* local = nullptr, std::int64_t busy = all_groups)
      : item_(item), local_(local), number_(static_cast<std::int64_t>(item.get_group(0))) {
    if constexpr (Items == whole_work_group) rank_ = static_cast<int>(item.get_local_id(0));
    if constexpr (Items > 1) {
      const int id = static_cast<int>(item.get_local_id(0));
      index_ = id / Items;
      rank_ = place_ = id % Items;
      number_ = number_ * groups() + index_;
      if (number_ >= busy) {
        number_ = busy - 1;
        rank_ = beyond_all;
      }
      if (local_ != nullptr) local_ += static_cast<std::size_t>(index_) * local_bytes;
      if constexpr (Lanes == asks_for_lanes) lanes_ = detail::lanes_of_sub_group(item);
    }
  }

  /// This work-item's place in the group, 0 to size() - 1.
  int rank() const { return Items == 1 ? 0 : rank_; }

  int size() const {
    if constexpr (Items != whole_work_group) {
      return Items;
    } else {
      return static_cast<int>(item_.get_local_range(0));
    }
  }

  /// Which group of the work-group this is, and how many there are.
  int index() const { return index_; }
  int groups() const { return Items <= 1 ? 1 : static_cast<int>(item_.get_local_range(0)) / Items; }

  /// Which group of the launch this is.
  std::int64_t number() const { return number_; }

  /// What the work-items of the group have written is visible to all of them.
  ///
  /// In a loop there must be one that every turn passes, outside of branches and inner loops, if there are any in
  /// those: AdaptiveCpp 24.10 on a CPU otherwise takes what the loop computed in its last turn for this one.
  void barrier() const {
    if constexpr (Lanes > 1 && Items > 1 && Items <= Lanes) {
      sycl::group_barrier(item_.get_sub_group());
    } else if constexpr (Items != 1) {
      sycl::group_barrier(item_.get_group());
    }
  }

  /// Combines all lanes of all work-items with `combine(pack, pack)`, the lower rank on the left. All get the result.
  template <class T, int W, class Combine>
  T reduce(pack<T, W> x, Combine combine) {
    return across_items<false>(kernels::reduce(x, combine), of_numbers<T>(combine));
  }
  /// Combines one number per work-item with `combine(number, number)`.
  template <class T, class Combine>
  requires std::is_arithmetic_v<T> T reduce(T x, Combine combine) { return across_items<false>(x, combine); }

  template <class T, int W>
  T sum(pack<T, W> x) {
    return sum(kernels::reduce(x, plus));
  }
  template <class T>
  requires std::is_arithmetic_v<T> T sum(T x) { return across_items<true>(x, plus); }

  /// The largest number. Like max of packs it may ignore a NaN, or return it.
  template <class T, int W>
  T largest(pack<T, W> x) {
    return reduce(x, [](auto a, auto b) { return max(a, b); });
  }
  template <class T>
  requires std::is_arithmetic_v<T> T largest(T x) { return largest(pack<T, 1>(x)); }

  /// Combines one number per work-item of the whole work-group: those of each group, then those of all groups.
  template <class T, class Combine>
  T reduce_all(T x, Combine combine) {
    x = reduce(x, combine);
    if constexpr (Items > 1) {
      if (groups() == 1) return x;
      constexpr std::int64_t distance = local_bytes / sizeof(T);  // from one group's memory to the next one's
      const T* const first = put_if(place_ == 0, x, 0) - index_ * distance;
      x = first[0];
      for (int g = 1; g < groups(); ++g) x = combine(x, first[g * distance]);
    }
    return x;
  }

  /// Whether `mine` holds for any work-item of the work-group, in other groups too: for branches with collectives.
  bool anywhere(bool mine) {
    return reduce_all(static_cast<int>(mine), [](int a, int b) { return a | b; }) != 0;
  }

  /// The combination of the numbers of all ranks up to this one.
  template <class T, class Combine>
  T inclusive_scan(T x, Combine combine) {
    for (int block = 1; block < Items; block *= 2) {
      const int last_before = (place_ & ~(2 * block - 1)) + block - 1;
      const T before = taken_from(x, last_before, 2 * block);
      if ((place_ & block) != 0) x = combine(before, x);
    }
    return x;
  }

  /// The same without this rank's own number: `identity` for rank 0.
  template <class T, class Combine>
  T exclusive_scan(T x, T identity, Combine combine) {
    const T before = shuffle(inclusive_scan(x, combine), place_ == 0 ? 0 : place_ - 1);
    return place_ == 0 ? identity : before;
  }

  /// x of rank `from`, the same for all work-items.
  template <class T>
  T broadcast(T x, int from) {
    return taken_from(x, from, Items);
  }

  /// x of rank `from`, which each work-item chooses for itself.
  template <class T>
  T shuffle(T x, int from) {
    return taken_from(x, from, Items);
  }

  /// x of the rank that differs from this one in the bit `bit`.
  template <class T>
  T shuffle_xor(T x, int bit) {
    return taken_from(x, place_ ^ bit, 2 * bit);
  }

 private:
  static constexpr int beyond_all = 1 << 30;
  static constexpr auto plus = [](auto a, auto b) { return a + b; };

  /// A function of packs as one of numbers.
  template <class T, class Combine>
  static auto of_numbers(Combine combine) {
    return [combine](T a, T b) { return combine(pack<T, 1>(a), pack<T, 1>(b)).lanes; };
  }

  int lanes() const { return Lanes == asks_for_lanes ? lanes_ : Lanes; }

  template <bool Commutes, class T, class Combine>
  T across_items(T x, Combine combine) {
    static_assert(Items != whole_work_group, "a collective needs the number of work-items");
    if constexpr (Items > 1) {
      if (lanes() == 1) return through_local(x, combine);
      const int lanes_at_first = Items < lanes() ? Items : lanes();
      x = across_lanes<Commutes>(x, lanes_at_first, combine);
      // One number per sub-group is left, then one per `together` sub-groups, and so on; all sub-groups do the same.
      for (int left = Items / lanes_at_first; left > 1;) {
        const int block = place_ / lanes();
        const T* const set = put_if(place_ % lanes() == 0 && block < left, x, block);
        const int together = left < lanes() ? left : lanes();
        left /= together;
        x = across_lanes<Commutes>(set[block % left * together + place_ % together], together, combine);
      }
    }
    return x;
  }

  /// Over blocks of `count` work-items of a sub-group.
  template <bool Commutes, class T, class Combine>
  T across_lanes(T x, int count, Combine combine) const {
    for (int bit = 1; bit < count; bit *= 2) {
      const T other = detail::shuffled_by_xor(item_, x, bit);
      const bool is_lower = Commutes || (place_ & bit) == 0;
      x = combine(is_lower ? x : other, is_lower ? other : x);
    }
    return x;
  }

  /// The same without shuffles: each work-item combines the numbers of its block, then those of all blocks.
  template <class T, class Combine>
  T through_local(T x, Combine combine) {
    constexpr int block = Items <= 32 ? Items : 16, blocks = Items / block;
    x = tree<block>(put_if(true, x, place_) + place_ / block * block, combine);
    if constexpr (blocks > 1) x = tree<blocks>(put_if(place_ % block == 0, x, place_ / block), combine);
    return x;
  }

  /// Combines Count numbers, the first half with the second.
  template <int Count, class T, class Combine>
  static T tree(const T* from, Combine combine) {
    T x[Count];
    for (int i = 0; i < Count; ++i) x[i] = from[i];
    for (int left = Count / 2; left > 0; left /= 2) {
      for (int i = 0; i < left; ++i) x[i] = combine(x[2 * i], x[2 * i + 1]);
    }
    return x[0];
  }

  /// x of rank `from`, which lies in the same block of `block` ranks.
  template <class T>
  T taken_from(T x, [[maybe_unused]] int from, [[maybe_unused]] int block) {
    static_assert(Items != whole_work_group, "a collective needs the number of work-items");
    if constexpr (Items > 1) {
      if (lanes() > 1 && block <= lanes()) return detail::shuffled_from(item_, x, from - place_);
      return put_if(true, x, place_)[from];
    }
    return x;
  }

  /// Writes x to a set of local memory, which all may read when this returns. Two sets take turns, so that no barrier
  /// is needed after they have been read: before one is written again, all have passed the barrier of the other.
  template <class T>
  const T* put_if(bool writes, T x, int at) {
    static_assert(sizeof(T) <= sizeof(double));
    T* const set = reinterpret_cast<T*>(local_ + static_cast<std::size_t>(turn_) * (local_bytes / 2));
    turn_ ^= 1;
    if (writes) set[at] = x;
    sycl::group_barrier(item_.get_group());
    return set;
  }

  const sycl::nd_item<1>& item_;
  std::byte* local_;
  std::int64_t number_;
  int index_ = 0, rank_ = 0;
  int place_ = 0;  ///< the rank, in groups without work too
  int lanes_ = 1, turn_ = 0;
};

}  // namespace nullscope::kernels
