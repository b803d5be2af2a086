/// Floating-point arithmetic, of all sizes, and comparisons of all types.
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

enum class logic { none, and_also, or_also, xor_also };

/// p = a ? b, or its combination with a third predicate; the second target gets the combination of the opposite.
template <class Number, class Stored, class Compare>
void compare(warp& w, const instruction& i, mask active) {
  const Stored *const a = w.in<Stored>(i.from[0]), *const b = w.in<Stored>(i.from[1]);
  mask found = 0;
  for_lanes(active, [&](int l) { found |= static_cast<mask>(Compare()(Number::of(a[l]), Number::of(b[l]))) << l; });
  const auto how = static_cast<logic>(i.number);
  const mask third = how == logic::none ? 0 : w.predicate(i.from[2]);
  const auto combined = [&](mask x) {
    return how == logic::and_also   ? x & third
           : how == logic::or_also  ? x | third
           : how == logic::xor_also ? x ^ third
                                    : x;
  };
  w.set_predicate(i.to[0], active, combined(found));
  if (i.to[1]) w.set_predicate(i.to[1], active, combined(~found));
}

struct plain {
  template <class T>
  static T of(T x) {
    return x;
  }
};
struct half_number {
  static float of(std::uint16_t x) { return half_to_float(x); }
};
struct brain_number {
  static float of(std::uint16_t x) { return bfloat16_to_float(x); }
};

// Comparisons that NaN makes false; their opposites are those that it makes true.
struct equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct less {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct less_or_equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct ordered {
  template <class T>
  bool operator()(T a, T b) const {
    return a == a && b == b;
  }
};
struct different {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b || a > b;
  }
};
template <class Comparison>
struct opposite {
  template <class T>
  bool operator()(T a, T b) const {
    return !Comparison()(a, b);
  }
};
template <class Comparison>
struct swapped {
  template <class T>
  bool operator()(T a, T b) const {
    return Comparison()(b, a);
  }
};

template <class Number, class Stored>
handler comparison(std::string_view name) {
  if (name == "eq") return compare<Number, Stored, equal>;
  if (name == "ne") return compare<Number, Stored, different>;
  if (name == "lt" || name == "lo") return compare<Number, Stored, less>;
  if (name == "le" || name == "ls") return compare<Number, Stored, less_or_equal>;
  if (name == "gt" || name == "hi") return compare<Number, Stored, swapped<less>>;
  if (name == "ge" || name == "hs") return compare<Number, Stored, swapped<less_or_equal>>;
  if (name == "num") return compare<Number, Stored, ordered>;
  if (name == "nan") return compare<Number, Stored, opposite<ordered>>;
  if (name == "equ") return compare<Number, Stored, opposite<different>>;
  if (name == "neu") return compare<Number, Stored, opposite<equal>>;
  if (name == "ltu") return compare<Number, Stored, opposite<swapped<less_or_equal>>>;
  if (name == "leu") return compare<Number, Stored, opposite<swapped<less>>>;
  if (name == "gtu") return compare<Number, Stored, opposite<less_or_equal>>;
  if (name == "geu") return compare<Number, Stored, opposite<less>>;
  return nullptr;
}

bool decode_comparison(const statement& s, operand_rows& rows, instruction& i) {
  const type t = type_of(s);
  const operand& to = s.operands[0];
  for (const operand& one : to.is == operand::form::list ? to.parts : std::vector<operand>{to}) {
    operand_rows::add_target(i, rows.write(one, type::pred));
  }
  operand_rows::add_source(i, rows.read(s.operands[1], t));
  operand_rows::add_source(i, rows.read(s.operands[2], t));
  if (s.operands.size() > 3) operand_rows::add_source(i, rows.read(s.operands[3], type::pred));
  const logic how = s.operands.size() < 4 ? logic::none
                    : s.has("and")        ? logic::and_also
                    : s.has("or")         ? logic::or_also
                                          : logic::xor_also;
  i.number = static_cast<std::int64_t>(how);
  const std::string_view name = s.op[1];
  if (with_integer(t, [&]<class T>(T) { i.run = comparison<plain, T>(name); })) return i.run != nullptr;
  i.counted = kind::floating;
  i.run = t == type::f32   ? comparison<plain, float>(name)
          : t == type::f64 ? comparison<plain, double>(name)
          : t == type::f16 ? comparison<half_number, std::uint16_t>(name)
                           : comparison<brain_number, std::uint16_t>(name);
  return i.run != nullptr;
}

template <class T, class Test>
void classify(warp& w, const instruction& i, mask active) {
  const T* const a = w.in<T>(i.from[0]);
  mask found = 0;
  for_lanes(active, [&](int l) { found |= static_cast<mask>(Test()(a[l])) << l; });
  w.set_predicate(i.to[0], active, found);
}
struct is_finite {
  template <class T>
  bool operator()(T x) const {
    return std::isfinite(x);
  }
};
struct is_infinite {
  template <class T>
  bool operator()(T x) const {
    return std::isinf(x);
  }
};
struct is_nan {
  template <class T>
  bool operator()(T x) const {
    return std::isnan(x);
  }
};
struct is_number {
  template <class T>
  bool operator()(T x) const {
    return !std::isnan(x);
  }
};
struct is_normal {
  template <class T>
  bool operator()(T x) const {
    return std::isnormal(x);
  }
};
struct is_subnormal {
  template <class T>
  bool operator()(T x) const {
    return std::fpclassify(x) == FP_SUBNORMAL;
  }
};
template <class T>
handler class_test(std::string_view name) {
  return name == "finite"       ? classify<T, is_finite>
         : name == "infinite"   ? classify<T, is_infinite>
         : name == "notanumber" ? classify<T, is_nan>
         : name == "number"     ? classify<T, is_number>
         : name == "normal"     ? classify<T, is_normal>
         : name == "subnormal"  ? classify<T, is_subnormal>
                                : nullptr;
}

}  // namespace

bool decode_float(const statement& s, operand_rows& rows, instruction& i) {
  if (s.op[0] == "setp") return decode_comparison(s, rows, i);
  const type t = type_of(s);
  if (!is_floating(t)) return false;
  i.counted = kind::floating;
  if (s.op[0] == "testp") {
    operand_rows::add_target(i, rows.write(s.operands[0], type::pred));
    i.run = t == type::f32 ? class_test<float>(s.op[1]) : class_test<double>(s.op[1]);
  } else {
    i.run = arithmetic(s, t, i.counted);
    if (i.run == nullptr) return false;
    operand_rows::add_target(i, rows.write(s.operands[0], t));
  }
  rows.read_all(s, i, t);
  return i.run != nullptr;
}

}  // namespace nullscope::ptx
