#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/studies/sweep.hpp>

#include "lib/src/attention/row_block.hpp"

namespace nullscope {
namespace {

// Chosen so that a default sweep takes a few minutes on two cores; longer sequences get fewer samples.
constexpr std::int64_t default_samples = 10, default_added_samples = 2, samples_shrink_after = 4096;

// The number of a random stream has this many bits for a length, a sample and a head.
constexpr std::int64_t length_limit = 1 << 24, sample_limit = 1 << 20, head_limit = 1 << 16, width_limit = 1 << 20;

constexpr std::int64_t attention_columns = 512;  // the most that `attention` supports, for keys and for values

void require(bool condition, const std::string& message) {
  if (!condition) throw invalid_argument("sweep: " + message);
}

void require_at_least(std::int64_t least, std::int64_t number, const char* name) {
  require(number >= least, fmt::format("{} is {}; expected at least {}", name, number, least));
}

void check_length(std::int64_t length) {
  require(length < length_limit, fmt::format("a length of {} is too large", length));
}

void check_heads(const sweep_settings& settings) {
  require_at_least(1, settings.width, "width");
  require_at_least(1, settings.heads, "heads");
  require_at_least(0, settings.key_size, "key_size");
  require_at_least(0, settings.samples, "samples");
  require_at_least(0, settings.query_sample, "query_sample");
  require_at_least(0, settings.query_block, "query_block");
  require_at_least(1, settings.memory, "memory");
  const std::string& kinds = settings.heads_are;
  require(kinds == "concatenated" || kinds == "added" || kinds == "both",
          fmt::format("heads_are is \"{}\"; expected \"concatenated\", \"added\" or \"both\"", kinds));
  require(settings.heads < head_limit, fmt::format("{} heads are too many", settings.heads));
  require(settings.width < width_limit, fmt::format("a width of {} is too large", settings.width));
  require(settings.model || settings.width % settings.heads == 0,
          fmt::format("a width of {} cannot be divided among {} heads", settings.width, settings.heads));
  require(settings.key_size < width_limit, fmt::format("a key size of {} is too large", settings.key_size));
  require(settings.samples < sample_limit, fmt::format("{} samples are too many", settings.samples));
}

void check_logit_rank(const sweep_settings& settings) {
  if (!settings.logit_rank) return;
  const std::int64_t values = settings.value_size(sweep_kind::logits);
  require(std::max(settings.key_size, values) <= attention_columns,
          fmt::format("logit_rank needs heads of at most {} columns", attention_columns));
  require(values > 1 || settings.key_size > 1, "logit_rank needs heads of more than one column");
  require(!settings.model, "logit_rank is for random heads, not for those of a model");
}

std::vector<std::int64_t> lengths_between(const sweep_settings& settings) {
  const auto [first, last] = std::pair(settings.min_length, settings.max_length);
  require_at_least(1, first, "min_length");
  require_at_least(1, settings.per_doubling, "per_doubling");
  require(first <= last, fmt::format("min_length {} is above max_length {}", first, last));
  check_length(last);
  require(settings.per_doubling <= 1000, "per_doubling is at most 1000");
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0;; ++i) {
    const double doublings = static_cast<double>(i) / static_cast<double>(settings.per_doubling);
    const std::int64_t length = std::llround(static_cast<double>(first) * std::exp2(doublings));
    if (length >= last) break;
    if (lengths.empty() || length > lengths.back()) lengths.push_back(length);
  }
  lengths.push_back(last);
  return lengths;
}

/// How many heads form one unit: several samples together, to keep a device busy, or single heads of long sequences, to
/// lose little when interrupted and to give all ranks something to do.
std::int64_t heads_per_unit(const sweep_settings& settings, sweep_kind kind, std::int64_t length) {
  constexpr std::int64_t together = std::int64_t{1} << 22, apart = std::int64_t{1} << 24;  // elements of the values V
  const std::int64_t per_head = length * settings.value_size(kind), per_sample = per_head * settings.heads;
  if (per_sample <= together) return together / per_sample * settings.heads;
  return per_sample <= apart ? settings.heads : std::max<std::int64_t>(1, apart / per_head);
}

/// Queries per unit of a head that may be divided: a whole number of the blocks in which sums are taken.
std::int64_t queries_per_unit(const sweep_settings& settings, std::int64_t length) {
  constexpr std::int64_t pairs = std::int64_t{1} << 34;  // of queries and keys: a minute on a few cores
  const std::int64_t wanted = settings.query_block > 0 ? settings.query_block : pairs / length;
  const std::int64_t blocks = wanted / detail::attention_row_block + (wanted % detail::attention_row_block > 0 ? 1 : 0);
  return blocks * detail::attention_row_block;
}

void add_units(std::vector<sweep_unit>& units, const sweep_settings& settings, sweep_kind kind, std::int64_t length) {
  const std::int64_t heads = settings.samples_of(kind, length) * settings.heads;
  const std::int64_t rows = settings.rows_of(kind, length);
  const std::int64_t block = queries_per_unit(settings, length);
  if (settings.is_divisible(kind, length) && rows > block) {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t first = 0; first < rows; first += block) {
        units.push_back({kind, length, head, 1, first, std::min(block, rows - first)});
      }
    }
    return;
  }
  const std::int64_t step = heads_per_unit(settings, kind, length);
  for (std::int64_t first = 0; first < heads; first += step) {
    units.push_back({kind, length, first, std::min(step, heads - first), 0, rows});
  }
}

}  // namespace

std::string_view to_string(sweep_kind kind) {
  switch (kind) {
    case sweep_kind::concatenated: return "concatenated";
    case sweep_kind::added: return "added";
    case sweep_kind::logits: return "logits";
  }
  return "";
}

std::int64_t sweep_settings::value_size(sweep_kind kind) const {
  if (model) return model->value_size;
  return kind == sweep_kind::added ? width : width / heads;
}

std::int64_t sweep_settings::samples_of(sweep_kind kind, std::int64_t length) const {
  if (model) {
    if (const auto known = model->samples.find(length); known != model->samples.end()) return known->second;
  }
  if (samples > 0) return samples;
  const std::int64_t most = kind == sweep_kind::added ? default_added_samples : default_samples;
  return std::clamp<std::int64_t>(most * samples_shrink_after / length, 1, most);
}

bool sweep_settings::has_pearson(sweep_kind kind, std::int64_t length) const {
  if (kind == sweep_kind::logits) return false;
  if (std::max(key_size, std::min(length, value_size(kind))) > attention_columns) return false;
  if (pearson_up_to >= 0) return length <= pearson_up_to;
  return kind == sweep_kind::concatenated || length <= 4096 || query_sample > 0;
}

std::int64_t sweep_settings::rows_of(sweep_kind kind, std::int64_t length) const {
  if (!has_pearson(kind, length)) return 0;
  return query_sample > 0 ? std::min(query_sample, length) : length;
}

bool sweep_settings::is_divisible(sweep_kind kind, std::int64_t length) const {
  return rows_of(kind, length) > detail::attention_row_block;
}

std::vector<sweep_kind> sweep_settings::kinds() const {
  std::vector<sweep_kind> kinds;
  if (heads_are != "added") kinds.push_back(sweep_kind::concatenated);
  if (heads_are != "concatenated") kinds.push_back(sweep_kind::added);
  return kinds;
}

sweep_settings complete(sweep_settings settings) {
  check_heads(settings);
  if (settings.key_size == 0) settings.key_size = settings.width / settings.heads;
  check_logit_rank(settings);
  if (settings.lengths.empty()) settings.lengths = lengths_between(settings);
  std::ranges::sort(settings.lengths);
  // Not std::ranges::unique, whose result Clang 15 does not compile with the library of GCC 12.
  const auto repeated = std::unique(settings.lengths.begin(), settings.lengths.end());
  settings.lengths.erase(repeated, settings.lengths.end());
  require(settings.lengths.front() > 0, fmt::format("a length of {}; expected at least 1", settings.lengths.front()));
  check_length(settings.lengths.back());
  return settings;
}

std::vector<sweep_unit> units_of(const sweep_settings& settings) {
  std::vector<sweep_unit> units;
  for (const std::int64_t length : settings.lengths) {
    for (const sweep_kind kind : settings.kinds()) add_units(units, settings, kind, length);
  }
  if (settings.logit_rank) {
    // LN([T, 1]) is not {0} from d_v + 2 tokens on; beyond twice d_v nothing new happens.
    const std::int64_t values = settings.value_size(sweep_kind::logits);
    for (std::int64_t length = values + 2; length <= 2 * std::max(values, settings.key_size); ++length) {
      add_units(units, settings, sweep_kind::logits, length);
    }
  }
  return units;
}

double cost_of(const sweep_settings& settings, const sweep_unit& unit) {
  const auto s = static_cast<double>(unit.length), d = static_cast<double>(settings.width);
  const auto dk = static_cast<double>(settings.key_size), dv = static_cast<double>(settings.value_size(unit.kind));
  const double rank = std::min(s, dv);
  const bool is_logits = unit.kind == sweep_kind::logits, has_scores = is_logits || unit.rows > 0;
  const double queries = is_logits ? s : static_cast<double>(unit.rows);
  double per_head = 2 * s * d * dv + 8 * s * dv * rank + 6 * d * rank * rank + 60 * rank * rank * rank;
  if (has_scores) per_head += 4 * s * d * dk + 2 * queries * s * (dk + rank);
  if (is_logits) per_head += 60 * s * s * s;
  constexpr double launches_per_head = 2e7, launches_per_unit = 2e9;  // the time they take, in flops
  return launches_per_unit + (launches_per_head + per_head) * static_cast<double>(unit.count);
}

}  // namespace nullscope
