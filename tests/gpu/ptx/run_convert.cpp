/// Conversions of numbers, and of addresses between their windows.
#include <string>

#include "tests/gpu/ptx/handlers.hpp"

namespace nullscope::ptx {
namespace {

/// How floating point becomes integers or whole numbers: to nearest even, to zero, down, up.
template <rounding How, class T>
T to_whole(T x) {
  switch (How) {
    case rounding::nearest: return std::nearbyint(x);
    case rounding::zero: return std::trunc(x);
    case rounding::down: return std::floor(x);
    default: return std::ceil(x);
  }
}

/// Integers: cut, or extended by the sign of the source's type; with .sat clamped.
template <class To, class From, bool Saturates>
struct integer_to_integer {
  To operator()(From x) const {
    if constexpr (Saturates) {
      using limits = std::numeric_limits<To>;
      if (std::cmp_less(x, limits::min())) return limits::min();
      if (std::cmp_greater(x, limits::max())) return limits::max();
    }
    return static_cast<To>(x);
  }
};
template <class To, class From, rounding How>
struct integer_to_float {
  To operator()(From x) const {
    const auto y = static_cast<To>(x);  // to nearest even
    if constexpr (How == rounding::nearest) return y;
    const auto exact = static_cast<long double>(x), got = static_cast<long double>(y);
    constexpr To infinity = std::numeric_limits<To>::infinity();
    const bool is_above = got > exact, is_below = got < exact;
    if (How == rounding::up || (How == rounding::zero && exact < 0)) return is_below ? std::nextafter(y, infinity) : y;
    return is_above ? std::nextafter(y, -infinity) : y;
  }
};
/// NaN becomes 0; what is out of range, the nearest number in range.
template <class To, class From, rounding How>
struct float_to_integer {
  To operator()(From x) const {
    if (std::isnan(x)) return 0;
    const From whole = to_whole<How>(x);
    using limits = std::numeric_limits<To>;
    if (whole <= static_cast<From>(limits::min())) return limits::min();
    if (whole >= std::ldexp(From{1}, limits::digits)) return limits::max();
    return static_cast<To>(whole);
  }
};
template <class T, rounding How>
struct whole_number {
  T operator()(T x) const { return to_whole<How>(x); }
};
template <rounding How>
struct double_to_float {
  float operator()(double x) const {
    const auto y = static_cast<float>(x);
    if (How == rounding::nearest || std::isnan(x)) return y;
    const bool goes_up = How == rounding::up || (How == rounding::zero && x < 0);
    if (goes_up) return y < x ? std::nextafter(y, std::numeric_limits<float>::infinity()) : y;
    return y > x ? std::nextafter(y, -std::numeric_limits<float>::infinity()) : y;
  }
};
struct float_to_double {
  double operator()(float x) const { return x; }
};
template <class T, bool Flushes>
struct within_one {
  T operator()(T x) const {
    if (Flushes && std::fpclassify(x) == FP_SUBNORMAL) return 0;
    return x > 0 ? (x < 1 ? x : T{1}) : T{0};
  }
};
struct float_flushed {
  float operator()(float x) const { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
};

template <rounding How>
struct float_to_brain {
  std::uint16_t operator()(float x) const { return float_to_bfloat16(x, How); }
};
template <rounding How>
struct to_half {
  template <class T>
  std::uint16_t operator()(T x) const {
    return double_to_half(x, How);
  }
};
struct from_half {
  float operator()(std::uint16_t x) const { return half_to_float(x); }
};
struct from_brain {
  float operator()(std::uint16_t x) const { return bfloat16_to_float(x); }
};
struct half_to_double {
  double operator()(std::uint16_t x) const { return half_to_float(x); }
};
/// Half away from zero, as tensor cores take it.
struct float_to_tf32 {
  std::uint32_t operator()(float x) const {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return std::isnan(x) ? bits : (bits + 0x1000) & ~0x1fffu;
  }
};
/// Two floats to one word, the first into its upper half.
template <class Narrow>
struct to_pair {
  std::uint32_t operator()(float a, float b) const {
    return static_cast<std::uint32_t>(Narrow()(a)) << 16 | Narrow()(b);
  }
};

rounding rounding_of(const statement& s) {
  if (s.has("rz") || s.has("rzi")) return rounding::zero;
  if (s.has("rm") || s.has("rmi")) return rounding::down;
  if (s.has("rp") || s.has("rpi")) return rounding::up;
  return rounding::nearest;
}

/// Calls f with the rounding as a constant.
template <class F>
handler with_rounding(rounding how, F f) {
  switch (how) {
    case rounding::nearest: return f.template operator()<rounding::nearest>();
    case rounding::zero: return f.template operator()<rounding::zero>();
    case rounding::down: return f.template operator()<rounding::down>();
    default: return f.template operator()<rounding::up>();
  }
}

/// A register of type Register, read as a number of type From, or written as one of type To.
template <class To, class RegisterTo, class From, class RegisterFrom, class Operation>
struct through_registers {
  RegisterTo operator()(RegisterFrom x) const { return static_cast<RegisterTo>(Operation()(static_cast<From>(x))); }
};

/// A number in a register that may be wider than it: f(number, unsigned register).
template <class F>
bool with_register(type t, int bytes, F f) {
  const auto in = [&](auto number) {
    switch (bytes) {
      case 2: return f(number, std::uint16_t{}), true;
      case 4: return f(number, std::uint32_t{}), true;
      default: return f(number, std::uint64_t{}), true;
    }
  };
  if (t == type::u8 || t == type::b8) return in(std::uint8_t{});
  if (t == type::s8) return in(std::int8_t{});
  return with_integer(t, in);
}

bool decode_integers(type to, type from, const statement& s, instruction& i) {
  const int to_bytes = i.to[0].bytes, from_bytes = i.from[0].bytes;
  const bool saturates = s.has("sat");
  return with_register(from, from_bytes, [&]<class From, class RegisterFrom>(From, RegisterFrom) {
    with_register(to, to_bytes, [&]<class To, class RegisterTo>(To, RegisterTo) {
      // A narrow result is extended to its register by its own sign.
      using extended = std::conditional_t<std::is_signed_v<To>, std::make_signed_t<RegisterTo>, RegisterTo>;
      if (saturates) {
        i.run = unary<RegisterFrom,
                      through_registers<To, extended, From, RegisterFrom, integer_to_integer<To, From, true>>>;
      } else {
        i.run = unary<RegisterFrom,
                      through_registers<To, extended, From, RegisterFrom, integer_to_integer<To, From, false>>>;
      }
    });
  });
}

template <class Float>
bool decode_from_integer(type from, const statement& s, instruction& i) {
  return with_register(from, i.from[0].bytes, [&]<class From, class Register>(From, Register) {
    i.run = with_rounding(rounding_of(s), [&]<rounding How>() -> handler {
      return unary<Register, through_registers<Float, Float, From, Register, integer_to_float<Float, From, How>>>;
    });
  });
}
template <class Float>
bool decode_to_integer(type to, const statement& s, instruction& i) {
  return with_register(to, i.to[0].bytes, [&]<class To, class Register>(To, Register) {
    using extended = std::conditional_t<std::is_signed_v<To>, std::make_signed_t<Register>, Register>;
    i.run = with_rounding(rounding_of(s), [&]<rounding How>() -> handler {
      return unary<Float, through_registers<To, extended, Float, Float, float_to_integer<To, Float, How>>>;
    });
  });
}

template <class T>
handler same_float(const statement& s) {
  if (s.has("sat")) return s.has("ftz") ? unary<T, within_one<T, true>> : unary<T, within_one<T, false>>;
  return with_rounding(rounding_of(s), [&]<rounding How>() -> handler { return unary<T, whole_number<T, How>>; });
}

handler between_floats(type to, type from, const statement& s) {
  const rounding how = rounding_of(s);
  const bool is_whole = s.has("rni") || s.has("rzi") || s.has("rmi") || s.has("rpi");
  if (to == from && to == type::f32) {
    return is_whole || s.has("sat") ? same_float<float>(s) : s.has("ftz") ? unary<float, float_flushed> : nullptr;
  }
  if (to == from && to == type::f64) return is_whole || s.has("sat") ? same_float<double>(s) : nullptr;
  if (to == type::f64 && from == type::f32) return unary<float, float_to_double>;
  if (to == type::f64 && from == type::f16) return unary<std::uint16_t, half_to_double>;
  if (to == type::f32 && from == type::f16) return unary<std::uint16_t, from_half>;
  if (to == type::f32 && from == type::bf16) return unary<std::uint16_t, from_brain>;
  if (to == type::tf32 && from == type::f32) return unary<float, float_to_tf32>;
  return with_rounding(how, [&]<rounding How>() -> handler {
    if (to == type::f32 && from == type::f64) return unary<double, double_to_float<How>>;
    if (to == type::f16 && from == type::f32) return unary<float, to_half<How>>;
    if (to == type::f16 && from == type::f64) return unary<double, to_half<How>>;
    if (to == type::bf16 && from == type::f32) return unary<float, float_to_brain<How>>;
    if (to == type::bf16x2 && from == type::f32) return binary<float, to_pair<float_to_brain<How>>>;
    if (to == type::f16x2 && from == type::f32) return binary<float, to_pair<to_half<How>>>;
    return nullptr;
  });
}

// Addresses. `number` is the window that is added, or taken away.
void to_generic(warp& w, const instruction& i, mask active) {
  const auto* const from = w.in<std::uint64_t>(i.from[0]);
  auto* const to = w.out<std::uint64_t>(i.to[0]);
  for_lanes(active, [&](int l) { to[l] = from[l] + static_cast<std::uint64_t>(i.number); });
}
void is_in_window(warp& w, const instruction& i, mask active) {
  const auto* const from = w.in<std::uint64_t>(i.from[0]);
  mask found = 0;
  for_lanes(active, [&](int l) {
    const std::uint64_t in = from[l] / window * window;
    found |= static_cast<mask>(in == static_cast<std::uint64_t>(i.number)) << l;
  });
  w.set_predicate(i.to[0], active, found);
}

std::int64_t window_of(const statement& s) {
  return static_cast<std::int64_t>(s.has("shared") ? shared_window : s.has("local") ? local_window : 0);
}

}  // namespace

bool decode_convert(const statement& s, operand_rows& rows, instruction& i) {
  const std::string_view op = s.op[0];
  if (op == "cvta" || op == "isspacep") {
    i.counted = op == "cvta" ? kind::move : kind::integer;
    operand_rows::add_target(i, rows.write(s.operands[0], op == "cvta" ? type::b64 : type::pred));
    operand_rows::add_source(i, rows.read(s.operands[1], type::b64));
    i.number = op == "cvta" && s.has("to") ? -window_of(s) : window_of(s);
    i.run = op == "cvta" ? to_generic : is_in_window;
    return true;
  }
  if (op != "cvt") return false;
  i.counted = kind::convert;
  type to{}, from{};
  const std::size_t parts = s.op.size();
  if (!parse_type(s.op[parts - 2], to) || !parse_type(s.op[parts - 1], from)) return false;
  operand_rows::add_target(i, is_floating(to) ? rows.write(s.operands[0], to == type::tf32 ? type::b32 : to)
                                              : rows.write_any(s.operands[0]));
  for (std::size_t n = 1; n < s.operands.size(); ++n) {
    operand_rows::add_source(i,
                             is_floating(from) ? rows.read(s.operands[n], from) : rows.read_any(s.operands[n], from));
  }
  if (!is_floating(to) && !is_floating(from)) return decode_integers(to, from, s, i);
  if (is_floating(to) && is_floating(from)) return (i.run = between_floats(to, from, s)) != nullptr;
  if (to == type::f32) return decode_from_integer<float>(from, s, i);
  if (to == type::f64) return decode_from_integer<double>(from, s, i);
  if (from == type::f32) return decode_to_integer<float>(to, s, i);
  if (from == type::f64) return decode_to_integer<double>(to, s, i);
  return false;
}

}  // namespace nullscope::ptx
