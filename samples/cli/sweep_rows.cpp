#include "sweep_rows.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <nullscope/errors.hpp>

namespace nullscope::cli {
namespace {

template <class Number>
sweep_spread spread_of(const std::vector<sweep_row>& rows, Number sweep_row::*member) {
  sweep_spread spread{INFINITY, 0, -INFINITY};
  for (const sweep_row& row : rows) {
    const auto x = static_cast<double>(row.*member);
    spread.least = std::min(spread.least, x);
    spread.most = std::max(spread.most, x);
    spread.mean += x / static_cast<double>(rows.size());
  }
  if (std::isnan(spread.mean)) return {};
  return spread;
}

}  // namespace

sweep_row row_of(const sweep_settings& settings, const sweep_unit& unit, std::int64_t i) {
  const std::int64_t head = i % settings.heads, per_layer = settings.model ? settings.model->heads : settings.heads;
  return {unit.kind, unit.length, i / settings.heads, settings.model ? head / per_layer + 1 : 0, head % per_layer};
}

nlohmann::json encode(const std::vector<sweep_row>& rows) {
  nlohmann::json numbers = nlohmann::json::array();
  for (const sweep_row& row : rows) {
    if (row.kind == sweep_kind::logits) {
      numbers.push_back({row.raw_logit_rank, row.alternative_logit_rank});
    } else {
      numbers.push_back({row.rank, row.null_dim_ones, row.pearson});  // NaN becomes null
    }
  }
  return numbers;
}

std::vector<sweep_row> decode(const nlohmann::json& numbers, const sweep_settings& settings, const sweep_unit& unit) {
  std::vector<sweep_row> rows;
  for (std::int64_t i = unit.first; i < unit.first + unit.count; ++i) {
    const nlohmann::json& line = numbers.at(static_cast<std::size_t>(i - unit.first));
    sweep_row row = row_of(settings, unit, i);
    if (unit.kind == sweep_kind::logits) {
      row.raw_logit_rank = line.at(0);
      row.alternative_logit_rank = line.at(1);
    } else {
      row.rank = line.at(0);
      row.null_dim = row.length - row.rank;
      row.null_dim_ones = line.at(1);
      if (!line.at(2).is_null()) row.pearson = line.at(2);
    }
    rows.push_back(row);
  }
  return rows;
}

sweep_summary summarise(const std::vector<sweep_row>& rows) {
  sweep_summary summary{rows.at(0).kind, rows.at(0).length, rows.back().sample + 1, {}, {}, {}, {}, {}, {}};
  summary.rank = spread_of(rows, &sweep_row::rank);
  summary.null_dim = spread_of(rows, &sweep_row::null_dim);
  summary.null_dim_ones = spread_of(rows, &sweep_row::null_dim_ones);
  summary.pearson = spread_of(rows, &sweep_row::pearson);
  summary.raw_logit_rank = spread_of(rows, &sweep_row::raw_logit_rank);
  summary.alternative_logit_rank = spread_of(rows, &sweep_row::alternative_logit_rank);
  return summary;
}

std::vector<sweep_summary> summaries_of(const std::vector<sweep_row>& rows) {
  std::vector<sweep_summary> summaries;
  for (auto first = rows.begin(); first != rows.end();) {
    const auto last = std::find_if(first, rows.end(), [&](const sweep_row& row) {
      return row.kind != first->kind || row.length != first->length;
    });
    summaries.push_back(summarise({first, last}));
    first = last;
  }
  return summaries;
}

}  // namespace nullscope::cli
