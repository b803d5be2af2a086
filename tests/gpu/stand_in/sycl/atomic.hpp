/// atomic_ref. Work-items take turns only at barriers, so that plain loads and stores are atomic here.
#pragma once

#include <algorithm>

#include "tests/gpu/stand_in/sycl/groups.hpp"

namespace sycl {
inline namespace _V1 {

namespace access {
enum class address_space { global_space, local_space, private_space, constant_space, generic_space };
}  // namespace access

inline void atomic_fence(memory_order, memory_scope) {}

template <class T, memory_order Order, memory_scope Scope,
          access::address_space Space = access::address_space::generic_space>
class atomic_ref {
 public:
  explicit atomic_ref(T& at) : at_(&at) {}

  NULLSCOPE_NOT_CHECKED T load(memory_order = Order, memory_scope = Scope) const {
    nullscope::races::note_atomic(at_, sizeof(T), false);
    return *at_;
  }
  NULLSCOPE_NOT_CHECKED void store(T value, memory_order = Order, memory_scope = Scope) const {
    nullscope::races::note_atomic(at_, sizeof(T), true);
    *at_ = value;
  }
  T exchange(T value, memory_order = Order, memory_scope = Scope) const {
    return update([&](T) { return value; });
  }
  T fetch_add(T value, memory_order = Order, memory_scope = Scope) const {
    return update([&](T old) { return static_cast<T>(old + value); });
  }
  T fetch_sub(T value, memory_order = Order, memory_scope = Scope) const {
    return update([&](T old) { return static_cast<T>(old - value); });
  }
  T fetch_max(T value, memory_order = Order, memory_scope = Scope) const {
    return update([&](T old) { return std::max(old, value); });
  }
  T fetch_min(T value, memory_order = Order, memory_scope = Scope) const {
    return update([&](T old) { return std::min(old, value); });
  }
  T fetch_or(T value, memory_order = Order, memory_scope = Scope) const {
    return update([&](T old) { return static_cast<T>(old | value); });
  }
  T fetch_and(T value, memory_order = Order, memory_scope = Scope) const {
    return update([&](T old) { return static_cast<T>(old & value); });
  }
  bool compare_exchange_strong(T& expected, T desired, memory_order = Order, memory_scope = Scope) const {
    const T old = update([&](T found) { return found == expected ? desired : found; });
    const bool is_expected = old == expected;
    expected = old;
    return is_expected;
  }

 private:
  template <class Change>
  NULLSCOPE_NOT_CHECKED T update(Change change) const {
    nullscope::races::note_atomic(at_, sizeof(T), true);
    const T old = *at_;
    *at_ = change(old);
    return old;
  }

  T* at_;
};

}  // namespace _V1
}  // namespace sycl
