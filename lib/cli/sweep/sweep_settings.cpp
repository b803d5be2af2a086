#include "lib/cli/sweep/sweep_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <nullscope/attention/attention_statistics.hpp>

#include "lib/cli/commands.hpp"

namespace nullscope::cli {
namespace {

// Chosen so that a default sweep takes a few minutes on two cores; longer sequences get fewer samples.
constexpr std::int64_t default_samples = 10, default_added_samples = 2, samples_shrink_after = 4096;

// The number of a random stream has this many bits for a length, a sample and a head.
constexpr std::int64_t length_limit = 1 << 24, sample_limit = 1 << 20, head_limit = 1 << 16, width_limit = 1 << 20;

constexpr std::int64_t attention_columns = 512;  // the most that `attention` supports, for keys and for values

std::vector<std::int64_t> lengths_between(std::int64_t first, std::int64_t last, std::int64_t per_doubling) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0;; ++i) {
    const double exact =
        static_cast<double>(first) * std::exp2(static_cast<double>(i) / static_cast<double>(per_doubling));
    const std::int64_t length = std::llround(exact);
    if (length >= last) break;
    if (lengths.empty() || length > lengths.back()) lengths.push_back(length);
  }
  lengths.push_back(last);
  return lengths;
}

void require(bool condition, const std::string& message) {
  if (!condition) throw usage_error("sweep: " + message);
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
  const std::int64_t blocks = wanted / attention_row_block + (wanted % attention_row_block > 0 ? 1 : 0);
  return blocks * attention_row_block;
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
  return rows_of(kind, length) > attention_row_block;
}

std::vector<sweep_kind> sweep_settings::kinds() const {
  std::vector<sweep_kind> kinds;
  if (heads_are != "added") kinds.push_back(sweep_kind::concatenated);
  if (heads_are != "concatenated") kinds.push_back(sweep_kind::added);
  return kinds;
}

sweep_settings complete(sweep_settings settings) {
  require(settings.heads < head_limit, fmt::format("{} heads are too many", settings.heads));
  require(settings.width < width_limit, fmt::format("a width of {} is too large", settings.width));
  require(settings.model || settings.width % settings.heads == 0,
          fmt::format("a width of {} cannot be divided among {} heads", settings.width, settings.heads));
  if (settings.key_size == 0) settings.key_size = settings.width / settings.heads;
  require(settings.key_size < width_limit, fmt::format("a key size of {} is too large", settings.key_size));
  require(
      !settings.logit_rank || std::max(settings.key_size, settings.value_size(sweep_kind::logits)) <= attention_columns,
      fmt::format("--logit-rank needs heads of at most {} columns", attention_columns));
  require(!settings.logit_rank || settings.value_size(sweep_kind::logits) > 1 || settings.key_size > 1,
          "--logit-rank needs heads of more than one column");
  require(!settings.model || !settings.logit_rank, "--logit-rank is for random heads, not for those of a model");
  require(settings.samples < sample_limit, fmt::format("{} samples are too many", settings.samples));
  if (settings.lengths.empty()) {
    require(settings.min_length <= settings.max_length,
            fmt::format("--min-length {} is above --max-length {}", settings.min_length, settings.max_length));
    require(settings.max_length < length_limit, fmt::format("a length of {} is too large", settings.max_length));
    require(settings.per_doubling <= 1000, "--per-doubling is at most 1000");
    settings.lengths = lengths_between(settings.min_length, settings.max_length, settings.per_doubling);
  }
  std::ranges::sort(settings.lengths);
  // Not std::ranges::unique, whose result Clang 15 does not compile with the library of GCC 12.
  const auto repeated = std::unique(settings.lengths.begin(), settings.lengths.end());
  settings.lengths.erase(repeated, settings.lengths.end());
  require(settings.lengths.back() < length_limit, fmt::format("a length of {} is too large", settings.lengths.back()));
  return settings;
}

std::string describe(const sweep_settings& settings) {
  const std::string sizes = fmt::format("d = {}, {} heads, d_k = {}", settings.width,
                                        settings.model ? settings.model->heads : settings.heads, settings.key_size);
  return settings.model ? fmt::format("{}, {} layers, {}", settings.model->name, settings.model->layers, sizes) : sizes;
}

nlohmann::ordered_json to_json(const sweep_settings& settings) {
  const auto number_or_default = [](std::int64_t number, bool is_default) {
    return is_default ? nlohmann::ordered_json("default") : nlohmann::ordered_json(number);
  };
  nlohmann::ordered_json json{{"lengths", settings.lengths},
                              {"samples", number_or_default(settings.samples, settings.samples == 0)},
                              {"width", settings.width},
                              {"heads", settings.heads},
                              {"key_size", settings.key_size},
                              {"heads_are", settings.heads_are},
                              {"seed", settings.seed},
                              {"type", settings.is_double ? "f64" : "f32"},
                              {"pearson_up_to", number_or_default(settings.pearson_up_to, settings.pearson_up_to < 0)},
                              {"query_sample", settings.is_sampled() ? nlohmann::ordered_json(settings.query_sample)
                                                                     : nlohmann::ordered_json("all")},
                              {"logit_rank", settings.logit_rank},
                              {"memory", settings.memory}};
  if (!settings.model) return json;
  nlohmann::ordered_json samples = nlohmann::ordered_json::array();
  for (const auto& [length, count] : settings.model->samples) samples.push_back(count);
  json["heads"] = settings.model->heads;
  json["model"] = settings.model->name;
  json["layers"] = settings.model->layers;
  json["value_size"] = settings.model->value_size;
  json["texts"] = settings.model->texts;
  json["texts_per_length"] = samples;
  json["checksum"] = settings.model->checksum;
  return json;
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

}  // namespace nullscope::cli
