/// nullscope attention: its files, options and complaints.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/model/model_folder.hpp>
#include <nullscope/text/text_encoder.hpp>

#include "lib/src/io/csv.hpp"
#include "tests/cli/nullscope_program.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

/// Random models of a few heads with tokenizers, and texts of different lengths.
class attention_command : public testing::Test {
 protected:
  void SetUp() override {
    make_model("bert", "bert_uncased");
    std::ofstream texts(path("texts.txt"));
    for (const char* word : {"one", "two", "matrix", "query"}) {
      texts << "the attention of " << word << ", a row of weights, is not the sum of them.\n";
    }
    texts << "\nshort\n";
  }

  /// The shape is that of a model of the test data, with the vocabulary of a tokenizer.
  void make_model(const std::string& name, const std::string& tokenizer) const {
    const fs::path models = NULLSCOPE_MODEL_DATA, tokenizers = NULLSCOPE_TOKENIZER_DATA;
    model_description description = describe_model(models / name);
    description.config.vocabulary = text_encoder(tokenizers / tokenizer).vocabulary_size();
    context ctx(select_device());
    transformer<float> model(ctx, description.config);
    model.initialise(ctx, 1);
    save_transformer(ctx, model, description, path(name));
    fs::copy(tokenizers / tokenizer / "tokenizer.json", path(name));
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string arguments(const std::string& more = "", const std::string& model = "bert") const {
    return fmt::format("attention --model {} --file {} --output {} {}", path(model), path("texts.txt"), path("out"),
                       more);
  }
  std::vector<std::map<std::string, std::string>> table(const std::string& name) const {
    csv_reader reader(path("out") + "/" + name);
    std::vector<std::map<std::string, std::string>> rows;
    for (std::vector<std::string> fields; reader.next(fields);) {
      auto& row = rows.emplace_back();
      for (const std::string& column : reader.columns()) row[column] = fields[reader.column(column)];
    }
    return rows;
  }
  nlohmann::json json() const { return nlohmann::json::parse(std::ifstream(path("out") + "/attention.json")); }

  const temporary_folder folder_;
};

TEST_F(attention_command, writes_classes_heads_and_pictures) {
  const command_result result = nullscope(arguments("--rollout"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("1 of 6 texts were empty"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("5 texts, 2 layers of 3 heads; effective attention with all tokens"), std::string::npos)
      << result.out;

  std::map<std::string, double> sums;  // over all classes `to`, by layer, head and class `from`
  for (const auto& row : table("classes.csv")) {
    sums[row.at("layer") + "/" + row.at("head") + "/" + row.at("from")] += std::stod(row.at("raw"));
    EXPECT_NEAR(std::stod(row.at("raw")) - std::stod(row.at("effective")), std::stod(row.at("null")), 1e-6);
  }
  EXPECT_EQ(sums.size(), 2u * 3 * 5);  // [CLS], [SEP], periods and commas, other, all
  for (const auto& [key, sum] : sums) EXPECT_NEAR(sum, 1, 1e-5) << key;

  const auto heads = table("heads.csv");
  EXPECT_EQ(heads.size(), 5u * 6);
  for (const auto& row : heads) {
    EXPECT_LE(std::stod(row.at("rank")), std::stod(row.at("tokens")));
    EXPECT_LE(std::stod(row.at("effective_norm")), 1.0001 * std::stod(row.at("raw_norm")));
  }
  EXPECT_EQ(heads.back().at("text"), "5");  // the empty one counts
  const text_encoder encoder{fs::path(path("bert"))};
  EXPECT_EQ(heads.back().at("tokens"), std::to_string(encoder.encode("short").ids.size()));

  std::map<std::string, double> rollout;
  for (const auto& row : table("rollout.csv")) {
    rollout["raw" + row.at("layer") + row.at("from")] += std::stod(row.at("raw"));
    rollout["effective" + row.at("layer") + row.at("from")] += std::stod(row.at("effective"));
  }
  for (const auto& [key, sum] : rollout) EXPECT_NEAR(sum, 1, 1e-5) << key;

  const nlohmann::json all = json();
  EXPECT_EQ(all["projection"], "full");
  EXPECT_EQ(all["of_heads"].size(), 6u);
  EXPECT_EQ(all["classes"][0]["name"], "[CLS]");
  EXPECT_EQ(all["classes"][0]["tokens"], 5);
  EXPECT_EQ(all["classes"][2]["tokens"], 12);  // two commas and a period in each of four texts
  EXPECT_GT(fs::file_size(path("out") + "/attention.svg"), 2000u);
}

TEST_F(attention_command, takes_decoders_by_rows) {
  make_model("gpt2_bf16", "gpt2_json");
  const command_result result = nullscope(arguments("", "gpt2_bf16"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(json()["projection"], "rows");
  EXPECT_FALSE(fs::exists(path("out") + "/rollout.csv"));
  ASSERT_EQ(nullscope(arguments("--projection full --overwrite", "gpt2_bf16")).exit_code, 0);
  EXPECT_EQ(json()["projection"], "full");
}

TEST_F(attention_command, takes_classes_from_a_file) {
  const text_encoder encoder{fs::path(path("bert"))};
  std::ofstream classes(path("classes.txt"));
  std::ifstream texts(path("texts.txt"));
  for (std::string line; std::getline(texts, line);) {
    if (line.empty()) {
      classes << "\n";
      continue;
    }
    for (std::size_t i = 0; i < encoder.encode(line).ids.size(); ++i) classes << (i % 2 == 0 ? "even " : "odd\t");
    classes << "\n";
  }
  classes.close();
  const command_result result = nullscope(arguments("--classes " + path("classes.txt")));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(json()["classes"][0]["name"], "even");
  EXPECT_EQ(table("classes.csv").size(), 6u * 3 * 2);

  std::ofstream(path("classes.txt"), std::ios::app) << "even odd\n";
  const command_result longer = nullscope(arguments("--classes " + path("classes.txt")));
  EXPECT_EQ(longer.exit_code, 1);
  EXPECT_NE(longer.err.find("line 7: classes of a text that is not there"), std::string::npos) << longer.err;

  std::ofstream(path("classes.txt")) << "even odd even\n";
  const command_result wrong = nullscope(arguments("--classes " + path("classes.txt")));
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_NE(wrong.err.find("classes.txt, line 1: 3 classes for a text of"), std::string::npos) << wrong.err;
}

TEST_F(attention_command, complains_of_what_does_not_fit) {
  const auto complaint = [&](const std::string& line, int exit_code, const std::string& part) {
    const command_result result = nullscope(line);
    EXPECT_EQ(result.exit_code, exit_code) << line;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  };
  complaint(arguments("--projection rows"), 2, "this model is not causal");
  complaint(arguments("--projection half"), 2, "--projection");
  complaint(arguments("--classes " + path("nothing")), 1, "nothing");
  complaint("attention --model " + path("bert") + " --ids 1,2 --output " + path("out"), 2, "--ids needs --classes");
  std::ofstream(path("texts.txt")) << "\n\n";
  complaint(arguments(), 1, "there are no texts");
}

}  // namespace
}  // namespace nullscope::test
