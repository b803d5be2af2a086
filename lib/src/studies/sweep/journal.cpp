#include "lib/src/studies/sweep/journal.hpp"

#include <array>

#include "lib/src/studies/sweep/rows.hpp"

namespace nullscope {
namespace {

/// JSON has null for NaN.
template <std::size_t Count>
std::array<double, Count> numbers_of(const nlohmann::json& list) {
  std::array<double, Count> numbers;
  for (std::size_t i = 0; i < Count; ++i) {
    numbers[i] = list.at(i).is_null() ? sweep_row::none : list.at(i).get<double>();
  }
  return numbers;
}

}  // namespace

nlohmann::json to_journal(const std::vector<sweep_row>& rows) {
  nlohmann::json numbers = nlohmann::json::array();
  for (const sweep_row& row : rows) {
    if (row.kind == sweep_kind::logits) {
      numbers.push_back({row.raw_logit_rank, row.alternative_logit_rank});
    } else {
      nlohmann::json sums = nlohmann::json::array();
      for (const attention_sums& block : row.sums) sums.push_back({block.rows, block.sum, block.product});
      numbers.push_back({row.rank, row.null_dim_ones, std::move(sums)});
    }
  }
  return numbers;
}

std::vector<sweep_row> from_journal(const nlohmann::json& numbers, const sweep_settings& settings,
                                    const sweep_unit& unit) {
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
      for (const nlohmann::json& block : line.at(2)) {
        row.sums.push_back({block.at(0).get<std::int64_t>(), numbers_of<3>(block.at(1)), numbers_of<6>(block.at(2))});
      }
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace nullscope
