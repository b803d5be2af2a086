/// nullscope view: the page holds the library's numbers in half precision, any text stays text, mistakes.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/model/model_folder.hpp>
#include <nullscope/model/model_states.hpp>

#include "tests/cli/nullscope_program.hpp"
#include "tests/cli/page_reader.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

const fs::path models = NULLSCOPE_MODEL_DATA, tokenizers = NULLSCOPE_TOKENIZER_DATA;

class view_command : public testing::Test {
 protected:
  void SetUp() override {
    fs::copy(models / "bert", path("bert"));  // 2 layers, width 21, 3 heads of 7, at most 33 tokens
    fs::copy(tokenizers / "bert_uncased" / "tokenizer.json", path("bert"));
  }

  std::string path(const std::string& name) const { return folder_ / name; }

  /// The page of these arguments.
  std::string view(const std::string& arguments, const std::string& model = "bert") const {
    const command_result result =
        nullscope(fmt::format("view --model {} {} --output {}", path(model), arguments, path("page.html")));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return content_of(path("page.html"));
  }

  void expect_view_complaint(const std::string& arguments, int exit_code, const std::string& fragment) const {
    expect_complaint(fmt::format("view --model {} {} --output {}", path("bert"), arguments, path("never")), exit_code,
                     fragment);
    EXPECT_FALSE(fs::exists(path("never")));
  }

  const temporary_folder folder_;
};

void expect_rounded(double got, double expected) { EXPECT_NEAR(got, expected, half_rounding(expected)); }

TEST_F(view_command, encoders_have_raw_attention_and_a_basis) {
  const std::string html = view("--ids 2,5,9,3,7,11,13,2,5,17 --samples 4 --seed 3");
  context ctx(select_device());
  const transformer<float> model = load_transformer<float>(ctx, path("bert"));
  const token_batch::sequence sequence{{2, 5, 9, 3, 7, 11, 13, 2, 5, 17}, std::vector<std::int32_t>(10, 0)};
  const attention_parts<float> parts = read_attention_parts(ctx, model, sequence);
  const nlohmann::json about = page_data(html);
  EXPECT_EQ(about.at("effective"), "basis");
  EXPECT_EQ(about.at("model"), "bert") << "without the path";
  ASSERT_EQ(about.at("tokens").size(), 10u);
  ASSERT_EQ(about.at("rank").get<std::vector<std::int64_t>>(), parts.rank);
  for (std::size_t head = 0; head < 6; ++head) {
    const std::vector<double> numbers = element_numbers(html, fmt::format("head-{}-{}", head / 3, head % 3));
    const std::size_t rank = static_cast<std::size_t>(parts.rank[head]);
    ASSERT_EQ(numbers.size(), 100 + 10 * rank);
    for (std::size_t i = 0; i < 100; ++i) expect_rounded(numbers[i], parts.raw[head * 100 + i]);
    for (std::size_t i = 0; i < 10 * rank; ++i) {
      expect_rounded(numbers[100 + i], parts.basis[(head * 10 + i / rank) * 7 + i % rank]);
    }
    EXPECT_FLOAT_EQ(about.at("nullNorm")[head].get<float>(), parts.summary[head].null_norm);
    EXPECT_FLOAT_EQ(about.at("pearson")[head].get<float>(), parts.summary[head].pearson);
    EXPECT_NEAR(about.at("singularValues")[head][6].get<double>(), parts.singular_values[head * 7 + 6],
                1e-3 * parts.singular_values[head * 7 + 6]);
  }
  const token_batch batch(ctx, model.config(), std::span(&sequence, 1));
  const attribution of = hidden_token_attribution(ctx, model, batch, {.samples = 4, .seed = 3})[0];
  const std::vector<double> contributions = element_numbers(html, "contributions");
  ASSERT_EQ(contributions.size(), of.contribution.size());
  for (std::size_t i = 0; i < contributions.size(); ++i) {  // through float, as all numbers of the page
    expect_rounded(contributions[i], static_cast<float>(of.contribution[i]));
  }
  EXPECT_EQ(about.at("attribution").at("samples"), 4);
  const std::vector<double> errors = element_numbers(html, "contribution-errors");
  ASSERT_EQ(errors.size(), 20u);
  for (const double error : errors) EXPECT_GT(error, 0);
}

TEST_F(view_command, causal_models_have_two_triangles) {
  fs::copy(models / "gpt2_classifier", path("gpt2"));  // 3 layers, 5 heads of 4
  const std::string html = view("--ids 2,5,9,3,7,11,13 --no-attribution", "gpt2");
  context ctx(select_device());
  const attention_parts<float> parts =
      read_attention_parts(ctx, load_transformer<float>(ctx, path("gpt2")), {{2, 5, 9, 3, 7, 11, 13}});
  const nlohmann::json about = page_data(html);
  EXPECT_EQ(about.at("effective"), "triangle");
  EXPECT_FALSE(about.contains("attribution"));
  EXPECT_EQ(element_text(html, "contributions"), "");
  for (std::size_t head = 0; head < 15; ++head) {
    const std::vector<double> numbers = element_numbers(html, fmt::format("head-{}-{}", head / 5, head % 5));
    ASSERT_EQ(numbers.size(), 2u * 28);
    for (std::size_t i = 0, at = 0; i < 7; ++i) {
      for (std::size_t j = 0; j <= i; ++j, ++at) {
        expect_rounded(numbers[at], parts.raw[head * 49 + i * 7 + j]);
        expect_rounded(numbers[28 + at], parts.effective[head * 49 + i * 7 + j]);
      }
    }
  }
}

TEST_F(view_command, a_text_without_null_space_needs_no_basis) {
  const std::string html = view("--ids 2,5,3 --exact");
  EXPECT_EQ(element_numbers(html, "head-0-0").size(), 9u);
  EXPECT_EQ(page_data(html).at("attribution").at("samples"), 0);
  EXPECT_EQ(element_text(html, "contribution-errors"), "");
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++count;
  return count;
}

TEST_F(view_command, any_text_stays_text) {
  const std::string text = "A \"</script>\" <!-- & 'one' \U0001f600 \u05e9.";
  std::ofstream(path("texts.txt")) << "One head.\n" << text << "\n";
  const std::string html = view(fmt::format("--file {} --index 1 --no-attribution", path("texts.txt")));
  EXPECT_EQ(html.rfind("<!DOCTYPE html>", 0), 0u);
  EXPECT_EQ(count_of(html, "<script"), 1u + 1 + 6 + 1) << "settings, data, heads, the program";
  EXPECT_EQ(count_of(html, "</script>"), 9u);
  EXPECT_EQ(html.find("<!--"), std::string::npos);
  for (const char* network : {"http:", "https:", "src=", "@import", "@DATA@", "@STYLE@", "@SCRIPT@"}) {
    EXPECT_EQ(html.find(network), std::string::npos) << network;
  }
  std::string joined;
  const nlohmann::json about = page_data(html);
  for (const nlohmann::json& token : about.at("tokens")) {
    if (token.at("special").get<bool>() || token.value("repeats", false)) continue;
    joined += token.at("gap").get<std::string>() + token.at("text").get<std::string>();
  }
  EXPECT_EQ(joined, text);
}

TEST_F(view_command, explanations_colour_their_tokens) {
  std::ofstream(path("explain.json")) << R"([{"text": "One head.", "method": "slalom", "label": "good", "tokens": [
      {"token": "head", "begin": 4, "end": 8, "linearised": -0.5}]}])";
  const std::string html =
      view(fmt::format("--text 'One head.' --no-attribution --explanation {}", path("explain.json")));
  const nlohmann::json about = page_data(html);
  for (std::size_t i = 0; i < about.at("tokens").size(); ++i) {
    const nlohmann::json& score = about.at("explanation").at("scores")[i];
    EXPECT_EQ(!score.is_null(), about.at("tokens")[i].at("text") == "head") << i;
  }
  expect_view_complaint(fmt::format("--text Two --explanation {}", path("explain.json")), 1,
                        "has no explanation of this text");
  std::ofstream(path("explain.json")) << "{";
  expect_view_complaint(fmt::format("--text Two --explanation {}", path("explain.json")), 1, "is not JSON");
}

TEST_F(view_command, mistakes_are_named) {
  expect_view_complaint("--ids 2,3 --samples 22", 2, "the model has 21 directions");
  expect_view_complaint("--ids 2,3 --samples 2 --exact", 2, "only one of --samples, --exact and --no-attribution");
  expect_view_complaint("--ids 2,3 --index 1", 2, "--index needs --file");
  expect_view_complaint("--text ''", 2, "--text has no tokens");
  std::ofstream(path("texts.txt")) << "One head.\n";
  expect_view_complaint(fmt::format("--file {} --index 1", path("texts.txt")), 1, "there is no text 1");
}

}  // namespace
}  // namespace nullscope::test
