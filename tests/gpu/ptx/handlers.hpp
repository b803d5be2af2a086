/// What the handlers of all kinds of instructions have in common.
#pragma once

#include <type_traits>
#include <utility>

#include "tests/gpu/ptx/machine.hpp"
#include "tests/gpu/ptx/module.hpp"

namespace nullscope::ptx {

template <class F>
void for_lanes(mask active, F f) {
  if (active == all_lanes) {
    for (int lane = 0; lane < lanes; ++lane) f(lane);
  } else {
    for (; active != 0; active &= active - 1) f(std::countr_zero(active));
  }
}

// Element by element: Operation()(T...) gives what is written.
template <class T, class Operation>
void unary(warp& w, const instruction& i, mask active) {
  using result = decltype(Operation()(T{}));
  const T* const a = w.in<T>(i.from[0]);
  auto* const to = w.out<result>(i.to[0]);
  for_lanes(active, [&](int lane) { to[lane] = Operation()(a[lane]); });
}
template <class T, class Operation>
void binary(warp& w, const instruction& i, mask active) {
  using result = decltype(Operation()(T{}, T{}));
  const T *const a = w.in<T>(i.from[0]), *const b = w.in<T>(i.from[1]);
  auto* const to = w.out<result>(i.to[0]);
  for_lanes(active, [&](int lane) { to[lane] = Operation()(a[lane], b[lane]); });
}
template <class T, class Operation>
void ternary(warp& w, const instruction& i, mask active) {
  using result = decltype(Operation()(T{}, T{}, T{}));
  const T *const a = w.in<T>(i.from[0]), *const b = w.in<T>(i.from[1]), *const c = w.in<T>(i.from[2]);
  auto* const to = w.out<result>(i.to[0]);
  for_lanes(active, [&](int lane) { to[lane] = Operation()(a[lane], b[lane], c[lane]); });
}

/// Calls f(T{}) for the C++ type of an integer or of untyped bits.
template <class F>
bool with_integer(type t, F f) {
  switch (t) {
    case type::b16:
    case type::u16: return f(std::uint16_t{}), true;
    case type::s16: return f(std::int16_t{}), true;
    case type::b32:
    case type::u32: return f(std::uint32_t{}), true;
    case type::s32: return f(std::int32_t{}), true;
    case type::b64:
    case type::u64: return f(std::uint64_t{}), true;
    case type::s64: return f(std::int64_t{}), true;
    default: return false;
  }
}

/// Finds the rows of an instruction's operands.
class operand_rows {
 public:
  virtual ~operand_rows() = default;

  /// Of what is read as a number of this type, and of what is written. Throws failure if a register has another size.
  virtual row read(const operand& x, type t) = 0;
  virtual row write(const operand& x, type t) = 0;
  /// Whatever its size: loads, stores and conversions take registers that are larger than their type.
  virtual row read_any(const operand& x, type t) = 0;
  virtual row write_any(const operand& x) = 0;
  /// Of an address, whose offset goes into the instruction.
  virtual row address(const operand& x, instruction& i) = 0;

  void read_all(const statement& s, instruction& i, type t, std::size_t first = 1) {
    for (std::size_t n = first; n < s.operands.size(); ++n) add_source(i, read(s.operands[n], t));
  }
  static void add_source(instruction& i, row r) { i.from[static_cast<std::size_t>(i.from_count++)] = r; }
  static void add_target(instruction& i, row r) { i.to[static_cast<std::size_t>(i.to_count++)] = r; }
};

/// The last part of an instruction's name, as a type.
type type_of(const statement& s);

// Each fills in what it knows, and returns false if the instruction is none of its kind.
bool decode_move(const statement& s, operand_rows& rows, instruction& i);
bool decode_integer(const statement& s, operand_rows& rows, instruction& i);
bool decode_bits(const statement& s, operand_rows& rows, instruction& i);
bool decode_comparison(const statement& s, operand_rows& rows, instruction& i);
bool decode_float(const statement& s, operand_rows& rows, instruction& i);
bool decode_convert(const statement& s, operand_rows& rows, instruction& i);
bool decode_memory(const statement& s, operand_rows& rows, instruction& i);
bool decode_atomic(const statement& s, operand_rows& rows, instruction& i);
bool decode_warp(const statement& s, operand_rows& rows, instruction& i);
bool decode_matrix(const statement& s, operand_rows& rows, instruction& i);

/// The memory behind an address of a lane. Throws failure if it is outside of shared or local memory.
std::byte* memory_at(warp& w, space where, int lane, std::uint64_t address, std::size_t bytes);

/// Counts an access of the active lanes, `bytes` each, to these addresses in shared or global memory. Generic addresses
/// are counted where they point to.
void count_access(warp& w, space where, const std::array<std::uint64_t, lanes>& addresses, mask active, int bytes,
                  bool is_store);

}  // namespace nullscope::ptx
