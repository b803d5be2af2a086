/// The page of nullscope view in a real browser: Debian's Chromium without a window. Skipped where it is not installed.
///
/// view_self_test.js is added to the page. It presses keys, moves the pointer, and compares numbers with its own
/// computation; what it finds wrong stands in the page that the browser prints in the end.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/cli/nullscope_program.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

const fs::path models = NULLSCOPE_MODEL_DATA, tokenizers = NULLSCOPE_TOKENIZER_DATA;

class view_browser : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v chromium > /dev/null 2>&1") != 0) GTEST_SKIP() << "chromium is not installed";
    for (const char* model : {"bert", "gpt2_classifier"}) fs::copy(models / model, folder_ / model);
    fs::copy(tokenizers / "bert_uncased" / "tokenizer.json", folder_ / "bert");
  }

  /// Writes the page with the self-test in it, opens it, and expects that it found nothing wrong.
  void expect_good_page(const std::string& model, const std::string& arguments, const std::string& address) const {
    const std::string page = folder_ / "page.html";
    const command_result result =
        nullscope(fmt::format("view --model {} {} --output {}", folder_ / model, arguments, page));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::ofstream(page, std::ios::app) << "<script>\n" << content_of(NULLSCOPE_SELF_TEST) << "</script>\n";
    const command_result browser = run_command(
        "chromium", fmt::format("--headless --no-sandbox --disable-gpu --user-data-dir={} --window-size=1400,900 "
                                "--virtual-time-budget=20000 --dump-dom 'file://{}{}'",
                                folder_ / "profile", page, address));
    ASSERT_EQ(browser.exit_code, 0) << browser.err;
    const std::size_t begin = browser.out.find("<pre id=\"self-test\">");
    ASSERT_NE(begin, std::string::npos) << "the page did not finish: " << browser.err;
    const std::string report = browser.out.substr(begin, browser.out.find("</pre>", begin) - begin);
    EXPECT_NE(report.find("checks, 0 wrong"), std::string::npos) << report;
  }

  const temporary_folder folder_;
};

TEST_F(view_browser, an_encoder) {
  expect_good_page(
      "bert", "--text 'One \"</script><script>document.title=1</script>\" \U0001f600 \u05e9\u05dc\u05d5\u05dd head.'",
      "#layer=2&head=3&token=4");
}

TEST_F(view_browser, a_causal_model) {
  expect_good_page("gpt2_classifier", "--ids 2,5,9,3,7,11,13 --no-attribution", "#layer=2&head=3&token=4");
}

}  // namespace
}  // namespace nullscope::test
