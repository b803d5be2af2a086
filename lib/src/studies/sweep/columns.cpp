#include <fmt/format.h>

#include <cmath>
#include <nullscope/studies/sweep.hpp>

namespace nullscope {
namespace {

std::string cell(sweep_kind kind) { return std::string(to_string(kind)); }
std::string cell(std::int64_t number) { return std::to_string(number); }
std::string cell(double number) { return std::isnan(number) ? "" : fmt::format("{}", number); }

}  // namespace

std::vector<sweep_column> sweep_columns(const sweep_settings& settings, bool of_logits) {
  if (of_logits) {
    return {{"length", &sweep_row::length},
            {"sample", &sweep_row::sample},
            {"head", &sweep_row::head},
            {"raw_rank", &sweep_row::raw_logit_rank},
            {"alternative_rank", &sweep_row::alternative_logit_rank}};
  }
  std::vector<sweep_column> columns{{"length", &sweep_row::length},
                                    {"heads_are", &sweep_row::kind},
                                    {"sample", &sweep_row::sample},
                                    {"layer", &sweep_row::layer},
                                    {"head", &sweep_row::head},
                                    {"rank", &sweep_row::rank},
                                    {"null_dim", &sweep_row::null_dim},
                                    {"null_dim_ones", &sweep_row::null_dim_ones},
                                    {"pearson", &sweep_row::pearson},
                                    {"raw_norm", &sweep_row::raw_norm},
                                    {"effective_norm", &sweep_row::effective_norm},
                                    {"null_norm", &sweep_row::null_norm},
                                    {"pearson_error", &sweep_row::pearson_error},
                                    {"raw_norm_error", &sweep_row::raw_norm_error},
                                    {"effective_norm_error", &sweep_row::effective_norm_error},
                                    {"null_norm_error", &sweep_row::null_norm_error}};
  std::erase_if(columns, [&](const sweep_column& column) {
    return (column.name == "layer" && !settings.model) || (column.name.ends_with("_error") && !settings.is_sampled());
  });
  return columns;
}

std::string sweep_csv(const sweep_settings& settings, const std::vector<sweep_row>& rows, bool of_logits) {
  const std::vector<sweep_column> columns = sweep_columns(settings, of_logits);
  std::string text;
  for (const sweep_column& column : columns) {
    text += text.empty() ? "" : ",";
    text += column.name;
  }
  text += "\n";
  for (const sweep_row& row : rows) {
    if ((row.kind == sweep_kind::logits) != of_logits) continue;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      text += i == 0 ? "" : ",";
      text += std::visit([&](auto member) { return cell(row.*member); }, columns[i].member);
    }
    text += "\n";
  }
  return text;
}

}  // namespace nullscope
