/// A pack: the W lanes that one work-item computes with. On a CPU it is a hardware vector (W = 4, 8 or 16), on a GPU a
/// plain number (W = 1), because there the work-items are the lanes. See kernels/group/group.hpp for what work-items do
/// together.
///
/// Written with the vector extension that GCC and Clang share, so that host compilers can read and test it too.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <nullscope/core/bfloat16.hpp>
#include <type_traits>
#include <utility>

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
template <class T, int W>
using lanes_t = typename lanes_of<T, W>::type;

/// The signed integer of the same size.
template <class T>
using integer_of = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;

}  // namespace detail

/// The type in which a kernel computes with elements of type T: bfloat16 is for storage only.
template <class T>
using number_of = std::conditional_t<std::is_same_v<std::remove_const_t<T>, bfloat16>, float, std::remove_const_t<T>>;

template <class T, int W>
struct pack {
  static_assert(W >= 1 && (W & (W - 1)) == 0, "the number of lanes is a power of two");
  using lanes_type = detail::lanes_t<T, W>;

  lanes_type lanes;

  pack() = default;
  pack(T value) { lanes = value - lanes_type{}; }  // the same number in every lane; x - 0 keeps the sign of a zero
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
  /// a in the lanes where x < y, b in the others, including those where x or y is NaN.
  friend pack where_less(pack x, pack y, pack a, pack b) { return from(x.lanes < y.lanes ? a.lanes : b.lanes); }
  /// The larger one; b where either is NaN. So max(x, m) ignores a NaN in x, and max(m, x) propagates it.
  friend pack max(pack a, pack b) { return where_less(b, a, a, b); }
  friend pack min(pack a, pack b) { return where_less(a, b, a, b); }
  /// The larger one; NaN where either is NaN.
  friend pack max_or_nan(pack a, pack b) { return from(a.lanes != a.lanes ? a.lanes : max(a, b).lanes); }
  friend pack abs(pack a) {
    using integer = detail::integer_of<T>;
    const auto bits = std::bit_cast<detail::lanes_t<integer, W>>(a.lanes) & std::numeric_limits<integer>::max();
    return from(std::bit_cast<lanes_type>(bits));
  }
};

/// a b + c, rounded once. (In fma above, if c is a product too, the compiler may round either product.)
template <class T, int W>
pack<T, W> fma_once(pack<T, W> a, pack<T, W> b, pack<T, W> c) {
#if __has_builtin(__builtin_elementwise_fma)
  return pack<T, W>::from(__builtin_elementwise_fma(a.lanes, b.lanes, c.lanes));
#else
  for (int lane = 0; lane < W; ++lane) {
    if constexpr (sizeof(T) == 8) {
      c.set(lane, __builtin_fma(a[lane], b[lane], c[lane]));
    } else {
      c.set(lane, __builtin_fmaf(a[lane], b[lane], c[lane]));
    }
  }
  return c;
#endif
}

namespace detail {

/// Lanes [First, First + W / 2).
template <int First, class T, int W, int... Lane>
pack<T, W / 2> half(pack<T, W> x, std::integer_sequence<int, Lane...>) {
  if constexpr (W == 2) {
    return pack<T, 1>(x.lanes[First]);
  } else {
    return pack<T, W / 2>::from(__builtin_shufflevector(x.lanes, x.lanes, First + Lane...));
  }
}

template <class T, int W, int... Lane>
pack<T, 2 * W> join(pack<T, W> low, pack<T, W> high, std::integer_sequence<int, Lane...>) {
  if constexpr (W == 1) {
    return pack<T, 2>::from(lanes_t<T, 2>{low.lanes, high.lanes});
  } else {
    return pack<T, 2 * W>::from(__builtin_shufflevector(low.lanes, high.lanes, Lane...));
  }
}

}  // namespace detail

/// The first and the second half of the lanes.
template <class T, int W>
pack<T, W / 2> low(pack<T, W> x) {
  return detail::half<0>(x, std::make_integer_sequence<int, W / 2>{});
}
template <class T, int W>
pack<T, W / 2> high(pack<T, W> x) {
  return detail::half<W / 2>(x, std::make_integer_sequence<int, W / 2>{});
}

/// The lanes of both, one after the other.
template <class T, int W>
pack<T, 2 * W> join(pack<T, W> low, pack<T, W> high) {
  return detail::join(low, high, std::make_integer_sequence<int, 2 * W>{});
}

/// Combines all lanes with `combine(pack, pack)`, always in the same order: the lower half with the upper half.
template <class T, int W, class Combine>
T reduce(pack<T, W> x, Combine combine) {
  if constexpr (W == 1) {
    return x.lanes;
  } else {
    return reduce(combine(low(x), high(x)), combine);
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

/// The lanes in another number type, rounded to nearest.
template <class To, class From, int W>
pack<To, W> convert(pack<From, W> x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (W == 1) {
    return pack<To, 1>(static_cast<To>(x.lanes));
  } else {
    return pack<To, W>::from(__builtin_convertvector(x.lanes, typename pack<To, W>::lanes_type));
  }
}

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
    detail::lanes_t<std::uint16_t, W> halves;
    __builtin_memcpy(&halves, from, sizeof(halves));
    using words_type = detail::lanes_t<std::uint32_t, W>;
    const words_type words = __builtin_convertvector(halves, words_type) << 16;
    return pack<float, W>::from(std::bit_cast<detail::lanes_t<float, W>>(words));
  }
}

/// The first `count` (0 to W) of W numbers; the other lanes get `fill`, and their memory is not touched. By halves,
/// which takes log2(W) branches instead of W. (The vector extension has no masked loads, and compilers do not find
/// them.)
template <int W, class T, class Fill>
auto load_tail(const T* from, std::int64_t count, Fill fill) {
  using number = number_of<T>;
  if constexpr (W == 1) {
    return count > 0 ? load<1>(from) : pack<number, 1>(static_cast<number>(fill));
  } else {
    constexpr int half = W / 2;
    if (count >= W) return load<W>(from);
    if (count >= half) return join(load<half>(from), load_tail<half>(from + half, count - half, fill));
    return join(load_tail<half>(from, count, fill), pack<number, half>(static_cast<number>(fill)));
  }
}

template <class T, int W>
void store(T* to, pack<T, W> x) {
  __builtin_memcpy(to, &x.lanes, sizeof(x.lanes));
}

/// Floats rounded to bfloat16, as bits: to nearest, ties to even.
template <int W>
pack<std::uint16_t, W> bfloat16_bits(pack<float, W> x) {
  if constexpr (W == 1) {
    return pack<std::uint16_t, 1>::from(bfloat16(x.lanes).bits);
  } else {
    using words_type = detail::lanes_t<std::uint32_t, W>;
    const words_type word = std::bit_cast<words_type>(x.lanes);
    const words_type rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    const words_type halves = x.lanes == x.lanes ? rounded : (word >> 16) | 0x40u;  // NaN stays NaN
    return pack<std::uint16_t, W>::from(__builtin_convertvector(halves, detail::lanes_t<std::uint16_t, W>));
  }
}

template <int W>
void store(bfloat16* to, pack<float, W> x) {
  store(&to->bits, bfloat16_bits(x));
}

/// Stores past the caches, if the compiler can, to an address that is a multiple of the pack's bytes: for results that
/// are too large for the caches. An ordinary store would first read the cache line from memory.
template <class T, int W>
void stream(T* to, pack<T, W> x) {
#if __has_builtin(__builtin_nontemporal_store)
  if constexpr (W > 1) {
    __builtin_nontemporal_store(x.lanes, reinterpret_cast<typename pack<T, W>::lanes_type*>(to));
    return;
  }
#endif
  store(to, x);
}

template <int W>
void stream(bfloat16* to, pack<float, W> x) {
  stream(&to->bits, bfloat16_bits(x));
}

/// Stores the first `count` (0 to W) lanes, by halves.
template <class T, class Number, int W>
void store_tail(T* to, pack<Number, W> x, std::int64_t count) {
  if constexpr (W == 1) {
    if (count > 0) store(to, x);
  } else {
    constexpr int half = W / 2;
    if (count >= W) {
      store(to, x);
    } else if (count >= half) {
      store(to, low(x));
      store_tail(to + half, high(x), count - half);
    } else {
      store_tail(to, low(x), count);
    }
  }
}

}  // namespace nullscope::kernels
