/// The `nullscope` program as its tests run it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/cli/command.hpp"

namespace nullscope::test {

inline command_result nullscope(const std::string& arguments) { return run_command(NULLSCOPE_PROGRAM, arguments); }

/// A mistake gets nothing on stdout, one line on stderr that holds `fragment`, and the exit code.
inline void expect_complaint(const std::string& arguments, int exit_code, const std::string& fragment) {
  const command_result result = nullscope(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << arguments;
  EXPECT_EQ(result.out, "") << arguments;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  EXPECT_EQ(result.err.rfind("nullscope: ", 0), 0u) << result.err;
  EXPECT_NE(result.err.find(fragment), std::string::npos) << result.err;
}

}  // namespace nullscope::test
