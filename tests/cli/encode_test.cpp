/// nullscope encode, and what reads its files; nullscope sweep over the heads of a model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nullscope/io/safetensors.hpp>

#include "lib/src/io/csv.hpp"
#include "tests/cli/nullscope_program.hpp"
#include "tests/core/residuals.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

const fs::path models = NULLSCOPE_MODEL_DATA, tokenizers = NULLSCOPE_TOKENIZER_DATA;

/// Small models with tokenizers, and a folder for results.
class encode_command : public testing::Test {
 protected:
  void SetUp() override {
    fs::copy(models / "bert", path("bert"));  // 2 layers, width 21, 3 heads, at most 33 tokens
    fs::copy(tokenizers / "bert_uncased" / "tokenizer.json", path("bert"));
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string bert() const { return "--model " + path("bert"); }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  /// Runs encode, which must succeed, and opens what it wrote.
  safetensors_file encode(const std::string& arguments) const {
    const command_result result =
        nullscope(fmt::format("encode --overwrite {} --output {}", arguments, path("out.safetensors")));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("out.safetensors"), std::string::npos) << result.out;
    return safetensors_file(path("out.safetensors"));
  }

  void expect_encode_complaint(const std::string& arguments, int exit_code, const std::string& fragment) const {
    expect_complaint(fmt::format("encode {} --output {}", arguments, path("never")), exit_code, fragment);
    EXPECT_FALSE(fs::exists(path("never")));
  }

  const temporary_folder folder_;
};

std::vector<double> part(const std::vector<double>& x, std::int64_t first, std::int64_t count) {
  return {x.begin() + first, x.begin() + first + count};
}

TEST_F(encode_command, ids_need_no_tokenizer_and_give_the_hidden_states_of_transformers) {
  const fs::path model = models / "distilbert_f16";  // 3 layers, width 33
  const safetensors_file expected(model / "expected.safetensors");
  const auto ids = expected.read<std::int32_t>("3/ids");
  const safetensors_file got = encode(fmt::format("--model {} --ids {}", model.string(), fmt::join(ids, ",")));
  EXPECT_EQ(got.read<std::int32_t>("ids"), ids);
  EXPECT_LT(scaled_residual(got.read<float>(got.at("hidden", {4, 29, 33})), expected.read<double>("3/hidden"), 33), 2);
}

TEST_F(encode_command, writes_attention_and_a_sentence_embedding) {
  const safetensors_file got =
      encode(bert() + " --text 'The attention of one head.' --attention --pool mean --normalise");
  const auto ids = got.read<std::int32_t>("ids");
  const auto s = static_cast<std::int64_t>(ids.size());
  ASSERT_GT(s, 4);
  EXPECT_EQ(ids.front(), 2);  // [CLS]
  EXPECT_EQ(ids.back(), 3);   // [SEP]
  const auto weights = got.read<double>(got.at("attention", {2, 3, s, s}));
  for (std::int64_t row = 0; row < 2 * 3 * s; ++row) {
    double sum = 0;
    for (const double weight : part(weights, row * s, s)) sum += weight;
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  const auto hidden = got.read<double>(got.at("hidden", {3, s, 21}));
  std::vector<double> mean(21, 0);
  for (std::int64_t token = 0; token < s; ++token) {
    for (std::size_t i = 0; i < 21; ++i) mean[i] += hidden[static_cast<std::size_t>((2 * s + token) * 21) + i];
  }
  double norm = 0;
  for (const double x : mean) norm += x * x;
  for (double& x : mean) x /= std::sqrt(norm);
  EXPECT_LT(scaled_residual(got.read<float>(got.at("embedding", {21})), mean, 21), 2);
  const safetensors_file first = encode(bert() + " --text 'The attention of one head.' --attention --pool first");
  EXPECT_EQ(first.read<double>("embedding"), part(first.read<double>("hidden"), 2 * s * 21, 21));
}

TEST_F(encode_command, bfloat16_gives_nearly_the_same_and_says_what_it_cannot_write) {
  const std::string text = bert() + " --text 'The attention of one head.'";
  const auto whole = encode(text).read<double>("hidden"),
             rounded = encode(text + " --type bf16").read<double>("hidden");
  ASSERT_EQ(whole.size(), rounded.size());
  double error = 0, size = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    error += (whole[i] - rounded[i]) * (whole[i] - rounded[i]);
    size += whole[i] * whole[i];
  }
  EXPECT_LT(std::sqrt(error / size), 10 * 0x1p-8);
  EXPECT_GT(error, 0);
  const command_result refused = nullscope("encode " + text + " --type bf16 --attention --output " + path("x"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("--type bf16 leaves out --attention"), std::string::npos) << refused.err;
}

TEST_F(encode_command, texts_of_a_file_are_those_of_single_calls) {
  const std::string file = write("texts.txt", "one head\n\nThe attention of one head is a matrix, and a row.\nit\n");
  const command_result result =
      nullscope(fmt::format("encode {} --file {} --output {}", bert(), file, path("all.safetensors")));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("1 of 4 texts were empty and were skipped (first: " + file + ", line 2)"),
            std::string::npos)
      << result.err;
  const safetensors_file all(path("all.safetensors"));
  EXPECT_EQ(all.find("1/ids"), nullptr);
  EXPECT_NE(all.find("2/ids"), nullptr);
  const safetensors_file single = encode(bert() + " --text 'it'");
  EXPECT_EQ(all.read<std::int32_t>("3/ids"), single.read<std::int32_t>("ids"));
  EXPECT_LT(scaled_residual(all.read<float>("3/hidden"), single.read<double>("hidden"), 21), 2);
}

TEST_F(encode_command, columns_of_a_table_hold_texts_and_pairs) {
  const std::string file = write("pairs.csv", "label,first,second\n1,\"one, head\",a row\n");
  const safetensors_file of_table =
      encode(fmt::format("{} --file {} --text-column first --pair-column second", bert(), file));
  const auto ids = of_table.read<std::int32_t>("0/ids");
  const auto hidden = of_table.read<float>("0/hidden");
  const safetensors_file of_text = encode(bert() + " --text 'one, head' --text-pair 'a row'");
  EXPECT_EQ(of_text.read<std::int32_t>("ids"), ids);
  EXPECT_EQ(of_text.read<float>("hidden"), hidden);
  EXPECT_EQ(std::ranges::count(ids, 3), 2);  // [SEP] behind each
  // The model reads segments: the same ids as one text give something else.
  const safetensors_file of_ids = encode(fmt::format("{} --ids {}", bert(), fmt::join(ids, ",")));
  EXPECT_NE(of_ids.read<float>("hidden"), hidden);
}

TEST_F(encode_command, heads_are_what_effective_attention_and_rank_read) {
  struct model_case {
    const char* name;
    std::int64_t layers, head_size;
    bool is_causal, has_bias;
  };
  // Both have width 20 and 5 heads.
  for (const auto& [name, layers, head_size, is_causal, has_bias] :
       {model_case{"gpt2_classifier", 3, 4, true, false}, model_case{"mpnet", 2, 4, false, true}}) {
    SCOPED_TRACE(name);
    const safetensors_file heads = encode(
        fmt::format("--model {} --ids 5,9,2,33,50,7,8,12,40 --attention --with-heads 2", (models / name).string()));
    const auto weights = heads.read<double>(heads.at("attention", {layers, 5, 9, 9}));
    heads.at("v", {5, 9, head_size});
    heads.at("h", {5, head_size, 20});
    EXPECT_EQ(heads.read<std::uint8_t>("causal"), std::vector<std::uint8_t>{is_causal});
    EXPECT_NEAR(heads.read<double>("scale").at(0), 0.5, 1e-7);
    EXPECT_EQ(heads.find("bias") != nullptr, has_bias);
    const command_result effective =
        nullscope(fmt::format("effective-attention --overwrite --dense --input {} --output {}", path("out.safetensors"),
                              path("parts.safetensors")));
    ASSERT_EQ(effective.exit_code, 0) << effective.err;
    const safetensors_file parts(path("parts.safetensors"));
    EXPECT_LT(scaled_residual(parts.read<float>(parts.at("raw", {5, 9, 9})), part(weights, 5 * 81, 5 * 81), 9), 2);
    EXPECT_EQ(parts.read<std::int64_t>("rank"), (std::vector<std::int64_t>(5, head_size)));
  }
  const command_result rank = nullscope("rank --input " + path("out.safetensors"));
  EXPECT_EQ(rank.exit_code, 0) << rank.err;
}

TEST_F(encode_command, long_texts_are_cut_with_a_warning_or_refused) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "head ";
  const std::string arguments = fmt::format("encode {} --text '{}' --output {}", bert(), text, path("long"));
  const command_result result = nullscope(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("warning: 1 of 1 texts had more than 33 tokens and were cut"), std::string::npos)
      << result.err;
  EXPECT_EQ(safetensors_file(path("long")).read<std::int32_t>("ids").size(), 33u);
  expect_encode_complaint(fmt::format("{} --text '{}' --too-long refuse", bert(), text), 1, "more than 33 tokens");
  expect_encode_complaint(bert() + " --text 'one head is' --max-length 4 --too-long refuse", 1, "more than 4 tokens");
}

TEST_F(encode_command, wrong_input_gets_a_reason) {
  expect_encode_complaint(bert(), 2, "one of --text, --ids and --file is needed");
  expect_encode_complaint(bert() + " --text a --ids 1", 2, "one of --text, --ids and --file is needed");
  expect_encode_complaint(bert() + " --text-pair a --ids 1", 2, "--text-pair needs --text");
  expect_encode_complaint(bert() + " --ids 1,705", 2, "705, at place 1, is not from 0 to 704");
  expect_encode_complaint(bert() + " --ids 1,x", 2, "--ids");
  expect_encode_complaint(bert() + " --text ''", 2, "--text has no tokens");
  expect_encode_complaint(bert() + " --text a --with-heads 3", 2, "the layers of this model are 1 to 2");
  expect_encode_complaint(bert() + " --text a --normalise", 2, "--normalise needs --pool");
  expect_encode_complaint("--model no/such --text a", 1, "there is no model \"no/such\"");
  expect_encode_complaint(bert() + " --file " + path("none.txt"), 1, "none.txt");
  expect_encode_complaint(bert() + " --file " + write("empty.txt", "\n"), 1, "no texts");
  const std::string table = write("t.csv", "a,b\n1,2\n");
  expect_encode_complaint(bert() + " --file " + table, 2, "name the column of the texts with --text-column");
  expect_encode_complaint(bert() + " --file " + table + " --text-column c", 1, "c");
}

using sweep_of_a_model = encode_command;

TEST_F(sweep_of_a_model, has_the_heads_of_the_texts_at_every_length_they_reach) {
  const std::string file = write("texts.txt",
                                 "a\nThe attention of one head is a matrix with a row for every token, and every "
                                 "row adds up to one, one head.\n");
  const std::string arguments =
      fmt::format("sweep {} --file {} --lengths 6,12,500 --samples 3 --type f32", bert(), file);
  const command_result result = nullscope(fmt::format("{} --output {}", arguments, path("sweep")));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("lengths that no text reaches are skipped: 500"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("bert, 2 layers, d = 21, 3 heads, d_k = 7"), std::string::npos) << result.out;

  // The long text alone reaches both lengths: its heads, from encode.
  const safetensors_file whole = encode(fmt::format("{} --file {}", bert(), file));
  auto ids = whole.read<std::int32_t>("1/ids");
  ASSERT_GE(ids.size(), 12u);
  ids.resize(12);
  encode(fmt::format("{} --ids {} --with-heads 2", bert(), fmt::join(ids, ",")));
  nullscope(fmt::format("effective-attention --input {} --output {}", path("out.safetensors"), path("parts")));
  const auto pearson = safetensors_file(path("parts")).read<double>("pearson");

  csv_reader table(path("sweep/sweep.csv"));
  EXPECT_EQ(table.columns(),
            (std::vector<std::string>{"length", "heads_are", "sample", "layer", "head", "rank", "null_dim",
                                      "null_dim_ones", "pearson", "raw_norm", "effective_norm", "null_norm"}));
  std::vector<std::string> row;
  int rows = 0;
  for (; table.next(row); ++rows) {
    const std::int64_t length = rows < 6 ? 6 : 12, layer = rows / 3 % 2 + 1, head = rows % 3;
    const std::vector<std::int64_t> numbers{std::stol(row[0]), std::stol(row[2]), std::stol(row[3]),
                                            std::stol(row[4]), std::stol(row[5]), std::stol(row[6])};
    EXPECT_EQ(numbers, (std::vector<std::int64_t>{length, 0, layer, head, std::min<std::int64_t>(length, 7),
                                                  std::max<std::int64_t>(0, length - 7)}));
    if (length == 12 && layer == 2) {
      EXPECT_NEAR(std::stod(row[8]), pearson.at(static_cast<std::size_t>(head)), 1e-4);
    }
  }
  EXPECT_EQ(rows, 12);  // one text, not three, at both lengths
  const command_result again = nullscope(fmt::format("{} --quiet --output {}", arguments, path("again")));
  ASSERT_EQ(again.exit_code, 0) << again.err;
  for (const char* name : {"sweep.csv", "sweep.json", "sweep.svg"}) {
    EXPECT_EQ(content_of(path("again") + "/" + name), content_of(path("sweep") + "/" + name)) << name;
  }
}

TEST_F(sweep_of_a_model, refuses_what_makes_no_sense) {
  const std::string file = write("texts.txt", "one head\n");
  const std::string end = " --output " + path("never");
  expect_complaint(fmt::format("sweep {} --file {}{}", bert(), file, end), 1, "no text has 16 tokens");
  expect_complaint("sweep " + bert() + end, 2, "--file");
  expect_complaint(fmt::format("sweep --file {}{}", file, end), 2, "--model");
  expect_complaint(fmt::format("sweep {} --file {} --width 8{}", bert(), file, end), 2, "--width");
  expect_complaint(fmt::format("sweep {} --file {} --lengths 3 --logit-rank{}", bert(), file, end), 2, "--logit-rank");
  EXPECT_FALSE(fs::exists(path("never")));
}

}  // namespace
}  // namespace nullscope::test
