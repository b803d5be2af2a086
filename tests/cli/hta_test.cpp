/// nullscope hta: files, reports, resumed runs, mistakes.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nullscope/io/safetensors.hpp>

#include "lib/src/io/csv.hpp"
#include "tests/cli/nullscope_program.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

const fs::path models = NULLSCOPE_MODEL_DATA, tokenizers = NULLSCOPE_TOKENIZER_DATA;

class hta_command : public testing::Test {
 protected:
  void SetUp() override {
    fs::copy(models / "bert", path("bert"));  // 2 layers, width 21, 3 heads, at most 33 tokens
    fs::copy(tokenizers / "bert_uncased" / "tokenizer.json", path("bert"));
    std::ofstream(path("texts.txt")) << "The attention of one head.\nOne\nA hidden token is not its input token.\n";
  }

  std::string path(const std::string& name) const { return folder_ / name; }

  command_result hta(const std::string& arguments, const std::string& output = "out.safetensors") const {
    return nullscope(fmt::format("hta --model {} {} --output {}", path("bert"), arguments, path(output)));
  }

  void expect_hta_complaint(const std::string& arguments, int exit_code, const std::string& fragment) const {
    expect_complaint(fmt::format("hta --model {} {} --output {}", path("bert"), arguments, path("never")), exit_code,
                     fragment);
    EXPECT_FALSE(fs::exists(path("never")));
  }

  const temporary_folder folder_;
};

void expect_rows_to_sum_to_one(const std::vector<double>& contribution, std::size_t s) {
  for (std::size_t row = 0; row < contribution.size(); row += s) {
    double sum = 0;
    for (std::size_t i = row; i < row + s; ++i) sum += contribution[i];
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

TEST_F(hta_command, one_text_gives_contributions_and_norms_of_all_layers) {
  const command_result result = hta("--ids 2,5,9,3 --type f64");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const safetensors_file file(path("out.safetensors"));
  expect_rows_to_sum_to_one(file.read<double>(file.at("contribution", {2, 4, 4})), 4);
  EXPECT_EQ(file.find("standard_error"), nullptr);
  ASSERT_EQ(hta("--ids 2,5,9,3 --type f64 --layers 2 --samples 7", "some.safetensors").exit_code, 0);
  const safetensors_file some(path("some.safetensors"));
  const auto all = file.read<double>("contribution"), last = some.read<double>(some.at("contribution", {1, 4, 4}));
  const auto error = some.read<double>(some.at("standard_error", {1, 4, 4}));
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_GT(error[i], 0);
    EXPECT_NEAR(last[i], all[16 + i], 8 * error[i]);
  }
}

TEST_F(hta_command, a_file_gives_one_group_per_text_and_a_report) {
  const command_result result =
      hta(fmt::format("--file {} --samples 4 --report {}", path("texts.txt"), path("report")));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("3 texts"), std::string::npos) << result.out;
  const safetensors_file file(path("out.safetensors"));
  for (const char* name : {"0/contribution", "1/contribution", "2/contribution"}) {
    const std::int64_t s = file.at(name).shape[1];
    expect_rows_to_sum_to_one(file.read<double>(file.at(name, {2, s, s})), static_cast<std::size_t>(s));
  }
  for (const char* name :
       {"distance.csv", "offset.csv", "first_token.csv", "report.svg", "classes.svg", "heat_map.svg"}) {
    EXPECT_GT(fs::file_size(fs::path(path("report")) / name), 0u) << name;
  }
  csv_reader own(fs::path(path("report")) / "own.csv");
  std::vector<std::string> fields;
  ASSERT_TRUE(own.next(fields));
  EXPECT_EQ(fields[own.column("layer")], "1");
  const double median = std::stod(fields[own.column("median")]);
  EXPECT_GT(median, 0);
  EXPECT_LT(median, 1);
  const std::string classes = content_of(fs::path(path("report")) / "classes.csv");
  for (const char* name : {"[CLS]", "[SEP]", "punctuation", "word"}) {
    EXPECT_NE(classes.find(name), std::string::npos) << name;
  }
}

TEST_F(hta_command, a_column_of_tags_gives_own_contribution_by_tag) {
  std::ofstream(path("tagged.csv")) << "text,tags,second,second_tags\n"
                                       "The attention  of one head .,DT NN IN CD NN PUNCT,One head .,CD NN PUNCT\n"
                                       "One hidden token,CD JJ NN,A token,DT NN\n";
  const std::string arguments = fmt::format("--file {} --text-column text --tag-column tags --samples 4 --report {}",
                                            path("tagged.csv"), path("report"));
  const fs::path report(path("report"));
  const auto tokens_of = [&] {  // of each tag in the first layer
    csv_reader table(report / "tags.csv");
    std::map<std::string, int> tokens;
    for (std::vector<std::string> fields; table.next(fields);) {
      if (fields[table.column("layer")] == "1") {
        tokens[fields[table.column("tag")]] = std::stoi(fields[table.column("tokens")]);
      }
    }
    return tokens;
  };
  ASSERT_EQ(hta(arguments + " --words").exit_code, 0);
  const std::map<std::string, int> words{{"CD", 2}, {"DT", 1},    {"IN", 1},    {"JJ", 1},
                                         {"NN", 3}, {"PUNCT", 1}, {"[CLS]", 2}, {"[SEP]", 2}};
  EXPECT_EQ(tokens_of(), words);
  const command_result pairs =
      hta(arguments + " --pair-column second --pair-tag-column second_tags --words --overwrite");
  ASSERT_EQ(pairs.exit_code, 0) << pairs.err;
  const std::map<std::string, int> of_pairs{{"CD", 3}, {"DT", 2},    {"IN", 1},    {"JJ", 1},
                                            {"NN", 5}, {"PUNCT", 2}, {"[CLS]", 2}, {"[SEP]", 4}};
  EXPECT_EQ(tokens_of(), of_pairs);
  EXPECT_NE(content_of(report / "tags.svg").find("PUNCT (2)"), std::string::npos);
  // Without --words, every piece of a word has the tag of its word.
  ASSERT_EQ(hta(arguments + " --overwrite").exit_code, 0);
  EXPECT_GE(tokens_of().at("NN"), 3);

  std::ofstream(path("wrong.csv")) << "text,tags\nOne head,CD NN\nOne head.,CD NN PUNCT\n";
  expect_hta_complaint(fmt::format("--file {} --text-column text --tag-column tags", path("wrong.csv")), 1,
                       "wrong.csv, line 3: 3 tags for 2 words; there must be one for each word between white space");
  expect_hta_complaint(fmt::format("--file {} --tag-column tags", path("texts.txt")), 2,
                       "--tag-column needs --text-column");
}

TEST_F(hta_command, bf16_rounds_the_factors_of_products) {
  ASSERT_EQ(hta("--ids 2,5,9,3").exit_code, 0);
  ASSERT_EQ(hta("--ids 2,5,9,3 --type bf16", "rounded.safetensors").exit_code, 0);
  const safetensors_file whole(path("out.safetensors")), rounded(path("rounded.safetensors"));
  const auto expected = whole.read<double>("contribution"), got = rounded.read<double>("contribution");
  ASSERT_EQ(got.size(), expected.size());
  EXPECT_NE(got, expected);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 0.04 * expected[i]) << i;
}

TEST_F(hta_command, an_interrupted_run_continues_to_the_same_bits) {
  const std::string arguments = fmt::format("--file {} --samples 3 --seed 5", path("texts.txt"));
  ASSERT_EQ(hta(arguments, "whole.safetensors").exit_code, 0);
  // An output that cannot be written leaves the journal with all finished units.
  fs::create_directory(path("blocked.safetensors"));
  EXPECT_EQ(hta(arguments + " --overwrite", "blocked.safetensors").exit_code, 1);
  ASSERT_TRUE(fs::exists(path("blocked.safetensors.journal")));
  fs::remove(path("blocked.safetensors"));
  const command_result resumed = hta(arguments + " --resume", "blocked.safetensors");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(content_of(path("blocked.safetensors")), content_of(path("whole.safetensors")));
  EXPECT_FALSE(fs::exists(path("blocked.safetensors.journal")));
}

TEST_F(hta_command, several_devices_write_the_same_bytes) {
  const std::string arguments = "--file " + path("texts.txt") + " --samples 4";
  ASSERT_EQ(hta(arguments, "one").exit_code, 0);
  for (const std::string devices : {"cpu:0,cpu:0", "all"}) {
    const command_result result = hta(arguments + " --device " + devices, devices);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(content_of(path("one")) == content_of(path(devices))) << devices;
  }
}

TEST_F(hta_command, words_gather_their_tokens) {
  ASSERT_EQ(hta("--text 'The attention of one head.' --words").exit_code, 0);
  ASSERT_EQ(hta("--text 'The attention of one head.'", "tokens.safetensors").exit_code, 0);
  const safetensors_file words(path("out.safetensors")), tokens(path("tokens.safetensors"));
  const std::int64_t s = words.at("contribution").shape[1];
  EXPECT_LE(s, tokens.at("contribution").shape[1]);
  expect_rows_to_sum_to_one(words.read<double>("contribution"), static_cast<std::size_t>(s));
}

TEST_F(hta_command, mistakes_are_named) {
  expect_hta_complaint("--ids 2,3 --samples 22", 2, "the model has 21 directions");
  expect_hta_complaint("--ids 2,3 --layers 2,1", 2, "--layers must be ascending, from 1 to 2");
  expect_hta_complaint("--ids 2,3 --layers 3", 2, "--layers must be ascending, from 1 to 2");
  expect_hta_complaint("--ids 2,3 --norm spectral --samples 2", 2, "--norm spectral is exact");
  expect_hta_complaint("--ids 2,3 --norm best", 2, "--norm");
  expect_hta_complaint("--ids 2,3 --from 2", 2, "--from");
  expect_hta_complaint("--ids 2,3 --words", 2, "--words needs text");
  expect_hta_complaint("--ids 2,3 --memory 10KB", 1, "is too small for one tangent per sequence; the least is");
}

}  // namespace
}  // namespace nullscope::test
