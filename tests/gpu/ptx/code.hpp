/// A kernel as the machine runs it: calls are inlined, names are places.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpu/ptx/types.hpp"

namespace nullscope::ptx {

constexpr int lanes = 32;    // of a warp
using mask = std::uint32_t;  // a bit per lane
constexpr mask all_lanes = ~mask{0};

class warp;
struct instruction;

/// Where the values of a register stand, one per lane: in the warp's registers, or among the constants of the kernel.
struct row {
  std::uint32_t offset = 0;  // bytes
  std::uint8_t bytes = 0;    // of a lane's value; 0: there is no such operand
  bool is_constant = false;

  explicit operator bool() const { return bytes != 0; }
};

enum class space { generic, global, shared, local, constant, parameter };

/// Kinds of instructions, as they are counted.
enum class kind {
  fma,       ///< multiply-add of floating point
  mma,       ///< on tensor cores
  floating,  ///< other floating point
  special,   ///< ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh
  integer,   ///< and logic, comparisons, selections
  convert,
  move,  ///< also address conversions and parameters of calls: mostly free on the device
  load_global,
  store_global,
  load_shared,
  store_shared,
  load_local,
  store_local,
  load_constant,  ///< and parameters
  atomic,
  copy_async,  ///< from global to shared memory
  shuffle,     ///< and votes
  barrier,
  branch,
  count
};

constexpr std::array<std::string_view, static_cast<std::size_t>(kind::count)> kind_names{
    "fma",         "mma",          "floating",    "special",      "integer",    "convert",     "move",
    "load_global", "store_global", "load_shared", "store_shared", "load_local", "store_local", "load_constant",
    "atomic",      "copy_async",   "shuffle",     "barrier",      "branch"};

/// What an instruction does to the flow of its warp.
enum class control {
  none,
  together,  ///< waits for all lanes that its members name
  branch,
  branch_indexed,
  leave,
  barrier
};

using handler = void (*)(warp&, const instruction&, mask);

struct instruction {
  handler run = nullptr;
  kind counted = kind::integer;
  control flow = control::none;
  bool is_negated = false;  // of the predicate
  row predicate;
  row members;  // masks of lanes that must arrive together; none: all
  std::array<row, 8> to;
  std::array<row, 26> from;
  int to_count = 0, from_count = 0;
  space where = space::generic;
  std::int64_t offset = 0;             // of an address
  std::int64_t number = 0;             // what else the handler must know
  std::vector<std::uint32_t> targets;  // of a branch
  std::string_view text;
};

/// A kernel's parameter or a variable of the module.
struct variable {
  std::string name;
  space where;
  std::size_t bytes = 0, alignment = 1;
  std::vector<std::byte> content;   // empty: zeros
  bool is_sized_by_launch = false;  // shared memory as large as a launch says
};

struct parameter {
  std::size_t offset, bytes;
};

struct kernel_code {
  std::string name;
  std::vector<parameter> parameters;
  std::vector<instruction> instructions;
  std::size_t register_bytes = 0;              // of a warp
  std::size_t local_bytes = 0;                 // of a lane
  std::size_t shared_bytes = 0;                // of a work-group, without what a launch adds
  std::vector<std::byte> constants;            // rows
  std::vector<std::vector<std::byte>> memory;  // variables of the module in global and constant memory
};

}  // namespace nullscope::ptx
