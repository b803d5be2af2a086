#include "lib/cli/explain/explain_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lib/cli/common/field_text.hpp"
#include "lib/cli/common/previous_work.hpp"
#include "lib/src/io/atomic_file.hpp"

namespace nullscope::cli {
namespace {

double error_at(const std::vector<double>& errors, std::size_t place) {
  return errors.empty() ? std::nan("") : errors[place];
}

text_range range_of(const explained_result& result, std::size_t place) {
  return result.encoded.offsets.empty() ? text_range{} : result.encoded.offsets[place];
}

bool is_slalom(const explained_result& result) { return !result.found.slalom.value.empty(); }

nlohmann::ordered_json token_json(const explained_result& result, std::size_t place) {
  nlohmann::ordered_json token{
      {"token", result.tokens[place]}, {"begin", range_of(result, place).begin}, {"end", range_of(result, place).end}};
  const slalom_scores& scores = result.found.slalom;
  if (is_slalom(result)) {
    token["value"] = json_number(scores.value[place]);
    token["value_error"] = json_number(error_at(scores.value_error, place));
    token["importance"] = json_number(scores.importance[place]);
    token["importance_error"] = json_number(error_at(scores.importance_error, place));
    token["linearised"] = json_number(scores.linearised[place]);
    token["linearised_error"] = json_number(error_at(scores.linearised_error, place));
    token["derivative"] = json_number(scores.derivative[place]);
    token["removal"] = json_number(scores.removal[place]);
  } else {
    token["attribution"] = json_number(result.found.attribution[place]);
  }
  return token;
}

std::string csv_number(double x) { return std::isfinite(x) ? fmt::format("{:.9g}", x) : ""; }

}  // namespace

bool has_scores(const explained_result& result, std::size_t place) {
  return result.encoded.special_mask.empty() || result.encoded.special_mask[place] == 0;
}

void print_table(const explained_result& result, std::string_view method, std::int64_t most_tokens) {
  const explanation& found = result.found;
  fmt::print("text {}: {} for {}: score {:.4f}, {} queries", result.index, method, result.label, found.score,
             found.queries);
  if (std::isfinite(found.fit_error)) fmt::print(", fit error {:.3g}", found.fit_error);
  fmt::print("\n");
  for (const std::string& note : found.notes) fmt::print("  note: {}\n", note);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < result.tokens.size(); ++i) {
    if (has_scores(result, i)) order.push_back(i);
  }
  const std::size_t all = order.size();
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return std::abs(found.attribution[i]); });
  order.resize(std::min(order.size(), static_cast<std::size_t>(most_tokens)));
  if (is_slalom(result)) {
    fmt::print("  {:<16} {:>9} {:>8} {:>10} {:>8} {:>10} {:>8}\n", "token", "value", "+-", "importance", "+-",
               "linearised", "+-");
  } else {
    fmt::print("  {:<16} {:>11}\n", "token", "attribution");
  }
  for (const std::size_t i : order) {
    const slalom_scores& s = found.slalom;
    if (is_slalom(result)) {
      fmt::print("  {:<16} {:>9.4f} {:>8.4f} {:>10.4f} {:>8.4f} {:>10.4f} {:>8.4f}\n", result.tokens[i], s.value[i],
                 error_at(s.value_error, i), s.importance[i], error_at(s.importance_error, i), s.linearised[i],
                 error_at(s.linearised_error, i));
    } else {
      fmt::print("  {:<16} {:>11.5f}\n", result.tokens[i], found.attribution[i]);
    }
  }
  if (order.size() < all) fmt::print("  ... {} more tokens are in the files\n", all - order.size());
}

void write_tables(const std::filesystem::path& folder, std::span<const explained_result> results,
                  std::string_view method) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::string table =
      "index,place,token,begin,end,value,value_error,importance,importance_error,linearised,"
      "linearised_error,attribution\n";
  for (const explained_result& result : results) {
    nlohmann::ordered_json one{{"text", result.text},
                               {"index", result.index},
                               {"method", method},
                               {"class", result.found.of_class},
                               {"label", result.label},
                               {"score", json_number(result.found.score)},
                               {"base", json_number(result.found.base)},
                               {"fit_error", json_number(result.found.fit_error)},
                               {"queries", result.found.queries},
                               {"notes", result.found.notes},
                               {"tokens", nlohmann::ordered_json::array()}};
    for (std::size_t i = 0; i < result.tokens.size(); ++i) {
      if (!has_scores(result, i)) continue;
      one["tokens"].push_back(token_json(result, i));
      const slalom_scores& s = result.found.slalom;
      table += fmt::format("{},{},{},{},{}", result.index, i, csv_field(result.tokens[i]), range_of(result, i).begin,
                           range_of(result, i).end);
      for (const std::vector<double>* column : {&s.value, &s.value_error, &s.importance, &s.importance_error,
                                                &s.linearised, &s.linearised_error, &result.found.attribution}) {
        table += fmt::format(",{}", csv_number(error_at(*column, i)));
      }
      table += "\n";
    }
    all.push_back(std::move(one));
  }
  write_atomically(folder / "explain.json", json_text(all, 2) + "\n");
  write_atomically(folder / "explain.csv", table);
}

}  // namespace nullscope::cli
