/// Integer arithmetic and logic.
#include <algorithm>
#include <string>

#include "tests/gpu/ptx/handlers.hpp"

namespace nullscope::ptx {
namespace {

template <class T>
using unsigned_of = std::make_unsigned_t<T>;

/// A type with twice the bits.
__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;
template <class T>
using wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, int128, uint128>>>;

template <class T>
constexpr int bits_of = static_cast<int>(8 * sizeof(T));

/// Arithmetic wraps around.
template <class T, class F>
T wrapped(T a, T b, F f) {
  using u = std::conditional_t<sizeof(T) < 4, std::uint32_t, unsigned_of<T>>;
  return static_cast<T>(f(static_cast<u>(a), static_cast<u>(b)));
}

struct add {
  template <class T>
  T operator()(T a, T b) const {
    return wrapped(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct subtract {
  template <class T>
  T operator()(T a, T b) const {
    return wrapped(a, b, [](auto x, auto y) { return x - y; });
  }
};
struct multiply_low {
  template <class T>
  T operator()(T a, T b) const {
    return wrapped(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct multiply_high {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<wide<T>>(a) * static_cast<wide<T>>(b) >> bits_of<T>);
  }
};
struct multiply_wide {
  template <class T>
  auto operator()(T a, T b) const {
    if constexpr (sizeof(T) < 8) {
      return static_cast<wide<T>>(static_cast<wide<T>>(a) * b);
    } else {
      return T{};  // there is no such instruction
    }
  }
};
template <class Product>
struct multiply_add {
  template <class T>
  T operator()(T a, T b, T c) const {
    return add()(Product()(a, b), c);
  }
};
struct add_saturated {
  template <class T>
  T operator()(T a, T b) const {
    T sum{};
    return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max())
                                              : sum;
  }
};
struct divide {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(~T{0});  // what devices give; undefined by the language
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return subtract()(T{0}, a);
    }
    return static_cast<T>(a / b);
  }
};
struct remainder {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
struct smaller {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct larger {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct absolute {
  template <class T>
  T operator()(T a) const {
    return a < 0 ? subtract()(T{0}, a) : a;
  }
};
struct negate {
  template <class T>
  T operator()(T a) const {
    return subtract()(T{0}, a);
  }
};
struct bit_and {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct bit_or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct bit_xor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct bit_not {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
struct logical_not {
  template <class T>
  T operator()(T a) const {
    return a == 0 ? 1 : 0;
  }
};
struct absolute_difference_add {
  template <class T>
  T operator()(T a, T b, T c) const {
    return add()(c, a < b ? subtract()(b, a) : subtract()(a, b));
  }
};
template <class T>
handler product_of(const statement& s) {
  const bool adds = s.op[0] == "mad";
  if (s.has("hi")) return adds ? ternary<T, multiply_add<multiply_high>> : binary<T, multiply_high>;
  return adds ? ternary<T, multiply_add<multiply_low>> : binary<T, multiply_low>;
}

/// mul.wide and mad.wide, whose sum and third operand have twice the bits.
template <class T>
void multiply_wide_add(warp& w, const instruction& i, mask active) {
  using result = wide<T>;
  const T *const a = w.in<T>(i.from[0]), *const b = w.in<T>(i.from[1]);
  const result* const c = w.in<result>(i.from[2]);
  result* const to = w.out<result>(i.to[0]);
  for_lanes(active, [&](int l) { to[l] = add()(multiply_wide()(a[l], b[l]), c[l]); });
}

bool decode_wide(const statement& s, operand_rows& rows, instruction& i, type t) {
  const bool is_word = bytes_of(t) == 4;
  const type whole = is_word ? type::b64 : type::b32;
  operand_rows::add_target(i, rows.write(s.operands[0], whole));
  operand_rows::add_source(i, rows.read(s.operands[1], t));
  operand_rows::add_source(i, rows.read(s.operands[2], t));
  if (s.op[0] == "mad") operand_rows::add_source(i, rows.read(s.operands[3], whole));
  return with_integer(t, [&]<class T>(T) {
    if constexpr (sizeof(T) < 8) i.run = s.op[0] == "mad" ? multiply_wide_add<T> : binary<T, multiply_wide>;
  });
}

/// Operations whose operands and result have one type.
template <class T>
handler plain(const statement& s) {
  const std::string_view op = s.op[0];
  if (op == "add") return s.has("sat") ? binary<T, add_saturated> : binary<T, add>;
  if (op == "sub") return binary<T, subtract>;
  if (op == "mul" || op == "mad") return product_of<T>(s);
  if (op == "div") return binary<T, divide>;
  if (op == "rem") return binary<T, remainder>;
  if (op == "min") return binary<T, smaller>;
  if (op == "max") return binary<T, larger>;
  if (op == "abs") return unary<T, absolute>;
  if (op == "neg") return unary<T, negate>;
  if (op == "and") return binary<T, bit_and>;
  if (op == "or") return binary<T, bit_or>;
  if (op == "xor") return binary<T, bit_xor>;
  if (op == "not") return unary<T, bit_not>;
  if (op == "cnot") return unary<T, logical_not>;
  if (op == "sad") return ternary<T, absolute_difference_add>;
  return nullptr;
}

}  // namespace

bool decode_integer(const statement& s, operand_rows& rows, instruction& i) {
  const type t = type_of(s);
  if (is_floating(t) || s.has("cc")) return false;  // cc: sums of several words
  if (s.has("wide")) return decode_wide(s, rows, i, t);
  with_integer(t, [&]<class T>(T) { i.run = plain<T>(s); });
  if (i.run == nullptr) return false;
  operand_rows::add_target(i, rows.write(s.operands[0], t));
  rows.read_all(s, i, t);
  return true;
}

}  // namespace nullscope::ptx
