/// What a sweep computes: its settings, and the units of work that follow from them alone.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope::cli {

/// What is computed for a length: heads whose outputs are concatenated (d_v = d / h) or added (d_v = d), or the rank of
/// the logits of alternative weights (concatenated heads).
enum class sweep_kind { concatenated, added, logits };

std::string_view to_string(sweep_kind kind);

/// A model whose heads are swept, instead of random ones.
struct sweep_model {
  std::string name, texts;                             ///< as given: the model, the file of the texts
  std::int64_t layers = 0, heads = 0, value_size = 0;  ///< heads of one layer
  std::map<std::int64_t, std::int64_t> samples = {};   ///< texts for each length: not all reach all lengths
  std::string checksum = "";                           ///< of the model and of the chosen texts
};

struct sweep_settings {
  std::int64_t min_length = 16, max_length = 4096, per_doubling = 2;
  std::vector<std::int64_t> lengths;    ///< listed by the user, or filled in by `complete`
  std::int64_t samples = 0;             ///< 0: depends on kind and length, see `samples_of`
  std::int64_t width = 512, heads = 8;  ///< heads of a sample: of a model those of all layers
  std::int64_t key_size = 0;            ///< 0: d / h
  std::string heads_are = "both";
  std::uint64_t seed = 1;
  bool is_double = false;
  std::int64_t pearson_up_to = -1;  ///< the largest length with a correlation; -1: all, for added heads 4096
  std::int64_t query_sample = 0;    ///< queries of a head that its correlation is estimated from; 0: all
  std::int64_t query_block = 0;     ///< queries of a long head in one unit; 0: depends on the length, see `units_of`
  bool logit_rank = false;
  std::int64_t memory = std::int64_t{3} << 30;  ///< bytes of device memory that each process may use
  std::optional<sweep_model> model = std::nullopt;

  std::int64_t value_size(sweep_kind kind) const {
    if (model) return model->value_size;
    return kind == sweep_kind::added ? width : width / heads;
  }
  std::int64_t samples_of(sweep_kind kind, std::int64_t length) const;
  bool has_pearson(sweep_kind kind, std::int64_t length) const;

  /// Queries from which the correlation of a head is computed; 0 without one.
  std::int64_t rows_of(sweep_kind kind, std::int64_t length) const;

  /// Whether a head may be divided among units. Such heads are computed one by one, divided or not: the bits of a head
  /// depend on how many are computed at once.
  bool is_divisible(sweep_kind kind, std::int64_t length) const;

  /// Whether the correlation of a length is an estimate.
  bool is_sampled() const { return query_sample > 0 && lengths.back() > query_sample; }
  std::vector<sweep_kind> kinds() const;
};

/// Fills in what follows from other settings. Throws usage_error on settings that make no sense.
sweep_settings complete(sweep_settings settings);

/// "d = 512, 8 heads, d_k = 64"
std::string describe(const sweep_settings& settings);

/// Everything that determines the numbers: two sweeps with equal settings write equal files.
nlohmann::ordered_json to_json(const sweep_settings& settings);

/// A piece of work that is computed, and journaled, as a whole: heads [first, first + count) of a length, counted over
/// all samples. Number i is head i % h of sample i / h. If one head is divided, of it rows [first_row, first_row +
/// rows) of those from which its correlation is computed.
struct sweep_unit {
  sweep_kind kind;
  std::int64_t length, first, count;
  std::int64_t first_row = 0, rows = 0;
};

/// The units, in the order of the results. They depend on the settings alone, not on who computes them. A long head is
/// divided into blocks of queries, each about a minute of work on a few cores, or as long as the settings say.
std::vector<sweep_unit> units_of(const sweep_settings& settings);

/// About how many flops a unit takes, to estimate the remaining time.
double cost_of(const sweep_settings& settings, const sweep_unit& unit);

}  // namespace nullscope::cli
