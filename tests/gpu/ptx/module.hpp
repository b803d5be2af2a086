/// PTX as it is written: functions with their statements, variables. The text must outlive what was read from it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpu/ptx/code.hpp"

namespace nullscope::ptx {

struct operand {
  enum class form { name, number, memory, list };  // list: {a, b} and p|q
  form is = form::name;
  std::string_view name;    // of a register, a variable or a label; in memory: of the base, empty for an address alone
  std::uint64_t bits = 0;   // of a number
  int float_bits = 0;       // of a number: 32 or 64 if it is written as the bits of a floating-point number
  std::int64_t offset = 0;  // in memory, behind the base
  std::vector<operand> parts;
};

/// `.reg .b32 %r<5>;` or `.local .align 4 .b8 name[16];`
struct declaration {
  std::string_view space, name;              // of registers: the name without its number
  std::vector<std::string_view> more_names;  // declared in the same statement
  type element = type::b8;
  std::int64_t count = 1;  // of numbered registers, or of an array's elements
  bool is_numbered = false, is_array = false, has_size = true;
  std::size_t alignment = 1;
  std::vector<std::uint64_t> values;  // of its elements

  std::size_t bytes() const { return static_cast<std::size_t>(count * bytes_of(element)); }
};

struct statement {
  enum class form { instruction, label, declaration, targets, begin_scope, end_scope };
  form is = form::instruction;
  std::string_view text;
  std::string_view guard;  // the predicate's register
  bool is_negated = false;
  std::vector<std::string_view> op;  // split at the points
  std::vector<operand> operands;
  std::string_view name;  // of a label, or of a list of labels
  declaration declared;

  bool has(std::string_view part) const;
};

struct function {
  std::string_view name;
  bool is_entry = false, has_body = false;
  std::vector<declaration> results, parameters;
  std::vector<statement> body;
};

struct module {
  std::map<std::string_view, function> functions;
  std::vector<declaration> variables;
};

/// Throws failure, with the statement that it does not understand.
module parse_module(std::string_view text);

}  // namespace nullscope::ptx
