/// nullscope structure: its files, options and complaints.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nullscope/core/device.hpp>
#include <nullscope/io/safetensors.hpp>
#include <nullscope/model/model_folder.hpp>

#include "lib/src/io/csv.hpp"
#include "tests/cli/nullscope_program.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

/// A random model of 2 layers and 3 heads with a tokenizer, and texts of different lengths.
class structure_command : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path models = NULLSCOPE_MODEL_DATA, tokenizers = NULLSCOPE_TOKENIZER_DATA;
    const model_description description = describe_model(models / "bert");
    context ctx(select_device());
    transformer<float> model(ctx, description.config);
    model.initialise(ctx, 1);
    save_transformer(ctx, model, description, path("bert"));
    fs::copy(tokenizers / "bert_uncased" / "tokenizer.json", path("bert"));
    std::ofstream texts(path("texts.txt"));
    for (const char* word : {"one", "two", "head", "row", "token", "matrix", "query"}) {
      texts << "the attention of " << word << " is a row of weights and the sum of them is one\n";
    }
    texts << "short\n";
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string arguments(const std::string& more) const {
    return fmt::format("structure --model {} --file {} --output {} {}", path("bert"), path("texts.txt"), path("out"),
                       more);
  }

  /// The rows of structure.csv: how many there are of each quantity, and the sum of their values.
  std::map<std::string, std::pair<std::int64_t, double>> quantities() const {
    std::map<std::string, std::pair<std::int64_t, double>> found;
    csv_reader table(path("out") + "/structure.csv");
    for (std::vector<std::string> fields; table.next(fields);) {
      auto& [count, sum] = found[fields[table.column("quantity")]];
      ++count;
      sum += std::stod(fields[table.column("value")]);
    }
    return found;
  }

  const temporary_folder folder_;
};

TEST_F(structure_command, writes_w_dimensions_distances_and_pictures) {
  const command_result result = nullscope(arguments("--length 12 --cut 0.1 --representatives 3 --distances 2"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("1 of 8 texts have fewer than 12 tokens and are left out"), std::string::npos)
      << result.err;
  EXPECT_NE(result.out.find("W of 3 texts"), std::string::npos) << result.out;
  const safetensors_file file(path("out") + "/structure.safetensors");
  const auto w = file.read<float>(file.at("w", {2, 3, 12, 12})),
             mean = file.read<float>(file.at("mean", {2, 3, 12, 12}));
  file.at("spectrum", {2, 3, 12});
  for (std::size_t row = 0; row < 2 * 3 * 12; ++row) {
    double of_w = 0, of_mean = 0;
    for (std::size_t j = 0; j < 12; ++j) {
      of_w += static_cast<double>(w[row * 12 + j]);
      of_mean += static_cast<double>(mean[row * 12 + j]);
      if (mean[row * 12 + j] < 0.1f) {
        EXPECT_EQ(w[row * 12 + j], 0);
      }
    }
    EXPECT_NEAR(of_mean, 1, 1e-5);
    EXPECT_TRUE(of_w == 0 || std::abs(of_w - 1) < 1e-5);
  }
  const auto found = quantities();
  EXPECT_EQ(found.at("dim_r").first, 6 * 4);  // after 1, 2, 4 and 7 texts
  EXPECT_EQ(found.at("plain_distance").first, 6 * 2);
  EXPECT_GT(found.at("plain_distance").second, 0);
  EXPECT_EQ(found.at("switched_off").first, 6 * 2);
  EXPECT_EQ(found.at("emptied_rows").first, 6);
  for (const char* name : {"structure.svg", "w.svg"}) {
    EXPECT_EQ(content_of(path("out") + "/" + name).find("nan"), std::string::npos) << name;
    EXPECT_NE(content_of(path("out") + "/" + name).find("</svg>"), std::string::npos) << name;
  }
  EXPECT_EQ(content_of(path("out") + "/clusters.csv").rfind("clusters,within,between\n1,", 0), 0u);
}

TEST_F(structure_command, pads_short_texts_and_says_if_everything_is_cut) {
  const command_result result =
      nullscope(arguments("--length 12 --cut 1.5 --representatives 0 --other-lengths pad --effective"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("are padded"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("72 of 72 rows are empty"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("try a smaller --cut"), std::string::npos) << result.out;
  EXPECT_FALSE(fs::exists(path("out") + "/clusters.csv"));
}

TEST_F(structure_command, refuses_bad_input) {
  expect_complaint(arguments("--length 12 --other-lengths refuse"), 1, "texts.txt, line 1: the text has more than 12");
  expect_complaint(arguments("--length 34"), 2, "--length 34: the model reads at most 33 tokens");
  expect_complaint(arguments("--length 33"), 1, "no text has 33 tokens");
  expect_complaint(arguments("--length 12 --cut -1"), 2, "--cut");
  expect_complaint(arguments("--length 12 --cut-factor 1"), 2, "--cut-factor");
  expect_complaint(arguments(""), 2, "--length");
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(structure_command, experiments_have_help_and_refuse_what_has_no_null_space) {
  EXPECT_NE(nullscope("experiment reversal --help").out.find("Examples:"), std::string::npos);
  expect_complaint("experiment reversal --value-size 19", 2, "--value-size must be below");
}

}  // namespace
}  // namespace nullscope::test
