#include "sweep_output.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

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

constexpr const char* table_format = "{:>8}  {:<12}  {:>7}  {:>9}  {:>13}  {:>15}  {:>8}  {:>14}\n";
constexpr const char* logit_format = "{:>8}  {:>7}  {:>11}  {:>20}\n";

std::string csv_number(double x) { return std::isnan(x) ? "" : fmt::format("{}", x); }

nlohmann::ordered_json to_json(const sweep_spread& spread) {
  if (std::isnan(spread.mean)) return nullptr;
  return {{"min", spread.least}, {"mean", spread.mean}, {"max", spread.most}};
}

nlohmann::ordered_json to_json(const sweep_summary& summary) {
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
  }
  return json;
}

nlohmann::ordered_json to_json(const sweep_row& row) {
  nlohmann::ordered_json json{{"length", row.length}};
  if (row.kind != sweep_kind::logits) json["heads_are"] = to_string(row.kind);
  json["sample"] = row.sample;
  if (row.layer > 0) json["layer"] = row.layer;
  json["head"] = row.head;
  if (row.kind == sweep_kind::logits) {
    json["raw_rank"] = row.raw_logit_rank;
    json["alternative_rank"] = row.alternative_logit_rank;
  } else {
    json["rank"] = row.rank;
    json["null_dim"] = row.null_dim;
    json["null_dim_ones"] = row.null_dim_ones;
    json["pearson"] = row.pearson;  // NaN becomes null
  }
  return json;
}

/// `"name": [` and one element per line, so that people can read and compare long files.
template <class Element>
std::string list_text(const char* name, const std::vector<Element>& elements, bool of_logits) {
  std::string text;
  for (const Element& element : elements) {
    if ((element.kind == sweep_kind::logits) != of_logits) continue;
    text += fmt::format("{}\n    {}", text.empty() ? "" : ",", to_json(element).dump());
  }
  return fmt::format(",\n  \"{}\": [{}\n  ]", name, text);
}

}  // namespace

std::string table_head(sweep_kind kind) {
  if (kind == sweep_kind::logits) return fmt::format(logit_format, "S", "samples", "rank log(A)", "of alternatives");
  return fmt::format(table_format, "S", "heads", "samples", "rank(T)", "dim LN(T)", "dim LN([T, 1])", "pearson",
                     "range");
}

std::string table_line(const sweep_summary& summary) {
  if (summary.kind == sweep_kind::logits) {
    return fmt::format(logit_format, summary.length, summary.samples, range_text(summary.raw_logit_rank, 0),
                       range_text(summary.alternative_logit_rank, 0));
  }
  return fmt::format(table_format, summary.length, to_string(summary.kind), summary.samples,
                     range_text(summary.rank, 0), range_text(summary.null_dim, 0), range_text(summary.null_dim_ones, 0),
                     number_text(summary.pearson.mean, 4), range_text(summary.pearson, 4));
}

std::string sweep_csv(const std::vector<sweep_row>& rows) {
  const bool has_layers = !rows.empty() && rows[0].layer > 0;
  std::string text =
      fmt::format("length,heads_are,sample,{}head,rank,null_dim,null_dim_ones,pearson\n", has_layers ? "layer," : "");
  for (const sweep_row& row : rows) {
    if (row.kind == sweep_kind::logits) continue;
    const std::string layer = has_layers ? fmt::format("{},", row.layer) : "";
    text += fmt::format("{},{},{},{}{},{},{},{},{}\n", row.length, to_string(row.kind), row.sample, layer, row.head,
                        row.rank, row.null_dim, row.null_dim_ones, csv_number(row.pearson));
  }
  return text;
}

std::string logit_csv(const std::vector<sweep_row>& rows) {
  std::string text = "length,sample,head,raw_rank,alternative_rank\n";
  for (const sweep_row& row : rows) {
    if (row.kind != sweep_kind::logits) continue;
    text += fmt::format("{},{},{},{},{}\n", row.length, row.sample, row.head, row.raw_logit_rank,
                        row.alternative_logit_rank);
  }
  return text;
}

std::string sweep_json(const nlohmann::ordered_json& description, const std::vector<sweep_summary>& summaries,
                       const std::vector<sweep_row>& rows) {
  std::string text = description.dump(2);
  text.erase(text.rfind("\n}"));  // goes on below
  text += list_text("summary", summaries, false) + list_text("rows", rows, false);
  if (summaries.back().kind == sweep_kind::logits) {
    text += list_text("logit_rank_summary", summaries, true) + list_text("logit_rank_rows", rows, true);
  }
  return text + "\n}\n";
}

}  // namespace nullscope::cli
