/// Moves, selections and logic of predicates.
#include "tests/gpu/ptx/handlers.hpp"

namespace nullscope::ptx {
namespace {

template <class T>
constexpr int bits_of = static_cast<int>(8 * sizeof(T));

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

bool decode_copy(const statement& s, operand_rows& rows, instruction& i, type t) {
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

}  // namespace

bool decode_move(const statement& s, operand_rows& rows, instruction& i) {
  const std::string_view op = s.op[0];
  const type t = type_of(s);
  if (op == "mov") return decode_copy(s, rows, i, t);
  if (op == "selp") return decode_select(s, rows, i, t);
  if (t != type::pred || (op != "and" && op != "or" && op != "xor" && op != "not")) return false;
  decode_predicates(s, rows, i);
  return true;
}

}  // namespace nullscope::ptx
