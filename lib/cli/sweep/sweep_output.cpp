#include "lib/cli/sweep/sweep_output.hpp"

#include "lib/cli/common/previous_work.hpp"

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

std::string error_text(double x) { return std::isnan(x) ? "-" : x == 0 ? "0" : fmt::format("{:.2g}", x); }

constexpr const char* table_format = "{:>8}  {:<12}  {:>7}  {:>9}  {:>13}  {:>15}  {:>8}  {:>14}{}\n";
constexpr const char* logit_format = "{:>8}  {:>7}  {:>11}  {:>20}\n";

std::string csv_number(double x) { return std::isnan(x) ? "" : fmt::format("{}", x); }

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

nlohmann::ordered_json to_json(const sweep_row& row, bool is_sampled) {
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
    json["raw_norm"] = row.raw_norm;
    json["effective_norm"] = row.effective_norm;
    json["null_norm"] = row.null_norm;
    if (!is_sampled) return json;
    json["pearson_error"] = row.pearson_error;
    json["raw_norm_error"] = row.raw_norm_error;
    json["effective_norm_error"] = row.effective_norm_error;
    json["null_norm_error"] = row.null_norm_error;
  }
  return json;
}

/// `"name": [` and one element per line, so that people can read and compare long files.
template <class Element>
std::string list_text(const char* name, const std::vector<Element>& elements, bool of_logits, bool is_sampled) {
  std::string text;
  for (const Element& element : elements) {
    if ((element.kind == sweep_kind::logits) != of_logits) continue;
    text += fmt::format("{}\n    {}", text.empty() ? "" : ",", to_json(element, is_sampled).dump());
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

std::string sweep_csv(const std::vector<sweep_row>& rows, bool is_sampled) {
  const bool has_layers = !rows.empty() && rows[0].layer > 0;
  std::string text = fmt::format(
      "length,heads_are,sample,{}head,rank,null_dim,null_dim_ones,pearson,raw_norm,effective_norm,null_norm{}\n",
      has_layers ? "layer," : "",
      is_sampled ? ",pearson_error,raw_norm_error,effective_norm_error,null_norm_error" : "");
  for (const sweep_row& row : rows) {
    if (row.kind == sweep_kind::logits) continue;
    const std::string layer = has_layers ? fmt::format("{},", row.layer) : "";
    text += fmt::format("{},{},{},{}{},{},{},{},{},{},{},{}", row.length, to_string(row.kind), row.sample, layer,
                        row.head, row.rank, row.null_dim, row.null_dim_ones, csv_number(row.pearson),
                        csv_number(row.raw_norm), csv_number(row.effective_norm), csv_number(row.null_norm));
    if (is_sampled) {
      for (const double error :
           {row.pearson_error, row.raw_norm_error, row.effective_norm_error, row.null_norm_error}) {
        text += "," + csv_number(error);
      }
    }
    text += "\n";
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

std::string times_csv(const std::vector<sweep_time>& times) {
  std::string text = "length,heads_are,heads,seconds\n";
  for (const sweep_time& time : times) {
    text += fmt::format("{},{},{},{:.4f}\n", time.length, to_string(time.kind), time.heads, time.seconds);
  }
  return text;
}

std::string sweep_json(const nlohmann::ordered_json& description, const std::vector<sweep_summary>& summaries,
                       const std::vector<sweep_row>& rows, bool is_sampled) {
  std::string text = json_text(description, 2);
  text.erase(text.rfind("\n}"));  // goes on below
  text += list_text("summary", summaries, false, is_sampled) + list_text("rows", rows, false, is_sampled);
  if (summaries.back().kind == sweep_kind::logits) {
    text += list_text("logit_rank_summary", summaries, true, false) + list_text("logit_rank_rows", rows, true, false);
  }
  return text + "\n}\n";
}

}  // namespace nullscope::cli
