/// nullscope explain, faithfulness and experiment on a tiny classifier.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/training/text_classifier.hpp>
#include <set>

#include "lib/src/io/csv.hpp"
#include "tests/cli/nullscope_program.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

class explain_command : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<temporary_folder>();
    context ctx(select_device());
    const word_vocabulary words({"the", "film", "was", "not", "good", "bad", "fun", "plot", "actors", "great"});
    transformer_config config;
    config.layers = 1, config.width = 16, config.heads = 2, config.key_size = config.value_size = 8;
    config.feed_forward = 16, config.vocabulary = words.size(), config.positions = 24, config.classes = 2;
    transformer<float> model(ctx, config);
    model.initialise(ctx, 3);
    save_classifier(ctx, model, text_encoder(words), {"negative", "positive"}, path("model"));
    std::ofstream table(path("reviews.csv"));
    table << "text,label,marks\n";
    for (int i = 0; i < 6; ++i) {
      table << "the film was good fun,positive,0 0 0 1 1\nthe plot was bad,negative,0 0 0 1\n"
            << "great actors not bad,positive,1 0 1 0\n";
    }
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return *folder_ / name; }

  static nlohmann::json explained(const std::string& arguments, const std::string& output = "out") {
    const command_result result =
        nullscope(fmt::format("explain --overwrite --model {} --output {} {}", path("model"), path(output), arguments));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("score"), std::string::npos) << result.out;
    return nlohmann::json::parse(content_of(path(output) + "/explain.json"));
  }

  static inline std::unique_ptr<temporary_folder> folder_;
};

TEST_F(explain_command, writes_values_importances_and_errors_of_every_token) {
  const std::string text = "The film was not bad, the plot was great fun.";
  const nlohmann::json all = explained(fmt::format("--text '{}' --samples 2000", text));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["text"], text);
  EXPECT_TRUE(all[0]["score"].is_number());
  EXPECT_GE(all[0]["score"], 0);  // of the predicted class
  EXPECT_GE(all[0]["fit_error"], 0);
  ASSERT_GE(all[0]["tokens"].size(), 10u);
  for (const nlohmann::json& token : all[0]["tokens"]) {
    for (const char* name :
         {"value", "importance", "linearised", "value_error", "importance_error", "linearised_error"}) {
      EXPECT_TRUE(token.contains(name)) << name;
    }
    EXPECT_NEAR(token["linearised"], token["value"].get<double>() * std::exp(token["importance"].get<double>()), 1e-9);
    EXPECT_LT(token["begin"], token["end"]);
  }
  EXPECT_EQ(all[0]["tokens"][0]["token"], "the");
  EXPECT_EQ(all[0]["tokens"][1]["begin"], 4);
  for (const char* name : {"explain.csv", "scatter.svg", "text.svg"}) EXPECT_TRUE(fs::exists(path("out") + "/" + name));
  csv_reader table(path("out") + "/explain.csv");
  std::vector<std::string> fields;
  std::size_t rows = 0;
  while (table.next(fields)) ++rows;
  EXPECT_EQ(rows, all[0]["tokens"].size());
}

TEST_F(explain_command, has_every_method_and_fit) {
  const std::string text = "--text 'not great but fun' --samples 200 ";
  for (const char* method :
       {"lime", "shap", "linear", "additive", "gradient", "gradient-times-input", "integrated-gradients"}) {
    const nlohmann::json all = explained(text + "--method " + method);
    for (const nlohmann::json& token : all[0]["tokens"]) EXPECT_TRUE(token["attribution"].is_number()) << method;
  }
  for (const char* fit : {"sgd", "analytic", "least-squares"}) {
    EXPECT_TRUE(explained(text + "--fit " + fit)[0]["tokens"][0]["value"].is_number()) << fit;
  }
  const double one = explained(text + "--class negative")[0]["score"],
               other = explained(text + "--class 1")[0]["score"];
  EXPECT_NEAR(one, -other, 1e-6);
}

TEST_F(explain_command, explains_the_texts_of_a_file_and_repeats_itself) {
  std::ofstream(path("texts.txt")) << "the film was fun\n\nbad plot\nfun\n";
  const nlohmann::json all = explained("--file " + path("texts.txt"), "first");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1]["index"], 2);
  EXPECT_FALSE(all[2]["notes"].empty());  // one token
  explained("--file " + path("texts.txt"), "second");
  for (const char* name : {"explain.json", "explain.csv", "text_0.svg", "scatter_2.svg"}) {
    const std::string first = content_of(path("first") + "/" + name);
    EXPECT_FALSE(first.empty()) << name;
    EXPECT_EQ(first, content_of(path("second") + "/" + name)) << name;
  }
}

TEST_F(explain_command, says_what_is_wrong) {
  const std::string start = fmt::format("explain --model {} --output {} ", path("model"), path("never"));
  expect_complaint(start + "--text fun --class happy", 2,
                   "there is no class \"happy\"; the classes are: negative, positive");
  expect_complaint(start + "--text fun --method magic", 2, "magic");
  expect_complaint(start + "--text fun --text-pair film", 2, "--text-pair");
  expect_complaint(start + "--text fun --samples 0", 2, "whole number above 0");
  expect_complaint("explain --output x --text fun --model " + path("nothing"), 1, "nothing");
  EXPECT_FALSE(fs::exists(path("never")));
}

TEST_F(explain_command, measures_faithfulness) {
  const command_result result = nullscope(
      fmt::format("faithfulness --model {} --data {} --texts 5 --samples 100 --annotation-column marks --output {}",
                  path("model"), path("reviews.csv"), path("faithful")));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json rows = nlohmann::json::parse(content_of(path("faithful") + "/faithfulness.json"));
  std::set<std::string> methods;
  for (const nlohmann::json& row : rows) {
    methods.insert(row["method"]);
    EXPECT_EQ(row["deletion_aopc"]["texts"], 5);
    EXPECT_TRUE(row["insertion_aopc"]["standard_error"].is_number());
    EXPECT_TRUE(row["roc"]["mean"].is_number());
    EXPECT_GT(row["seconds_per_text"], 0);
  }
  EXPECT_EQ(methods, (std::set<std::string>{"slalom v exp(s)", "slalom v", "slalom s", "lime", "shap", "gradient",
                                            "integrated-gradients"}));
  EXPECT_TRUE(fs::exists(path("faithful") + "/curves.svg"));
  expect_complaint(
      fmt::format("faithfulness --model {} --data {} --label-column kind", path("model"), path("reviews.csv")), 1,
      "kind");
}

TEST_F(explain_command, runs_the_synthetic_experiments) {
  const std::string small = "--networks encoder --layers 1 --width 16 --epochs 1 --samples 300 --output " + path("exp");
  for (const char* name : {"linear", "surrogates", "recovery --words 12"}) {
    const command_result result = nullscope(fmt::format("experiment {} {}", name, small));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("encoder, 1 layer"), std::string::npos) << result.out;
  }
  for (const char* name : {"linear", "surrogates", "recovery"}) {
    EXPECT_TRUE(fs::exists(path("exp") + "/" + name + ".csv"));
    EXPECT_TRUE(fs::exists(path("exp") + "/" + name + ".svg"));
  }
  const command_result counts = nullscope(
      "experiment linear --networks fully-connected --hidden 4,8 --epochs 1 --samples 300 --output " + path("counts"));
  EXPECT_NE(counts.out.find("fully connected, 8"), std::string::npos) << counts.out << counts.err;
  expect_complaint("experiment linear --networks mlp", 2, "mlp");
  expect_complaint("experiment recovery --networks fully-connected", 2, "fully-connected");
}

}  // namespace
}  // namespace nullscope::test
