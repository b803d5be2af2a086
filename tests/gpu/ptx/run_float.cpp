/// Floating-point arithmetic, of all sizes.
#include <cfenv>
#include <string>

#include "tests/gpu/ptx/handlers.hpp"

namespace nullscope::ptx {
namespace {

template <class T>
T without_subnormal(T x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(T{0}, x) : x;
}

/// The same, with subnormal operands and results as zeros (.ftz).
template <class Operation>
struct flushed {
  template <class... T>
  auto operator()(T... x) const {
    return without_subnormal(Operation()(without_subnormal(x)...));
  }
};

/// The result within [0, 1]; NaN becomes 0 (.sat).
template <class Operation>
struct saturated {
  template <class... T>
  auto operator()(T... x) const {
    const auto y = Operation()(x...);
    return y > 0 ? std::min(y, decltype(y){1}) : decltype(y){0};
  }
};

struct add {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct subtract {
  template <class T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct multiply {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct multiply_add {
  template <class T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
struct divide {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
/// If one is NaN, the other; -0 is less than 0.
struct smaller {
  template <class T>
  T operator()(T a, T b) const {
    return std::isnan(a) ? b : std::isnan(b) ? a : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
  }
};
struct larger {
  template <class T>
  T operator()(T a, T b) const {
    return std::isnan(a) ? b : std::isnan(b) ? a : a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
  }
};
/// NaN if one is (.NaN).
template <class Operation>
struct with_nan {
  template <class T>
  T operator()(T a, T b) const {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : Operation()(a, b);
  }
};
struct absolute {
  template <class T>
  T operator()(T a) const {
    return std::abs(a);
  }
};
struct negate {
  template <class T>
  T operator()(T a) const {
    return -a;
  }
};
/// The sign of the first operand with the size of the second.
struct copy_sign {
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};
struct square_root {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct reciprocal {
  template <class T>
  T operator()(T a) const {
    return T{1} / a;
  }
};
// Devices approximate these; here they are right to the last bit.
struct reciprocal_root {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(1 / std::sqrt(static_cast<double>(a)));
  }
};
struct power_of_two {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(std::exp2(static_cast<double>(a)));
  }
};
struct logarithm {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(std::log2(static_cast<double>(a)));
  }
};
/// The upper word of a double, as a first guess; the lower one is zero.
struct rough_reciprocal {
  double operator()(double a) const {
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(without_subnormal(1 / without_subnormal(a))) >> 32 << 32);
  }
};
struct sine {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(std::sin(static_cast<double>(a)));
  }
};
struct cosine {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(std::cos(static_cast<double>(a)));
  }
};
struct hyperbolic_tangent {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(std::tanh(static_cast<double>(a)));
  }
};

// Numbers of 16 bits: computed in double and rounded once.
struct half {
  static double wide(std::uint16_t bits) { return half_to_float(bits); }
  static std::uint16_t narrow(double x) { return double_to_half(x); }
};
struct brain {
  static double wide(std::uint16_t bits) { return bfloat16_to_float(bits); }
  static std::uint16_t narrow(double x) { return double_to_bfloat16(x); }
};
template <class Format, class Operation>
struct of_16_bits {
  template <class... T>
  std::uint16_t operator()(T... x) const {
    return Format::narrow(Operation()(Format::wide(x)...));
  }
};
/// Two of them in a word.
template <class Operation>
struct of_pairs {
  template <class... T>
  std::uint32_t operator()(T... x) const {
    const std::uint32_t low = Operation()(static_cast<std::uint16_t>(x)...);
    const std::uint32_t high = Operation()(static_cast<std::uint16_t>(x >> 16)...);
    return high << 16 | low;
  }
};

template <int Mode, handler Run>
void in_mode(warp& w, const instruction& i, mask active) {
  std::fesetround(Mode);
  Run(w, i, active);
  std::fesetround(FE_TONEAREST);
}
template <handler Run>
handler rounded(const statement& s) {
  if (s.has("rz")) return in_mode<FE_TOWARDZERO, Run>;
  if (s.has("rm")) return in_mode<FE_DOWNWARD, Run>;
  if (s.has("rp")) return in_mode<FE_UPWARD, Run>;
  return Run;
}

/// A handler for float, double, and numbers of 16 bits alone and in pairs.
template <template <class, class> class Shape, class Operation>
handler of_type(type t, const statement& s) {
  switch (t) {
    case type::f32:
      if (s.has("sat")) return rounded<Shape<float, saturated<Operation>>::run>(s);
      return s.has("ftz") ? rounded<Shape<float, flushed<Operation>>::run>(s)
                          : rounded<Shape<float, Operation>::run>(s);
    case type::f64: return rounded<Shape<double, Operation>::run>(s);
    case type::f16: return Shape<std::uint16_t, of_16_bits<half, Operation>>::run;
    case type::bf16: return Shape<std::uint16_t, of_16_bits<brain, Operation>>::run;
    case type::f16x2: return Shape<std::uint32_t, of_pairs<of_16_bits<half, Operation>>>::run;
    case type::bf16x2: return Shape<std::uint32_t, of_pairs<of_16_bits<brain, Operation>>>::run;
    default: return nullptr;
  }
}
template <class T, class Operation>
struct one_operand {
  static constexpr handler run = unary<T, Operation>;
};
template <class T, class Operation>
struct two_operands {
  static constexpr handler run = binary<T, Operation>;
};
template <class T, class Operation>
struct three_operands {
  static constexpr handler run = ternary<T, Operation>;
};

handler arithmetic(const statement& s, type t, kind& counted) {
  const std::string_view op = s.op[0];
  const bool keeps_nan = s.has("NaN");
  if (op == "add") return of_type<two_operands, add>(t, s);
  if (op == "sub") return of_type<two_operands, subtract>(t, s);
  if (op == "mul") return of_type<two_operands, multiply>(t, s);
  if (op == "abs") return of_type<one_operand, absolute>(t, s);
  if (op == "neg") return of_type<one_operand, negate>(t, s);
  if (op == "min")
    return keeps_nan ? of_type<two_operands, with_nan<smaller>>(t, s) : of_type<two_operands, smaller>(t, s);
  if (op == "max")
    return keeps_nan ? of_type<two_operands, with_nan<larger>>(t, s) : of_type<two_operands, larger>(t, s);
  if (op == "copysign") return of_type<two_operands, copy_sign>(t, s);
  if (op == "fma" || op == "mad") return counted = kind::fma, of_type<three_operands, multiply_add>(t, s);
  counted = kind::special;
  if (op == "div") return of_type<two_operands, divide>(t, s);
  if (op == "sqrt") return of_type<one_operand, square_root>(t, s);
  if (op == "rcp" && t == type::f64 && s.has("approx")) return unary<double, rough_reciprocal>;
  if (op == "rcp") return of_type<one_operand, reciprocal>(t, s);
  if (op == "rsqrt") return of_type<one_operand, reciprocal_root>(t, s);
  if (op == "ex2") return of_type<one_operand, power_of_two>(t, s);
  if (op == "lg2") return of_type<one_operand, logarithm>(t, s);
  if (op == "sin") return of_type<one_operand, sine>(t, s);
  if (op == "cos") return of_type<one_operand, cosine>(t, s);
  if (op == "tanh") return of_type<one_operand, hyperbolic_tangent>(t, s);
  return nullptr;
}

}  // namespace

bool decode_float(const statement& s, operand_rows& rows, instruction& i) {
  const type t = type_of(s);
  if (!is_floating(t)) return false;
  i.counted = kind::floating;
  i.run = arithmetic(s, t, i.counted);
  if (i.run == nullptr) return false;
  operand_rows::add_target(i, rows.write(s.operands[0], t));
  rows.read_all(s, i, t);
  return true;
}

}  // namespace nullscope::ptx
