/// The work-items that decompose one matrix by Jacobi rotations, and what they sum up together.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <sycl/sycl.hpp>

#include "kernels/core/work_group.hpp"
#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// W > 1: a work-group is one work-item, and all of this compiles to nothing. W = 1: it consists of teams of 16
/// work-items, each with a pair of columns; a smaller group is one team. Larger groups are multiples of 16.
///
/// Sums go through local memory, so that their order does not depend on the size of sub-groups, and because AdaptiveCpp
/// (as of October 2024) has no reductions over groups for its generic target. All work-items must take part in each.
template <class T, int W>
class svd_group {
 public:
  static constexpr bool one_work_item = W > 1;
  static constexpr std::int64_t team_size = 16;
  static constexpr int most_sums = 3;  // at once
  using numbers = pack<T, W>;

  /// Numbers of local memory that a group of `items` work-items needs: two sets of sums that take turns.
  static constexpr std::int64_t local_numbers(std::int64_t items) { return one_work_item ? 0 : 2 * most_sums * items; }

  svd_group(const sycl::nd_item<1>& item, T* local) : item_(item), local_(local) {
    if constexpr (one_work_item) return;
    id_ = static_cast<std::int64_t>(item.get_local_id(0));
    items_ = static_cast<std::int64_t>(item.get_local_range(0));
    ranks_ = std::min(items_, team_size);
  }

  std::int64_t id() const { return one_work_item ? 0 : id_; }
  std::int64_t items() const { return one_work_item ? 1 : items_; }
  std::int64_t rank() const { return one_work_item ? 0 : id_ % ranks_; }
  std::int64_t ranks() const { return one_work_item ? 1 : ranks_; }
  std::int64_t team() const { return one_work_item ? 0 : id_ / ranks_; }
  std::int64_t teams() const { return one_work_item ? 1 : items_ / ranks_; }

  void barrier() const { kernels::barrier<one_work_item>(item_); }

  /// Calls body(k, is_there) for the k of [0, count) that belong to this team. Since the teams sum together, all make
  /// the same number of calls: a team that has no k left gets is_there = false.
  template <class Body>
  void for_teams(std::int64_t count, Body body) const {
    for (std::int64_t first = 0; first < count; first += teams()) {
      body(first + team(), one_work_item || first + team() < count);
    }
  }

  /// Calls body(offset) for the packs of a padded column that belong to this work-item of its team.
  template <class Body>
  void for_packs(std::int64_t length, Body body) const {
    for (std::int64_t i = rank() * W; i < length; i += ranks() * W) body(i);
  }

  /// The sum of all lanes of each of x over the team. (std::array: AdaptiveCpp 24.10 aligns arrays of three doubles,
  /// private to work-items, to 16 bytes, and puts them 24 bytes apart.)
  template <std::size_t Count>
  std::array<T, Count> sum_over_team(const std::array<numbers, Count>& x) {
    static_assert(Count <= most_sums);
    std::array<T, Count> total;
    if constexpr (one_work_item) {
      for (std::size_t i = 0; i < Count; ++i) total[i] = sum(x[i]);
    } else {
      T* const set = next_set();
      for (std::size_t i = 0; i < Count; ++i) set[static_cast<std::int64_t>(i) * items_ + id_] = x[i].lanes;
      barrier();
      for (std::size_t i = 0; i < Count; ++i) {
        const T* const of_team = set + static_cast<std::int64_t>(i) * items_ + team() * ranks_;
        total[i] = 0;
        for (std::int64_t r = 0; r < ranks_; ++r) total[i] += of_team[r];
      }
    }
    return total;
  }

  /// The x of all work-items of the group, combined.
  template <class Combine>
  T over_group(T x, [[maybe_unused]] Combine combine) {
    if constexpr (one_work_item) {
      return x;
    } else {
      T* const set = next_set();
      set[id_] = x;
      barrier();
      T result = set[0];
      for (std::int64_t i = 1; i < items_; ++i) result = combine(result, set[i]);
      return result;
    }
  }

 private:
  /// A set is written again only after the barrier of the other set's sums, when all work-items have read it.
  T* next_set() {
    turn_ ^= 1;
    return local_ + turn_ * most_sums * items_;
  }

  const sycl::nd_item<1>& item_;
  T* local_;
  std::int64_t id_ = 0, items_ = 1, ranks_ = 1;
  int turn_ = 0;
};

}  // namespace nullscope::kernels
