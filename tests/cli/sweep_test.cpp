#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/cli/sweep_support.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

// d = 32 and 4 heads: d_v = 8 for concatenated heads, 32 for added ones.
constexpr const char* small_sweep =
    "sweep --width 32 --heads 4 --samples 3 --lengths 9,4,8,40,9 --key-size 6 --logit-rank";

std::vector<std::vector<std::string>> table_of(const std::string& csv) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream stream(csv);
  for (std::string line; std::getline(stream, line);) {
    lines.emplace_back();
    std::istringstream cells(line + ",");
    for (std::string cell; std::getline(cells, cell, ',');) lines.back().push_back(cell);
  }
  return lines;
}

/// Whether tags are balanced and attributes are quoted: the mistakes that a writer of SVG can make.
bool is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while ((at = xml.find('<', at)) != std::string::npos) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.find('<') != std::string::npos || std::ranges::count(tag, '"') % 2 != 0) return false;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.front() == '?') continue;
    if (tag.front() == '/') {
      if (open.empty() || "/" + open.back() != name) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    const std::size_t text_end = std::min(xml.find('<', at), xml.size());
    for (std::size_t i = at; i < text_end; ++i) {
      if (xml[i] == '>' || (xml[i] == '&' && xml.find(';', i) > text_end)) return false;
    }
  }
  return open.empty();
}

/// Most tests look at the same sweep.
class sweep : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<temporary_folder>();
    printed_ = run_to_end(small_sweep, *folder_ / "small");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return *folder_ / name; }

  static std::unique_ptr<temporary_folder> folder_;
  static std::string printed_;
};

std::unique_ptr<temporary_folder> sweep::folder_;
std::string sweep::printed_;

TEST_F(sweep, every_head_has_the_rank_that_theory_gives_it) {
  const auto table = table_of(content_of(path("small/sweep.csv")));
  ASSERT_EQ(table.size(), 1u + 4 * 2 * 3 * 4);
  EXPECT_EQ(table[0],
            (std::vector<std::string>{"length", "heads_are", "sample", "head", "rank", "null_dim", "null_dim_ones",
                                      "pearson", "raw_norm", "effective_norm", "null_norm"}));
  std::int64_t longest = 0;
  for (std::size_t i = 1; i < table.size(); ++i) {
    const auto& row = table[i];
    ASSERT_EQ(row.size(), 11u);
    const std::int64_t length = std::stol(row[0]), values = row[1] == "added" ? 32 : 8;
    EXPECT_GE(length, longest);
    longest = length;
    EXPECT_EQ(std::stol(row[2]), static_cast<std::int64_t>(i - 1) / 4 % 3);
    EXPECT_EQ(std::stol(row[3]), static_cast<std::int64_t>(i - 1) % 4);
    EXPECT_EQ(std::stol(row[4]), std::min(length, values));
    EXPECT_EQ(std::stol(row[5]), std::max<std::int64_t>(0, length - values));
    EXPECT_EQ(std::stol(row[6]), std::max<std::int64_t>(0, length - values - 1));
    // |A|^2 = |A_perp|^2 + |A_par|^2, and rows of A that sum to 1 have a norm between 1 / sqrt(S) and 1.
    const double raw = std::stod(row[8]), effective = std::stod(row[9]), null = std::stod(row[10]);
    EXPECT_NEAR(raw * raw, effective * effective + null * null, 5e-5 * raw * raw);  // six digits
    EXPECT_GE(raw, 1 - 1e-5);
    EXPECT_LE(raw, std::sqrt(static_cast<double>(length)));
    if (length <= values) {  // there is no null space, so nothing of A is lost
      EXPECT_EQ(std::stod(row[7]), 1);
      EXPECT_EQ(null, 0);
    } else {
      EXPECT_LT(std::stod(row[7]), 1);
      EXPECT_GT(std::stod(row[7]), 0);
    }
  }
}

TEST_F(sweep, the_table_has_one_line_per_length_and_kind) {
  EXPECT_NE(printed_.find("d = 32, 4 heads, d_k = 6, seed 1"), std::string::npos) << printed_;
  EXPECT_NE(printed_.find("MiB of device memory"), std::string::npos) << printed_;
  std::map<std::string, std::string> line_of;
  std::istringstream stream(printed_);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string length, kind;
    if (words >> length >> kind) line_of[length + " " + kind] = line;
  }
  for (const char* key : {"4 concatenated", "4 added", "8 added", "9 concatenated", "40 concatenated", "40 added"}) {
    EXPECT_EQ(line_of.count(key), 1u) << key << " in\n" << printed_;
  }
  std::istringstream words(line_of["40 concatenated"]);
  std::vector<std::string> cells{std::istream_iterator<std::string>(words), {}};
  ASSERT_GE(cells.size(), 6u);
  EXPECT_EQ((std::vector<std::string>(cells.begin() + 2, cells.begin() + 6)),
            (std::vector<std::string>{"3", "8", "32", "31"}));
}

TEST_F(sweep, json_holds_settings_rows_and_summary) {
  const auto json = nlohmann::json::parse(content_of(path("small/sweep.json")));
  EXPECT_EQ(json["settings"]["lengths"], (std::vector<int>{4, 8, 9, 40}));
  EXPECT_EQ(json["settings"]["key_size"], 6);
  EXPECT_EQ(json["settings"]["seed"], 1);
  for (const char* name : {"device", "driver", "version", "commit", "type"}) {
    EXPECT_FALSE(json["settings"][name].get<std::string>().empty()) << name;
  }
  ASSERT_EQ(json["rows"].size(), 4u * 2 * 3 * 4);
  ASSERT_EQ(json["summary"].size(), 8u);
  const auto& last = json["summary"][7];
  EXPECT_EQ(last["length"], 40);
  EXPECT_EQ(last["heads_are"], "added");
  EXPECT_EQ(last["samples"], 3);
  EXPECT_EQ(last["rank"], (nlohmann::json{{"min", 32}, {"mean", 32}, {"max", 32}}));
  double sum = 0, most = 0;
  for (std::size_t i = 84; i < 96; ++i) {
    const double pearson = json["rows"][i]["pearson"];
    sum += pearson;
    most = std::max(most, pearson);
  }
  EXPECT_NEAR(last["pearson"]["mean"].get<double>(), sum / 12, 1e-12);
  EXPECT_EQ(last["pearson"]["max"], most);
}

TEST_F(sweep, the_chart_is_well_formed) {
  const std::string svg = content_of(path("small/sweep.svg"));
  EXPECT_TRUE(is_well_formed(svg));
  for (const char* text : {"<svg ", "sequence length S", "rank(T)", "dim LN(T)", "Pearson", "min(S, 8)", "d_v = 32"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_FALSE(is_well_formed("<a><b></a>"));
  run_to_end("sweep --width 8 --heads 2 --samples 1 --lengths 1 --quiet", path("one"));
  EXPECT_TRUE(is_well_formed(content_of(path("one/sweep.svg"))));
  EXPECT_EQ(content_of(path("one/sweep.svg")).find("nan"), std::string::npos);
}

TEST_F(sweep, alternatives_have_logits_that_no_head_can_give) {
  EXPECT_NE(printed_.find("of alternatives"), std::string::npos) << printed_;
  const auto table = table_of(content_of(path("small/sweep_logit_rank.csv")));
  ASSERT_EQ(table.size(), 1u + 7 * 3 * 4);  // S = 10 to 16
  for (std::size_t i = 1; i < table.size(); ++i) {
    EXPECT_EQ(table[i][3], "6");
    EXPECT_EQ(std::stol(table[i][4]), std::stol(table[i][0]) - 1);
  }
  const auto json = nlohmann::json::parse(content_of(path("small/sweep.json")));
  EXPECT_EQ(json["logit_rank_rows"].size(), table.size() - 1);
  EXPECT_EQ(json["logit_rank_summary"].size(), 7u);
}

TEST_F(sweep, a_head_whose_logits_have_no_rank_is_an_error) {
  // The scores of this head differ by 128: in float one of its weights is zero and has no logit.
  expect_complaint(
      "sweep --quiet --width 1 --heads 1 --key-size 2 --samples 1 --lengths 1 --seed 359310 --type f32 --logit-rank "
      "--output " +
          path("no_logits"),
      1, "the ranks of the logits of head 0 of sample 0 at length 3 were not found");
  EXPECT_FALSE(std::filesystem::exists(path("no_logits/sweep.json")));
}

TEST_F(sweep, the_seed_decides_the_bytes) {
  EXPECT_EQ(run_to_end(std::string(small_sweep) + " --quiet", path("again")), "");
  expect_same_files(path("small"), path("again"));
  run_to_end(std::string(small_sweep) + " --quiet --seed 2", path("other"));
  EXPECT_NE(content_of(path("small/sweep.csv")), content_of(path("other/sweep.csv")));
}

TEST_F(sweep, correlations_can_be_left_out_and_types_agree) {
  const std::string arguments = "sweep --quiet --width 32 --heads 4 --samples 2 --lengths 12,20,30 --heads-are ";
  run_to_end(arguments + "concatenated --type f64 --pearson-up-to 20", path("double"));
  run_to_end(arguments + "concatenated --type f32", path("single"));
  const auto a = table_of(content_of(path("double/sweep.csv"))), b = table_of(content_of(path("single/sweep.csv")));
  ASSERT_EQ(a.size(), 1u + 3 * 2 * 4);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 1; i < a.size(); ++i) {
    EXPECT_EQ(a[i].at(7).empty(), a[i][0] == "30");
    EXPECT_FALSE(b[i].at(7).empty());
    EXPECT_EQ((std::vector<std::string>(a[i].begin(), a[i].begin() + 7)),
              (std::vector<std::string>(b[i].begin(), b[i].begin() + 7)));
  }
  run_to_end(arguments + "added --pearson-up-to 0", path("none"));
  EXPECT_EQ(content_of(path("none/sweep.svg")).find("Pearson"), std::string::npos);
}

TEST_F(sweep, a_small_budget_gives_the_same_heads) {
  const std::string arguments = "sweep --quiet --width 32 --heads 4 --samples 20 --lengths 50,300 --type f64 --memory ";
  run_to_end(arguments + "1GiB", path("large"));
  run_to_end(arguments + "1100KiB", path("tight"));
  const auto a = table_of(content_of(path("large/sweep.csv"))), b = table_of(content_of(path("tight/sweep.csv")));
  ASSERT_EQ(a.size(), 1u + 2 * 2 * 20 * 4);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 1; i < a.size(); ++i) {
    EXPECT_EQ((std::vector<std::string>(a[i].begin(), a[i].begin() + 7)),
              (std::vector<std::string>(b[i].begin(), b[i].begin() + 7)));
    EXPECT_NEAR(std::stod(a[i].at(7)), std::stod(b[i].at(7)), 2e-6);
  }
  // How much more than 0.0 depends on the device.
  expect_complaint(arguments + "50KiB --output " + path("never"), 1, "one head at length 50 (added) takes 0.");
  EXPECT_FALSE(std::filesystem::exists(path("never")));
}

}  // namespace
}  // namespace nullscope::test
