/// A pack of W lanes that one work-item computes with: a hardware vector on a CPU (W = 8 or 16), a plain number on a
/// GPU (W = 1), where the lanes are the work-items. See team.hpp for what the work-items of a group do together.
///
/// Written with the vector extension that GCC and Clang share, so that host compilers can read (and test) it too.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <nullscope/bfloat16.hpp>
#include <type_traits>

namespace nullscope::kernels {

namespace detail {

template <class T, int W>
struct lanes_of {
  typedef T type __attribute__((vector_size(W * sizeof(T))));
};
template <class T>
struct lanes_of<T, 1> {
  using type = T;
};

template <class T>
using integer_of = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;

}  // namespace detail

template <class T, int W>
struct pack {
  static_assert(W >= 1 && (W & (W - 1)) == 0, "the number of lanes is a power of two");
  using lanes_type = typename detail::lanes_of<T, W>::type;

  lanes_type lanes;

  pack() = default;
  pack(T value) { lanes = value - lanes_type{}; }  // the same in every lane; x - 0 keeps the sign of a zero
  static pack from(lanes_type lanes) {
    pack result;
    result.lanes = lanes;
    return result;
  }

  T operator[](int lane) const {
    if constexpr (W == 1) {
      return lanes;
    } else {
      return lanes[lane];
    }
  }
  void set(int lane, T value) {
    if constexpr (W == 1) {
      lanes = value;
    } else {
      lanes[lane] = value;
    }
  }

  friend pack operator+(pack a, pack b) { return from(a.lanes + b.lanes); }
  friend pack operator-(pack a, pack b) { return from(a.lanes - b.lanes); }
  friend pack operator*(pack a, pack b) { return from(a.lanes * b.lanes); }
  friend pack operator/(pack a, pack b) { return from(a.lanes / b.lanes); }
  friend pack operator-(pack a) { return from(-a.lanes); }
  pack& operator+=(pack b) { return *this = *this + b; }
  pack& operator-=(pack b) { return *this = *this - b; }
  pack& operator*=(pack b) { return *this = *this * b; }

  /// a b + c, in one instruction where the device has it.
  friend pack fma(pack a, pack b, pack c) { return from(a.lanes * b.lanes + c.lanes); }
  /// The larger one; b where either is NaN.
  friend pack max(pack a, pack b) { return from(a.lanes > b.lanes ? a.lanes : b.lanes); }
  friend pack min(pack a, pack b) { return from(a.lanes < b.lanes ? a.lanes : b.lanes); }
  friend pack abs(pack a) { return max(a, -a); }
};

/// W consecutive numbers from any address.
template <int W, class T>
pack<T, W> load(const T* from) {
  pack<T, W> result;
  __builtin_memcpy(&result.lanes, from, sizeof(result.lanes));
  return result;
}

/// W consecutive bfloat16 as floats.
template <int W>
pack<float, W> load(const bfloat16* from) {
  if constexpr (W == 1) {
    return pack<float, 1>(static_cast<float>(*from));
  } else {
    typename detail::lanes_of<std::uint16_t, W>::type halves;
    __builtin_memcpy(&halves, from, sizeof(halves));
    using words_type = typename detail::lanes_of<std::uint32_t, W>::type;
    const words_type words = __builtin_convertvector(halves, words_type) << 16;
    return pack<float, W>::from(std::bit_cast<typename pack<float, W>::lanes_type>(words));
  }
}

/// The first `count` (0 to W) of W numbers; the other lanes get `fill`, and their memory is not touched.
template <int W, class T, class Fill>
auto load_tail(const T* from, std::int64_t count, Fill fill) {
  using number = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;
  pack<number, W> result(static_cast<number>(fill));
  for (int lane = 0; lane < W; ++lane) {
    if (lane < count) result.set(lane, static_cast<number>(from[lane]));
  }
  return result;
}

template <class T, int W>
void store(T* to, pack<T, W> x) {
  __builtin_memcpy(to, &x.lanes, sizeof(x.lanes));
}

/// Stores the first `count` (0 to W) lanes.
template <class T, int W>
void store_tail(T* to, pack<T, W> x, std::int64_t count) {
  for (int lane = 0; lane < W; ++lane) {
    if (lane < count) to[lane] = x[lane];
  }
}

/// Combines all lanes with `combine(pack, pack)`, always in the same order: halves onto halves.
template <class T, int W, class Combine>
T reduce(pack<T, W> x, Combine combine) {
  if constexpr (W == 1) {
    return x.lanes;
  } else {
    pack<T, W / 2> low = load<W / 2>(reinterpret_cast<const T*>(&x.lanes));
    pack<T, W / 2> high = load<W / 2>(reinterpret_cast<const T*>(&x.lanes) + W / 2);
    return reduce(combine(low, high), combine);
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

}  // namespace nullscope::kernels
