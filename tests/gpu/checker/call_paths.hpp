/// Where in the source something happened: the line, and the lines that called it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nullscope::races {

/// An instruction, and the calls that led to it.
struct code_place {
  std::uint32_t instruction = 0;  ///< its offset in this library
  std::uint32_t caller = 0;       ///< a call of call_paths
  bool operator==(const code_place&) const = default;
  auto operator<=>(const code_place&) const = default;
};

class call_paths {
 public:
  call_paths();
  ~call_paths();
  call_paths(const call_paths&) = delete;
  call_paths& operator=(const call_paths&) = delete;

  static constexpr std::uint32_t outermost = 0;

  /// The call, from `caller`, that returns to this address; the same number each time.
  std::uint32_t enter(std::uint32_t caller, const void* returns_to);
  std::uint32_t leave(std::uint32_t call) const { return calls_[call].caller; }

  code_place place_of(const void* returns_to, std::uint32_t caller) const { return {offset_of(returns_to), caller}; }

  /// "kernels/linalg/row.hpp:33", and the lines that called it, from within. Only lines of kernels: not those of the
  /// stand-in, nor of the checker.
  const std::vector<std::string>& lines_of(const code_place& place);

  /// The lines as one text.
  std::string text_of(const code_place& place);

 private:
  std::uint32_t offset_of(const void* returns_to) const {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(returns_to) - base_ - 1);
  }
  void add_lines(std::uint32_t instruction, std::vector<std::string>& lines);
  const std::vector<std::string>& lines_of_instruction(std::uint32_t instruction);

  std::uintptr_t base_;                                       // of this library in memory
  std::vector<code_place> calls_ = {{}};                      // by number; 0 is no call
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // of calls
  std::map<code_place, std::vector<std::string>> lines_;
  std::unordered_map<std::uint32_t, std::vector<std::string>> lines_of_instructions_;
  FILE *questions_ = nullptr, *answers_ = nullptr;  // of addr2line
  int process_ = -1;
};

}  // namespace nullscope::races
