/// Atomic operations: lane after lane.
#include "tests/gpu/ptx/handlers.hpp"

namespace nullscope::ptx {
namespace {

struct add {
  template <class T>
  T operator()(T old, T x, T) const {
    return static_cast<T>(old + x);
  }
};
struct exchange {
  template <class T>
  T operator()(T, T x, T) const {
    return x;
  }
};
struct compare_and_swap {
  template <class T>
  T operator()(T old, T expected, T x) const {
    return old == expected ? x : old;
  }
};
struct smaller {
  template <class T>
  T operator()(T old, T x, T) const {
    return x < old ? x : old;
  }
};
struct larger {
  template <class T>
  T operator()(T old, T x, T) const {
    return x > old ? x : old;
  }
};
struct bit_and {
  template <class T>
  T operator()(T old, T x, T) const {
    return static_cast<T>(old & x);
  }
};
struct bit_or {
  template <class T>
  T operator()(T old, T x, T) const {
    return static_cast<T>(old | x);
  }
};
struct bit_xor {
  template <class T>
  T operator()(T old, T x, T) const {
    return static_cast<T>(old ^ x);
  }
};
/// Counts up to x and begins again.
struct wrap_up {
  template <class T>
  T operator()(T old, T x, T) const {
    return old >= x ? T{0} : static_cast<T>(old + 1);
  }
};
struct wrap_down {
  template <class T>
  T operator()(T old, T x, T) const {
    return old == 0 || old > x ? x : static_cast<T>(old - 1);
  }
};

template <class T, class Operation>
void atomic(warp& w, const instruction& i, mask active) {
  const auto* const base = w.in<std::uint64_t>(i.from[0]);
  const T* const x = w.in<T>(i.from[1]);
  const T* const y = i.from[2] ? w.in<T>(i.from[2]) : x;
  T* const to = i.to[0] ? w.out<T>(i.to[0]) : nullptr;
  for (; active != 0; active &= active - 1) {
    const int l = std::countr_zero(active);
    std::byte* const at = memory_at(w, i.where, l, base[l] + static_cast<std::uint64_t>(i.offset), sizeof(T));
    T old;
    std::memcpy(&old, at, sizeof(T));
    const T made = Operation()(old, x[l], y[l]);
    std::memcpy(at, &made, sizeof(T));
    if (to != nullptr) to[l] = old;
  }
}

template <class T>
handler of_integers(const statement& s) {
  if (s.has("add")) return atomic<T, add>;
  if (s.has("exch")) return atomic<T, exchange>;
  if (s.has("cas")) return atomic<T, compare_and_swap>;
  if (s.has("min")) return atomic<T, smaller>;
  if (s.has("max")) return atomic<T, larger>;
  if (s.has("and")) return atomic<T, bit_and>;
  if (s.has("or")) return atomic<T, bit_or>;
  if (s.has("xor")) return atomic<T, bit_xor>;
  if (s.has("inc")) return atomic<T, wrap_up>;
  if (s.has("dec")) return atomic<T, wrap_down>;
  return nullptr;
}

}  // namespace

bool decode_atomic(const statement& s, operand_rows& rows, instruction& i) {
  const bool returns = s.op[0] == "atom";
  if (!returns && s.op[0] != "red") return false;
  const type t = type_of(s);
  const std::size_t first = returns ? 1 : 0;
  i.counted = kind::atomic;
  i.where = s.has("shared") || s.has("shared::cta") ? space::shared : s.has("global") ? space::global : space::generic;
  if (returns) operand_rows::add_target(i, rows.write(s.operands[0], t));
  operand_rows::add_source(i, rows.address(s.operands[first], i));
  if (i.from[0].bytes != 8) return false;
  rows.read_all(s, i, t, first + 1);
  with_integer(t, [&]<class T>(T) { i.run = of_integers<T>(s); });
  if (t == type::f32 && s.has("add")) i.run = atomic<float, add>;
  if (t == type::f64 && s.has("add")) i.run = atomic<double, add>;
  return i.run != nullptr;
}

}  // namespace nullscope::ptx
