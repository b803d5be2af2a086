/// Comparisons of all types, and classes of floating-point numbers.
#include <string>

#include "tests/gpu/ptx/handlers.hpp"

namespace nullscope::ptx {
namespace {

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

bool decode_setp(const statement& s, operand_rows& rows, instruction& i) {
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

bool decode_comparison(const statement& s, operand_rows& rows, instruction& i) {
  if (s.op[0] == "setp") return decode_setp(s, rows, i);
  if (s.op[0] != "testp") return false;
  const type t = type_of(s);
  i.counted = kind::floating;
  operand_rows::add_target(i, rows.write(s.operands[0], type::pred));
  i.run = t == type::f32 ? class_test<float>(s.op[1]) : class_test<double>(s.op[1]);
  rows.read_all(s, i, t);
  return i.run != nullptr;
}

}  // namespace nullscope::ptx
