#include "lib/cli/sweep/sweep_output.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <variant>

#include "lib/cli/common/previous_work.hpp"

namespace nullscope::cli {
namespace {

/// "64", or "60..64" if the rows differ; "-" if there is no value.
std::string range_text(const sweep_spread& spread, int digits) {
  if (std::isnan(spread.mean)) return "-";
  const std::string least = fmt::format("{:.{}f}", spread.least, digits);
  const std::string most = fmt::format("{:.{}f}", spread.most, digits);
  return least == most ? least : least + ".." + most;
}

std::string number_text(double x, int digits) { return std::isnan(x) ? "-" : fmt::format("{:.{}f}", x, digits); }

std::string error_text(double x) { return std::isnan(x) ? "-" : x == 0 ? "0" : fmt::format("{:.2g}", x); }

constexpr const char* table_format = "{:>8}  {:<12}  {:>7}  {:>9}  {:>13}  {:>15}  {:>8}  {:>14}{}\n";
constexpr const char* logit_format = "{:>8}  {:>7}  {:>11}  {:>20}\n";

nlohmann::ordered_json to_json(const sweep_spread& spread) {
  if (std::isnan(spread.mean)) return nullptr;
  return {{"min", spread.least}, {"mean", spread.mean}, {"max", spread.most}};
}

nlohmann::ordered_json to_json(const sweep_summary& summary, bool is_sampled) {
  nlohmann::ordered_json json{{"length", summary.length}, {"samples", summary.samples}};
  if (summary.kind == sweep_kind::logits) {
    json["raw_rank"] = to_json(summary.raw_logit_rank);
    json["alternative_rank"] = to_json(summary.alternative_logit_rank);
  } else {
    json["heads_are"] = to_string(summary.kind);
    json["rank"] = to_json(summary.rank);
    json["null_dim"] = to_json(summary.null_dim);
    json["null_dim_ones"] = to_json(summary.null_dim_ones);
    json["pearson"] = to_json(summary.pearson);
    if (is_sampled) json["pearson_error"] = summary.pearson_error;
  }
  return json;
}

nlohmann::ordered_json json_cell(sweep_kind kind) { return to_string(kind); }
nlohmann::ordered_json json_cell(std::int64_t number) { return number; }
nlohmann::ordered_json json_cell(double number) { return number; }  // NaN becomes null

nlohmann::ordered_json to_json(const sweep_row& row, const std::vector<sweep_column>& columns) {
  nlohmann::ordered_json json;
  for (const sweep_column& column : columns) {
    json[std::string(column.name)] = std::visit([&](auto member) { return json_cell(row.*member); }, column.member);
  }
  return json;
}

/// `"name": [` and one element per line, so that people can read and compare long files. `describe` makes JSON of an
/// element.
template <class Element, class Describe>
std::string list_text(const char* name, const std::vector<Element>& elements, bool of_logits, Describe describe) {
  std::string text;
  for (const Element& element : elements) {
    if ((element.kind == sweep_kind::logits) != of_logits) continue;
    text += fmt::format("{}\n    {}", text.empty() ? "" : ",", describe(element).dump());
  }
  return fmt::format(",\n  \"{}\": [{}\n  ]", name, text);
}

}  // namespace

std::string table_head(sweep_kind kind, bool is_sampled) {
  if (kind == sweep_kind::logits) return fmt::format(logit_format, "S", "samples", "rank log(A)", "of alternatives");
  return fmt::format(table_format, "S", "heads", "samples", "rank(T)", "dim LN(T)", "dim LN([T, 1])", "pearson",
                     "range", is_sampled ? "  std. error" : "");
}

std::string table_line(const sweep_summary& summary, bool is_sampled) {
  if (summary.kind == sweep_kind::logits) {
    return fmt::format(logit_format, summary.length, summary.samples, range_text(summary.raw_logit_rank, 0),
                       range_text(summary.alternative_logit_rank, 0));
  }
  const std::string error = is_sampled ? fmt::format("  {:>10}", error_text(summary.pearson_error)) : "";
  return fmt::format(table_format, summary.length, to_string(summary.kind), summary.samples,
                     range_text(summary.rank, 0), range_text(summary.null_dim, 0), range_text(summary.null_dim_ones, 0),
                     number_text(summary.pearson.mean, 4), range_text(summary.pearson, 4), error);
}

std::string times_csv(const std::vector<sweep_time>& times) {
  std::string text = "length,heads_are,heads,seconds\n";
  for (const sweep_time& time : times) {
    text += fmt::format("{},{},{},{:.4f}\n", time.length, to_string(time.kind), time.heads, time.seconds);
  }
  return text;
}

std::string sweep_json(const nlohmann::ordered_json& description, const sweep_settings& settings,
                       const std::vector<sweep_row>& rows) {
  const std::vector<sweep_summary> summaries = summaries_of(rows);
  const auto list_both = [&](const char* of_summaries, const char* of_rows, bool of_logits) {
    const auto columns = sweep_columns(settings, of_logits);
    return list_text(of_summaries, summaries, of_logits,
                     [&](const sweep_summary& summary) { return to_json(summary, settings.is_sampled()); }) +
           list_text(of_rows, rows, of_logits, [&](const sweep_row& row) { return to_json(row, columns); });
  };
  std::string text = json_text(description, 2);
  text.erase(text.rfind("\n}"));  // goes on below
  text += list_both("summary", "rows", false);
  if (settings.logit_rank) text += list_both("logit_rank_summary", "logit_rank_rows", true);
  return text + "\n}\n";
}

}  // namespace nullscope::cli
