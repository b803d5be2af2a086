/// nullscope identify: tables, charts, resumed runs, mistakes.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "lib/src/io/csv.hpp"
#include "tests/cli/nullscope_program.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

class identify_command : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path models = NULLSCOPE_MODEL_DATA, tokenizers = NULLSCOPE_TOKENIZER_DATA;
    fs::copy(models / "bert", path("bert"));  // 2 layers, width 21, 3 heads, at most 33 tokens
    fs::copy(tokenizers / "bert_uncased" / "tokenizer.json", path("bert"));
    std::ofstream texts(path("texts.txt"));
    for (const char* word : {"one", "two", "head", "row", "token", "matrix", "query", "key", "value"}) {
      texts << "the attention of " << word << " is a row of weights\n" << word << "\n";
    }
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string arguments(const std::string& more, const std::string& output = "out") const {
    return fmt::format("identify --model {} --file {} --output {} {}", path("bert"), path("texts.txt"), path(output),
                       more);
  }

  /// Rows of identify.csv for each experiment, map and distance; all rates are possible.
  std::map<std::tuple<std::string, std::string, std::string>, int> rows(const std::string& output = "out") const {
    std::map<std::tuple<std::string, std::string, std::string>, int> found;
    csv_reader table(path(output) + "/identify.csv");
    for (std::vector<std::string> fields; table.next(fields);) {
      ++found[{fields[table.column("experiment")], fields[table.column("map")], fields[table.column("distance")]}];
      EXPECT_GT(std::stol(fields[table.column("tokens")]), 0);
      EXPECT_LE(std::stol(fields[table.column("correct")]), std::stol(fields[table.column("tokens")]));
    }
    return found;
  }

  const temporary_folder folder_;
};

constexpr const char* quick = "--folds 3 --epochs 2 --batch 32 --hidden-units 8 ";

TEST_F(identify_command, writes_all_maps_and_distances_of_all_layers) {
  const command_result result = nullscope(arguments(quick));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("18 texts"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("mlp, cosine"), std::string::npos) << result.out;
  EXPECT_EQ(content_of(path("out") + "/identify.csv")
                .rfind("experiment,map,distance,trained_on,tested_on,offset,fold,tokens,correct\n", 0),
            0u);
  const auto found = rows();
  EXPECT_EQ(found.size(), 6u);
  for (const auto& [name, count] : found) EXPECT_EQ(count, 2 * 3) << std::get<1>(name);
  const auto json = nlohmann::json::parse(content_of(path("out") + "/identify.json"));
  EXPECT_EQ(json["settings"]["texts"], 18);
  EXPECT_EQ(json["rates"].size(), 2u * 6);
  EXPECT_EQ(json["training"].size(), 4u * 2 * 3);
  EXPECT_EQ(json["training"][0]["epochs"], 2);
  EXPECT_GT(fs::file_size(path("out") + "/layers.svg"), 1000u);
  EXPECT_FALSE(fs::exists(path("out") + "/identify.journal"));
}

TEST_F(identify_command, runs_the_other_experiments) {
  const command_result result =
      nullscope(arguments(std::string(quick) + "--experiment transfer,generalisation,steps,neighbours --distance l2 "
                                               "--map identity,least-squares --quiet"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  const auto found = rows();
  const auto count = [&](const char* experiment, const char* map) {
    const auto row = found.find({experiment, map, "l2"});
    return row == found.end() ? 0 : row->second;
  };
  EXPECT_EQ(count("transfer", "identity"), 2 * 3);
  EXPECT_EQ(count("transfer", "least-squares"), 2 * 2 * 3);
  EXPECT_EQ(count("generalisation-training", "least-squares"), 2 * 3);
  EXPECT_EQ(count("generalisation-test", "least-squares"), 2 * 3);
  EXPECT_EQ(count("generalisation-test-50", "least-squares"), 3);
  EXPECT_EQ(count("steps", "identity"), 2 * 3);
  EXPECT_EQ(count("neighbours", "least-squares"), 6 * 2 * 3);
  for (const char* name : {"transfer.svg", "generalisation.svg", "steps.svg", "neighbours.svg"}) {
    EXPECT_GT(fs::file_size(fs::path(path("out")) / name), 1000u) << name;
  }
}

TEST_F(identify_command, continues_where_it_was_stopped) {
  const std::string options = std::string(quick) + "--map identity,linear --distance cosine ";
  ASSERT_EQ(nullscope(arguments(options, "whole")).exit_code, 0);
  fs::create_directories(path("out") + "/layers.svg/in_the_way");  // the chart cannot be written
  EXPECT_EQ(nullscope(arguments(options + "--overwrite")).exit_code, 1);
  ASSERT_TRUE(fs::exists(path("out") + "/identify.journal"));
  fs::remove_all(path("out") + "/layers.svg");
  // One of the two units is left: the line of the other one is incomplete.
  const std::string journal = content_of(path("out") + "/identify.journal");
  std::ofstream(path("out") + "/identify.journal") << journal.substr(0, journal.size() - 5);
  const command_result resumed = nullscope(arguments(options + "--resume"));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("2 units of work, 1 of them finished"), std::string::npos) << resumed.out;
  for (const char* name : {"identify.csv", "layers.svg", "identify.json"}) {
    EXPECT_EQ(content_of(path("out/") + name), content_of(path("whole/") + name)) << name;
  }
  const command_result again = nullscope(arguments(options + "--resume"));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.out.find("already finished"), std::string::npos) << again.out;
  EXPECT_EQ(nullscope(arguments(options + "--seed 2 --resume")).exit_code, 1);
}

TEST_F(identify_command, complains_of_mistakes) {
  const std::string start = "identify --model " + path("bert") + " --output " + path("never") + " ";
  expect_complaint(arguments("--folds 19", "never"), 1, "18 texts are too few for 19 folds");
  expect_complaint(arguments("--layers 3", "never"), 2, "the model has 2 layers");
  expect_complaint(arguments("--map quadratic", "never"), 2, "quadratic");
  expect_complaint(arguments("--distance l1", "never"), 2, "l1");
  expect_complaint(arguments("--experiment figure2a", "never"), 2, "figure2a");
  expect_complaint(arguments("--epochs 0", "never"), 2, "is not a whole number above 0");
  expect_complaint(start + "--text one", 2, "--file is needed");
  std::ofstream(path("empty.txt")).close();
  expect_complaint(start + "--file " + path("empty.txt"), 1, "empty.txt");
  expect_complaint(start + "--file " + path("nowhere.txt"), 1, "nowhere.txt");
  EXPECT_FALSE(fs::exists(path("never")));
}

}  // namespace
}  // namespace nullscope::test
