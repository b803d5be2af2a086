#include <nlohmann/json.hpp>

#include "command.hpp"
#include "support.hpp"

namespace nullscope::test {
namespace {

command_result nullscope(const std::string& arguments) { return run_command(NULLSCOPE_PROGRAM, arguments); }

/// A mistake gets nothing on stdout, one line on stderr that holds `fragment`, and the exit code.
void expect_complaint(const std::string& arguments, int exit_code, const std::string& fragment) {
  const command_result result = nullscope(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << arguments;
  EXPECT_EQ(result.out, "") << arguments;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(result.err.rfind("nullscope: ", 0), 0u) << result.err;
  EXPECT_NE(result.err.find(fragment), std::string::npos) << result.err;
}

TEST(cli, help_and_version_succeed) {
  for (const char* arguments : {"--help", "devices --help"}) {
    const command_result result = nullscope(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments;
    EXPECT_NE(result.out.find("nullscope"), std::string::npos) << result.out;
    EXPECT_EQ(result.err, "");
  }
  EXPECT_EQ(nullscope("--version").out.rfind("nullscope 0.", 0), 0u);
}

TEST(cli, wrong_usage_is_one_line_and_exit_code_2) {
  expect_complaint("", 2, "subcommand");
  expect_complaint("nonsense", 2, "there is no command \"nonsense\"; the commands are: devices");
  expect_complaint("devices --no-such-flag", 2, "--no-such-flag");
  expect_complaint("devices --device", 2, "--device");
}

TEST(cli, a_device_that_is_not_there_is_exit_code_1) {
  expect_complaint("devices --device 'no such device'", 1, "no device fits \"no such device\"; there are: 0 ");
}

TEST(cli, devices_prints_text_and_json) {
  const std::string name = properties(devices().front()).name;
  EXPECT_NE(nullscope("devices").out.find(name), std::string::npos);
  const auto list = nlohmann::json::parse(nullscope("devices --json --device 0").out);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["name"], name);
  EXPECT_GT(list[0]["compute_units"], 0);
}

}  // namespace
}  // namespace nullscope::test
