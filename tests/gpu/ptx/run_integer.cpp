/// Integers, logic, predicates, moves and selections.
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
struct count_bits {
  template <class T>
  std::uint32_t operator()(T a) const {
    return static_cast<std::uint32_t>(std::popcount(static_cast<unsigned_of<T>>(a)));
  }
};
struct leading_zeros {
  template <class T>
  std::uint32_t operator()(T a) const {
    return static_cast<std::uint32_t>(std::countl_zero(static_cast<unsigned_of<T>>(a)));
  }
};
struct reverse_bits {
  template <class T>
  T operator()(T a) const {
    unsigned_of<T> from = static_cast<unsigned_of<T>>(a), to = 0;
    for (int i = 0; i < bits_of<T>; ++i, from = static_cast<unsigned_of<T>>(from >> 1)) {
      to = static_cast<unsigned_of<T>>(to << 1 | (from & 1));
    }
    return static_cast<T>(to);
  }
};
/// The place of the highest bit that differs from the sign; all ones if there is none.
struct find_bit {
  template <class T>
  std::uint32_t operator()(T a) const {
    const auto bits = static_cast<unsigned_of<T>>(a < 0 ? ~a : a);
    return bits == 0 ? ~0u : static_cast<std::uint32_t>(bits_of<T> - 1 - std::countl_zero(bits));
  }
};
struct absolute_difference_add {
  template <class T>
  T operator()(T a, T b, T c) const {
    return add()(c, a < b ? subtract()(b, a) : subtract()(a, b));
  }
};

/// Shifts by the width or more give zeros, or the sign.
template <class T>
void shift_left(warp& w, const instruction& i, mask active) {
  const T* const a = w.in<T>(i.from[0]);
  const auto* const by = w.in<std::uint32_t>(i.from[1]);
  T* const to = w.out<T>(i.to[0]);
  for_lanes(active, [&](int l) {
    to[l] = by[l] >= static_cast<std::uint32_t>(bits_of<T>) ? T{0}
                                                            : static_cast<T>(static_cast<std::uint64_t>(a[l]) << by[l]);
  });
}
template <class T>
void shift_right(warp& w, const instruction& i, mask active) {
  const T* const a = w.in<T>(i.from[0]);
  const auto* const by = w.in<std::uint32_t>(i.from[1]);
  T* const to = w.out<T>(i.to[0]);
  for_lanes(active, [&](int l) {
    const bool is_out = by[l] >= static_cast<std::uint32_t>(bits_of<T>);
    to[l] = is_out ? static_cast<T>(std::is_signed_v<T> && a[l] < 0 ? ~T{0} : T{0}) : static_cast<T>(a[l] >> by[l]);
  });
}

/// Two words, shifted as one; `number` 1: shifts beyond 32 count as 32, otherwise modulo 32.
template <bool Left>
void shift_funnel(warp& w, const instruction& i, mask active) {
  const auto *low = w.in<std::uint32_t>(i.from[0]), *high = w.in<std::uint32_t>(i.from[1]),
             *by = w.in<std::uint32_t>(i.from[2]);
  auto* const to = w.out<std::uint32_t>(i.to[0]);
  for_lanes(active, [&](int l) {
    const std::uint64_t both = std::uint64_t{high[l]} << 32 | low[l];
    const std::uint32_t n = i.number == 1 ? std::min(by[l], 32u) : by[l] & 31;
    to[l] = static_cast<std::uint32_t>(Left ? both << n >> 32 : both >> n);
  });
}

template <class T>
void extract_bits(warp& w, const instruction& i, mask active) {
  const T* const a = w.in<T>(i.from[0]);
  const auto *begin = w.in<std::uint32_t>(i.from[1]), *count = w.in<std::uint32_t>(i.from[2]);
  T* const to = w.out<T>(i.to[0]);
  for_lanes(active, [&](int l) {
    const int first = static_cast<int>(begin[l] & 255), length = static_cast<int>(count[l] & 255);
    const auto bits = static_cast<std::uint64_t>(static_cast<unsigned_of<T>>(a[l]));
    const int sign_at = std::min(first + length - 1, bits_of<T> - 1);
    const bool sign = std::is_signed_v<T> && length > 0 && (bits >> sign_at & 1) != 0;
    std::uint64_t result = sign ? ~std::uint64_t{0} : 0;
    for (int b = 0; b < length && first + b < bits_of<T> && b < bits_of<T>; ++b) {
      result = (result & ~(std::uint64_t{1} << b)) | (bits >> (first + b) & 1) << b;
    }
    to[l] = static_cast<T>(result);
  });
}
template <class T>
void insert_bits(warp& w, const instruction& i, mask active) {
  const T *const a = w.in<T>(i.from[0]), *const b = w.in<T>(i.from[1]);
  const auto *begin = w.in<std::uint32_t>(i.from[2]), *count = w.in<std::uint32_t>(i.from[3]);
  T* const to = w.out<T>(i.to[0]);
  for_lanes(active, [&](int l) {
    const int first = static_cast<int>(begin[l] & 255), length = static_cast<int>(count[l] & 255);
    auto result = static_cast<std::uint64_t>(b[l]);
    for (int k = 0; k < length && first + k < bits_of<T>; ++k) {
      const std::uint64_t at = std::uint64_t{1} << (first + k);
      result = (static_cast<std::uint64_t>(a[l]) >> k & 1) != 0 ? result | at : result & ~at;
    }
    to[l] = static_cast<T>(result);
  });
}

/// Any four of eight bytes; a selector's bit 3 repeats the byte's sign instead.
void permute_bytes(warp& w, const instruction& i, mask active) {
  const auto *a = w.in<std::uint32_t>(i.from[0]), *b = w.in<std::uint32_t>(i.from[1]),
             *how = w.in<std::uint32_t>(i.from[2]);
  auto* const to = w.out<std::uint32_t>(i.to[0]);
  for_lanes(active, [&](int l) {
    const std::uint64_t both = std::uint64_t{b[l]} << 32 | a[l];
    std::uint32_t result = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const std::uint32_t select = how[l] >> (4 * k) & 15;
      std::uint32_t byte = static_cast<std::uint32_t>(both >> (8 * (select & 7)) & 255);
      if ((select & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
      result |= byte << (8 * k);
    }
    to[l] = result;
  });
}

/// `number` is the table of the function of three bits.
void any_logic(warp& w, const instruction& i, mask active) {
  const auto *a = w.in<std::uint32_t>(i.from[0]), *b = w.in<std::uint32_t>(i.from[1]),
             *c = w.in<std::uint32_t>(i.from[2]);
  auto* const to = w.out<std::uint32_t>(i.to[0]);
  for_lanes(active, [&](int l) {
    std::uint32_t result = 0;
    for (int k = 0; k < 8; ++k) {
      if ((i.number >> k & 1) == 0) continue;
      result |= ((k & 4) != 0 ? a[l] : ~a[l]) & ((k & 2) != 0 ? b[l] : ~b[l]) & ((k & 1) != 0 ? c[l] : ~c[l]);
    }
    to[l] = result;
  });
}

template <class T>
void select(warp& w, const instruction& i, mask active) {
  const T *const a = w.in<T>(i.from[0]), *const b = w.in<T>(i.from[1]);
  const mask first = w.predicate(i.from[2]);
  T* const to = w.out<T>(i.to[0]);
  for_lanes(active, [&](int l) { to[l] = (first >> l & 1) != 0 ? a[l] : b[l]; });
}

struct same {
  template <class T>
  T operator()(T a) const {
    return a;
  }
};

/// {a, b, ...} of one wider register, or the other way round.
template <class Part, class Whole>
void join_parts(warp& w, const instruction& i, mask active) {
  Whole* const to = w.out<Whole>(i.to[0]);
  for_lanes(active, [&](int l) {
    Whole result = 0;
    for (int p = 0; p < i.from_count; ++p) {
      const Part part = w.in<Part>(i.from[static_cast<std::size_t>(p)])[l];
      result = static_cast<Whole>(result | static_cast<Whole>(static_cast<Whole>(part) << (bits_of<Part> * p)));
    }
    to[l] = result;
  });
}
template <class Part, class Whole>
void cut_into_parts(warp& w, const instruction& i, mask active) {
  const Whole* const from = w.in<Whole>(i.from[0]);
  for_lanes(active, [&](int l) {
    const Whole whole = from[l];
    for (int p = 0; p < i.to_count; ++p) {
      const row& to = i.to[static_cast<std::size_t>(p)];
      if (to) w.out<Part>(to)[l] = static_cast<Part>(whole >> (bits_of<Part> * p));
    }
  });
}

// Predicates are masks.
template <class F>
void combine_masks(warp& w, const instruction& i, mask active) {
  const mask b = i.from_count > 1 ? w.predicate(i.from[1]) : 0;
  w.set_predicate(i.to[0], active, F()(w.predicate(i.from[0]), b));
}
struct mask_and {
  mask operator()(mask a, mask b) const { return a & b; }
};
struct mask_or {
  mask operator()(mask a, mask b) const { return a | b; }
};
struct mask_xor {
  mask operator()(mask a, mask b) const { return a ^ b; }
};
struct mask_not {
  mask operator()(mask a, mask) const { return ~a; }
};
struct mask_same {
  mask operator()(mask a, mask) const { return a; }
};

void decode_predicates(const statement& s, operand_rows& rows, instruction& i) {
  operand_rows::add_target(i, rows.write(s.operands[0], type::pred));
  rows.read_all(s, i, type::pred);
  const std::string_view op = s.op[0];
  i.run = op == "and"   ? combine_masks<mask_and>
          : op == "or"  ? combine_masks<mask_or>
          : op == "xor" ? combine_masks<mask_xor>
          : op == "not" ? combine_masks<mask_not>
                        : combine_masks<mask_same>;
}

bool decode_parts(const statement& s, operand_rows& rows, instruction& i, type t) {
  const bool joins = s.operands[1].is == operand::form::list;
  const operand& list = s.operands[joins ? 1 : 0];
  const int part_bytes = bytes_of(t) / static_cast<int>(list.parts.size());
  const type part = part_bytes == 4 ? type::b32 : part_bytes == 2 ? type::b16 : type::b8;
  if (part == type::b8) return false;
  if (joins) {
    operand_rows::add_target(i, rows.write(s.operands[0], t));
    for (const operand& one : list.parts) operand_rows::add_source(i, rows.read(one, part));
  } else {
    for (const operand& one : list.parts) operand_rows::add_target(i, rows.write(one, part));
    operand_rows::add_source(i, rows.read(s.operands[1], t));
  }
  if (bytes_of(t) == 4) {
    i.run = joins ? join_parts<std::uint16_t, std::uint32_t> : cut_into_parts<std::uint16_t, std::uint32_t>;
  } else if (part == type::b32) {
    i.run = joins ? join_parts<std::uint32_t, std::uint64_t> : cut_into_parts<std::uint32_t, std::uint64_t>;
  } else {
    i.run = joins ? join_parts<std::uint16_t, std::uint64_t> : cut_into_parts<std::uint16_t, std::uint64_t>;
  }
  return true;
}

bool decode_move(const statement& s, operand_rows& rows, instruction& i, type t) {
  i.counted = kind::move;
  if (t == type::pred) return decode_predicates(s, rows, i), true;
  if (s.operands[0].is == operand::form::list || s.operands[1].is == operand::form::list)
    return decode_parts(s, rows, i, t);
  operand_rows::add_target(i, rows.write(s.operands[0], t));
  operand_rows::add_source(i, rows.read(s.operands[1], t));
  const int bytes = bytes_of(t);
  i.run = bytes == 8   ? unary<std::uint64_t, same>
          : bytes == 4 ? unary<std::uint32_t, same>
                       : unary<std::uint16_t, same>;
  return true;
}

bool decode_select(const statement& s, operand_rows& rows, instruction& i, type t) {
  operand_rows::add_target(i, rows.write(s.operands[0], t));
  operand_rows::add_source(i, rows.read(s.operands[1], t));
  operand_rows::add_source(i, rows.read(s.operands[2], t));
  operand_rows::add_source(i, rows.read(s.operands[3], type::pred));
  const int bytes = bytes_of(t);
  i.run = bytes == 8 ? select<std::uint64_t> : bytes == 4 ? select<std::uint32_t> : select<std::uint16_t>;
  return true;
}

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

template <class T>
handler shift_of(std::string_view op) {
  return op == "shl" ? shift_left<T> : shift_right<T>;
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
  if (op == "brev") return unary<T, reverse_bits>;
  if (op == "sad") return ternary<T, absolute_difference_add>;
  return nullptr;
}

template <class T>
handler to_word(std::string_view op) {
  return op == "popc" ? unary<T, count_bits> : op == "clz" ? unary<T, leading_zeros> : unary<T, find_bit>;
}

/// Bits, with counts of bits as words.
bool decode_bits(const statement& s, operand_rows& rows, instruction& i, type t) {
  const std::string_view op = s.op[0];
  const bool counts_bits = op == "popc" || op == "clz" || op == "bfind";
  operand_rows::add_target(i, rows.write(s.operands[0], counts_bits ? type::b32 : t));
  const std::size_t values = op == "bfi" ? 2 : op == "shf" || op == "prmt" || op == "lop3" ? 3 : 1;
  for (std::size_t n = 1; n < s.operands.size(); ++n) {
    operand_rows::add_source(i, rows.read(s.operands[n], n <= values ? t : type::b32));
  }
  if (op == "prmt") return i.run = permute_bytes, s.op.size() == 2;
  if (op == "lop3") return i.number = static_cast<std::int64_t>(s.operands[4].bits), i.run = any_logic, true;
  if (op == "shf") {
    i.number = s.has("clamp") ? 1 : 0;
    return i.run = s.has("l") ? shift_funnel<true> : shift_funnel<false>, true;
  }
  return with_integer(t, [&]<class T>(T) {
    i.run = op == "bfe"   ? extract_bits<T>
            : op == "bfi" ? insert_bits<T>
            : counts_bits ? to_word<T>(op)
                          : shift_of<T>(op);
  });
}

}  // namespace

bool decode_integer(const statement& s, operand_rows& rows, instruction& i) {
  static constexpr std::string_view bits[] = {"shl",  "shr",  "shf",  "bfe", "bfi",
                                              "prmt", "lop3", "popc", "clz", "bfind"};
  const std::string_view op = s.op[0];
  const type t = type_of(s);
  if (op == "mov") return decode_move(s, rows, i, t);
  if (op == "selp") return decode_select(s, rows, i, t);
  if (t == type::pred && (op == "and" || op == "or" || op == "xor" || op == "not"))
    return decode_predicates(s, rows, i), true;
  if (is_floating(t)) return false;
  if (std::find(std::begin(bits), std::end(bits), op) != std::end(bits)) return decode_bits(s, rows, i, t);
  if (s.has("wide")) return decode_wide(s, rows, i, t);
  if (s.has("cc")) return false;  // sums of several words
  with_integer(t, [&]<class T>(T) { i.run = plain<T>(s); });
  if (i.run == nullptr) return false;
  operand_rows::add_target(i, rows.write(s.operands[0], t));
  rows.read_all(s, i, t);
  return true;
}

}  // namespace nullscope::ptx
