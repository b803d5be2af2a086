/// The results of a sweep, one row per head.
#pragma once

#include <cstdint>
#include <limits>
#include <nullscope/attention/attention_statistics.hpp>
#include <vector>

#include "lib/cli/sweep/sweep_settings.hpp"

namespace nullscope::cli {

inline constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

struct sweep_row {
  sweep_kind kind;
  std::int64_t length, sample, layer, head;                ///< layer from 1; 0: random heads
  std::int64_t rank = 0, null_dim = 0, null_dim_ones = 0;  ///< of T; not of kind logits
  double pearson = no_number;                              ///< of raw and effective attention; NaN: not computed
  double raw_norm = no_number, effective_norm = no_number, null_norm = no_number;  ///< of A, A_perp, A_par
  double pearson_error = no_number;  ///< standard errors: 0 if all queries were computed
  double raw_norm_error = no_number, effective_norm_error = no_number, null_norm_error = no_number;
  std::int64_t raw_logit_rank = 0, alternative_logit_rank = 0;  ///< only of kind logits
  std::vector<attention_sums> sums = {};  ///< of blocks of queries: what the numbers of attention are computed from
};

/// A row without results: number i of a unit's length, counted as there.
sweep_row row_of(const sweep_settings& settings, const sweep_unit& unit, std::int64_t i);

/// Puts rows of parts of a head together, and computes the numbers of attention from the sums of their blocks, added in
/// the order of the queries. Throws error if the parts of a head disagree about its rank.
std::vector<sweep_row> finished_rows(const sweep_settings& settings, const std::vector<sweep_row>& parts);

/// The numbers of a row as the journal keeps them, before they are finished, and back.
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
  double pearson_error = no_number;  ///< standard error of the mean correlation, because queries were sampled
};

/// `rows` are of one length and kind.
sweep_summary summarise(const std::vector<sweep_row>& rows);

/// One summary per length and kind, in the order of the rows.
std::vector<sweep_summary> summaries_of(const std::vector<sweep_row>& rows);

}  // namespace nullscope::cli
