/// Work-items, work-groups and sub-groups of a launch of one dimension, and what they do together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "tests/gpu/checker/work_item.hpp"

/// For code that reads what the checker holds: no access of the kernel.
#define NULLSCOPE_NOT_CHECKED __attribute__((no_sanitize("thread"), noinline))

namespace sycl {
inline namespace _V1 {

enum class memory_order { relaxed, acquire, release, acq_rel, seq_cst };
enum class memory_scope { work_item, sub_group, work_group, device, system };

template <int Dimensions>
class id {
 public:
  id(std::size_t value) : value_(value) {}
  std::size_t operator[](int) const { return value_; }
  operator std::size_t() const { return value_; }

 private:
  std::size_t value_;
};

template <int Dimensions>
using range = id<Dimensions>;

using place = nullscope::races::item_place;

/// The work-items of a work-group.
template <int Dimensions = 1>
class group {
 public:
  static constexpr int dimensions = Dimensions;
  static constexpr memory_scope fence_scope = memory_scope::work_group;
  static constexpr auto checked_scope = nullscope::races::scope::work_group;

  explicit group(const place& at) : at_(at) {}
  id<1> get_group_id() const { return at_.group; }
  std::size_t get_group_id(int) const { return at_.group; }
  std::size_t get_group_linear_id() const { return at_.group; }
  std::size_t get_group_linear_range() const { return at_.groups; }
  range<1> get_group_range() const { return at_.groups; }
  std::size_t get_group_range(int) const { return at_.groups; }
  id<1> get_local_id() const { return at_.item; }
  std::size_t get_local_id(int) const { return at_.item; }
  std::size_t get_local_linear_id() const { return at_.item; }
  range<1> get_local_range() const { return at_.items; }
  std::size_t get_local_range(int) const { return at_.items; }
  std::size_t get_local_linear_range() const { return at_.items; }
  bool leader() const { return at_.item == 0; }

 private:
  place at_;
};

/// The work-items that compute in step. The last sub-group of a work-group may be smaller than the others.
class sub_group {
 public:
  static constexpr int dimensions = 1;
  static constexpr memory_scope fence_scope = memory_scope::sub_group;
  static constexpr auto checked_scope = nullscope::races::scope::sub_group;

  explicit sub_group(const place& at) : at_(at) {}
  id<1> get_group_id() const { return get_group_linear_id(); }
  std::uint32_t get_group_linear_id() const { return number(at_.item / at_.sub_group_size); }
  range<1> get_group_range() const { return get_group_linear_range(); }
  std::uint32_t get_group_linear_range() const {
    return number((at_.items + at_.sub_group_size - 1) / at_.sub_group_size);
  }
  id<1> get_local_id() const { return get_local_linear_id(); }
  std::uint32_t get_local_linear_id() const { return number(at_.item % at_.sub_group_size); }
  range<1> get_local_range() const { return get_local_linear_range(); }
  std::uint32_t get_local_linear_range() const {
    return number(std::min(at_.sub_group_size, at_.items - at_.item / at_.sub_group_size * at_.sub_group_size));
  }
  range<1> get_max_local_range() const { return at_.sub_group_size; }
  bool leader() const { return get_local_linear_id() == 0; }

 private:
  static std::uint32_t number(std::size_t value) { return static_cast<std::uint32_t>(value); }
  place at_;
};

template <int Dimensions = 1>
class nd_item {
 public:
  explicit nd_item(const place& at) : at_(at) {}
  std::size_t get_global_id(int) const { return get_global_linear_id(); }
  std::size_t get_global_linear_id() const { return at_.group * at_.items + at_.item; }
  std::size_t get_global_range(int) const { return at_.groups * at_.items; }
  std::size_t get_local_id(int) const { return at_.item; }
  std::size_t get_local_linear_id() const { return at_.item; }
  std::size_t get_local_range(int) const { return at_.items; }
  std::size_t get_group(int) const { return at_.group; }
  std::size_t get_group_linear_id() const { return at_.group; }
  std::size_t get_group_range(int) const { return at_.groups; }
  _V1::group<1> get_group() const { return _V1::group<1>(at_); }
  _V1::sub_group get_sub_group() const { return _V1::sub_group(at_); }

 private:
  place at_;
};

template <class Group>
void group_barrier(const Group&, memory_scope = Group::fence_scope) {
  nullscope::races::meet(Group::checked_scope);
}

template <class T = void>
using plus = std::plus<T>;
template <class T = void>
using multiplies = std::multiplies<T>;

template <class T = void>
struct maximum {
  template <class Number>
  Number operator()(const Number& a, const Number& b) const {
    return std::max(a, b);
  }
};

template <class T = void>
struct minimum {
  template <class Number>
  Number operator()(const Number& a, const Number& b) const {
    return std::min(a, b);
  }
};

namespace detail {

/// What the work-items of a group gave.
template <class T>
class given {
 public:
  template <class Group>
  NULLSCOPE_NOT_CHECKED given(const Group&, const char* what, const T& mine)
      : slots_(nullscope::races::exchange(Group::checked_scope, what, &mine, sizeof(T))) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= nullscope::races::slot_bytes);
  }

  NULLSCOPE_NOT_CHECKED T of(std::size_t rank) const {
    T result;
    std::memcpy(&result, slots_ + rank * nullscope::races::slot_bytes, sizeof(T));
    return result;
  }

  /// Of work-items [0, end), which are one at least.
  template <class Combine>
  T combined(std::size_t end, Combine combine) const {
    T result = of(0);
    for (std::size_t i = 1; i < end; ++i) result = combine(result, of(i));
    return result;
  }

 private:
  const std::byte* slots_;
};

/// What a work-item gets from one that is not there: bytes that are a NaN, and no number that makes sense.
template <class T>
T undefined() {
  T result;
  std::memset(static_cast<void*>(&result), 0xff, sizeof(T));
  return result;
}

}  // namespace detail

template <class Group, class T, class Combine>
T reduce_over_group(const Group& of, T x, Combine combine) {
  return detail::given<T>(of, "reduce_over_group", x).combined(of.get_local_linear_range(), combine);
}

template <class Group, class T, class Combine>
T inclusive_scan_over_group(const Group& of, T x, Combine combine) {
  return detail::given<T>(of, "inclusive_scan_over_group", x).combined(of.get_local_linear_id() + 1, combine);
}

template <class Group, class T, class Combine>
T exclusive_scan_over_group(const Group& of, T x, T first, Combine combine) {
  const detail::given<T> all(of, "exclusive_scan_over_group", x);
  const std::size_t rank = of.get_local_linear_id();
  return rank == 0 ? first : combine(first, all.combined(rank, combine));
}

template <class Group, class T>
T exclusive_scan_over_group(const Group& of, T x, plus<> combine) {
  return exclusive_scan_over_group(of, x, T{}, combine);
}

template <class Group, class T>
T group_broadcast(const Group& of, T x, std::size_t from = 0) {
  return detail::given<T>(of, "group_broadcast", x).of(from);
}

template <class Group, class T>
T select_from_group(const Group& of, T x, id<1> from) {
  const detail::given<T> all(of, "select_from_group", x);
  return from < of.get_local_linear_range() ? all.of(from) : detail::undefined<T>();
}

template <class Group, class T>
T shift_group_left(const Group& of, T x, std::size_t by = 1) {
  const detail::given<T> all(of, "shift_group_left", x);
  const std::size_t from = of.get_local_linear_id() + by;
  return from < of.get_local_linear_range() ? all.of(from) : detail::undefined<T>();
}

template <class Group, class T>
T shift_group_right(const Group& of, T x, std::size_t by = 1) {
  const detail::given<T> all(of, "shift_group_right", x);
  const std::size_t rank = of.get_local_linear_id();
  return rank >= by ? all.of(rank - by) : detail::undefined<T>();
}

template <class Group, class T>
T permute_group_by_xor(const Group& of, T x, id<1> mask) {
  const detail::given<T> all(of, "permute_group_by_xor", x);
  const std::size_t from = of.get_local_linear_id() ^ static_cast<std::size_t>(mask);
  return from < of.get_local_linear_range() ? all.of(from) : detail::undefined<T>();
}

template <class Group>
bool any_of_group(const Group& of, bool x) {
  return detail::given<bool>(of, "any_of_group", x).combined(of.get_local_linear_range(), std::logical_or<>());
}

template <class Group>
bool all_of_group(const Group& of, bool x) {
  return detail::given<bool>(of, "all_of_group", x).combined(of.get_local_linear_range(), std::logical_and<>());
}

template <class Group>
bool none_of_group(const Group& of, bool x) {
  return !any_of_group(of, x);
}

}  // namespace _V1
}  // namespace sycl
