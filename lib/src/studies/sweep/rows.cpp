#include "lib/src/studies/sweep/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <string>

namespace nullscope {
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

/// To six decimals: the accuracy of a correlation in single precision, and enough for any chart.
double rounded(double correlation) { return std::round(correlation * 1e6) / 1e6; }

/// To so many digits, wherever they begin.
double rounded_to_digits(double x, int digits) {
  if (!std::isfinite(x) || x == 0) return x;
  return std::stod(fmt::format("{:.{}e}", x, digits - 1));
}

bool is_same_head(const sweep_row& a, const sweep_row& b) {
  return a.kind == b.kind && a.length == b.length && a.sample == b.sample && a.layer == b.layer && a.head == b.head;
}

void estimate(const sweep_settings& settings, sweep_row& row) {
  if (row.sums.empty()) return;
  attention_sums sums = row.sums[0];
  for (std::size_t i = 1; i < row.sums.size(); ++i) sums += row.sums[i];
  const double epsilon = settings.is_double ? static_cast<double>(std::numeric_limits<double>::epsilon())
                                            : static_cast<double>(std::numeric_limits<float>::epsilon());
  const attention_estimate found =
      estimate_attention(sums, {.queries = row.length, .keys = row.length, .rank = row.rank, .epsilon = epsilon});
  row.pearson = rounded(found.pearson.value);
  row.raw_norm = rounded_to_digits(found.raw_norm.value, 6);
  row.effective_norm = rounded_to_digits(found.effective_norm.value, 6);
  row.null_norm = rounded_to_digits(found.null_norm.value, 6);
  row.pearson_error = rounded_to_digits(found.pearson.standard_error, 3);
  row.raw_norm_error = rounded_to_digits(found.raw_norm.standard_error, 3);
  row.effective_norm_error = rounded_to_digits(found.effective_norm.standard_error, 3);
  row.null_norm_error = rounded_to_digits(found.null_norm.standard_error, 3);
  row.sums.clear();
}

/// Of the rows of one length and kind.
sweep_summary summarise(const std::vector<sweep_row>& rows) {
  sweep_summary summary{rows.at(0).kind, rows.at(0).length, rows.back().sample + 1, {}, {}, {}, {}, {}, {}};
  summary.rank = spread_of(rows, &sweep_row::rank);
  summary.null_dim = spread_of(rows, &sweep_row::null_dim);
  summary.null_dim_ones = spread_of(rows, &sweep_row::null_dim_ones);
  summary.pearson = spread_of(rows, &sweep_row::pearson);
  double squares = 0;
  for (const sweep_row& row : rows) squares += row.pearson_error * row.pearson_error;
  summary.pearson_error = std::sqrt(squares) / static_cast<double>(rows.size());
  summary.raw_logit_rank = spread_of(rows, &sweep_row::raw_logit_rank);
  summary.alternative_logit_rank = spread_of(rows, &sweep_row::alternative_logit_rank);
  return summary;
}

}  // namespace

std::vector<sweep_row> finished_rows(const sweep_settings& settings, const std::vector<sweep_row>& parts) {
  std::vector<sweep_row> rows;
  for (const sweep_row& part : parts) {
    if (rows.empty() || !is_same_head(rows.back(), part)) {
      rows.push_back(part);
      continue;
    }
    sweep_row& row = rows.back();
    if (row.rank != part.rank || row.null_dim_ones != part.null_dim_ones) {
      throw error(
          fmt::format("sweep: the parts of head {} of sample {} at length {} were computed by devices that "
                      "disagree about its rank: {} and {}",
                      row.head, row.sample, row.length, row.rank, part.rank));
    }
    row.sums.insert(row.sums.end(), part.sums.begin(), part.sums.end());
  }
  for (sweep_row& row : rows) estimate(settings, row);
  return rows;
}

sweep_row row_of(const sweep_settings& settings, const sweep_unit& unit, std::int64_t i) {
  const std::int64_t head = i % settings.heads, per_layer = settings.model ? settings.model->heads : settings.heads;
  return {unit.kind, unit.length, i / settings.heads, settings.model ? head / per_layer + 1 : 0, head % per_layer};
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

}  // namespace nullscope
