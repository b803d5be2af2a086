/// The results of a sweep, one row per head.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sweep_settings.hpp"

namespace nullscope::cli {

struct sweep_row {
  sweep_kind kind;
  std::int64_t length, sample, layer, head;                     ///< layer from 1; 0: random heads
  std::int64_t rank = 0, null_dim = 0, null_dim_ones = 0;       ///< of T; not of kind logits
  double pearson = std::numeric_limits<double>::quiet_NaN();    ///< of raw and effective attention; NaN: not computed
  std::int64_t raw_logit_rank = 0, alternative_logit_rank = 0;  ///< only of kind logits
};

/// A row without results: number i of a unit's length, counted as there.
sweep_row row_of(const sweep_settings& settings, const sweep_unit& unit, std::int64_t i);

/// The numbers of a row as the journal keeps them, and back.
nlohmann::json encode(const std::vector<sweep_row>& rows);
std::vector<sweep_row> decode(const nlohmann::json& numbers, const sweep_settings& settings, const sweep_unit& unit);

/// Least, mean and largest of the rows of one length and kind.
struct sweep_spread {
  double least = std::numeric_limits<double>::quiet_NaN(), mean = least, most = least;
};

struct sweep_summary {
  sweep_kind kind;
  std::int64_t length = 0, samples = 0;
  sweep_spread rank, null_dim, null_dim_ones, pearson, raw_logit_rank, alternative_logit_rank;
};

/// `rows` are of one length and kind.
sweep_summary summarise(const std::vector<sweep_row>& rows);

/// One summary per length and kind, in the order of the rows.
std::vector<sweep_summary> summaries_of(const std::vector<sweep_row>& rows);

}  // namespace nullscope::cli
