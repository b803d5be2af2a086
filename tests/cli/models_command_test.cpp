/// nullscope models, without a network.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/nullscope_program.hpp"

namespace nullscope::test {
namespace {

/// The program with a cache folder of its own.
class ModelsCommand : public testing::Test {
 protected:
  command_result models(const std::string& arguments) const {
    return run_command("/usr/bin/env", "XDG_CACHE_HOME='" + (cache / "") +
                                           "' PATH=/nowhere '" NULLSCOPE_PROGRAM "' models " + arguments);
  }

  temporary_folder cache;
};

TEST_F(ModelsCommand, ListsWhatThereIs) {
  for (const char* arguments : {"", "list"}) {
    const command_result result = models(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("minilm         6    384     12   91 MB  no       Apache-2.0\n"), std::string::npos)
        << result.out;
    EXPECT_NE(result.out.find("mpnet         12    768     12  438 MB  no       Apache-2.0\n"), std::string::npos)
        << result.out;
  }
}

TEST_F(ModelsCommand, ListsAsJson) {
  for (const char* arguments : {"--json", "list --json"}) {
    const command_result result = models(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json list = nlohmann::json::parse(result.out);
    ASSERT_EQ(list.size(), 2u);
    EXPECT_EQ(list[0]["name"], "minilm");
    EXPECT_EQ(list[0]["default"], true);
    EXPECT_EQ(list[0]["fetched"], false);
    EXPECT_EQ(list[1]["layers"], 12);
    EXPECT_EQ(list[1]["folder"], cache / "nullscope/models/mpnet-0.0.1");
  }
}

TEST_F(ModelsCommand, SaysWhyAModelCannotBeFetched) {
  for (const char* arguments : {"fetch minilm", "path minilm", "path"}) {
    const command_result result = models(arguments);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find("Fetching minilm"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("nullscope: model minilm: cannot be fetched without python3"), std::string::npos)
        << result.err;
  }
}

TEST_F(ModelsCommand, RefusesWhatItDoesNotKnow) {
  expect_complaint("models fetch bert", 2, "there is no model \"bert\"; the models are: minilm, mpnet");
  expect_complaint("models paths", 2, "");
}

}  // namespace
}  // namespace nullscope::test
