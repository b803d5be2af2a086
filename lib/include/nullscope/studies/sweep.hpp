/// The null-space sweep: rank and null space of T = V H, and the correlation of raw and effective attention, over the
/// length S of the sequence; for random heads, or for the heads of a model that reads texts.
///
///   const sweep_settings settings = complete({.lengths = {64, 256, 1024}, .samples = 4});
///   const auto computer = make_sweep_computer(context(select_device()), settings);
///   for (const sweep_row& row : sweep(*computer)) use(row.length, row.rank, row.pearson);
///
/// Random heads: tokens E (S x d) are normal, weights are normal with deviation 1 / sqrt(rows), q = E W_Q, k = E W_K,
/// v = E W_V. Heads are concatenated (d_v = d / h) or added (d_v = d).
///
/// A long sweep is divided into units, which can be computed anywhere and in any order: `units_of` lists them,
/// `cost_of` estimates their work, `sweep_computer` computes one, and `finished_rows` joins what they found. A row
/// depends on the settings and the kind of device alone.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nullscope/attention/attention_statistics.hpp>
#include <nullscope/core/context.hpp>
#include <nullscope/model/transformer.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace nullscope {

/// What is computed for a length: heads whose outputs are concatenated or added, or the rank of the logits of
/// alternative weights (of concatenated heads, see simplex.hpp).
enum class sweep_kind { concatenated, added, logits };

std::string_view to_string(sweep_kind kind);

/// The model whose heads are swept, filled in by `complete`.
struct sweep_model {
  std::int64_t layers = 0, heads = 0, value_size = 0;  ///< heads of one layer
  std::map<std::int64_t, std::int64_t> samples = {};   ///< texts for each length; 0: none is long enough
};

struct sweep_settings {
  std::int64_t min_length = 16, max_length = 4096, per_doubling = 2;
  std::vector<std::int64_t> lengths = {};  ///< empty: from min_length to max_length, per_doubling of them per doubling
  std::int64_t samples = 0;                ///< 0: depends on kind and length, see `samples_of`
  std::int64_t width = 512, heads = 8;     ///< heads of a sample; of a model those of all layers
  std::int64_t key_size = 0;               ///< 0: d / h
  std::string heads_are = "both";          ///< or "concatenated", "added"
  std::uint64_t seed = 1;
  bool is_double = false;
  std::int64_t pearson_up_to = -1;  ///< the largest length with a correlation; -1: all, for added heads 4096
  std::int64_t query_sample = 0;    ///< queries of a head that its correlation is estimated from; 0: all, exact
  std::int64_t query_block = 0;     ///< queries of a long head in one unit; 0: depends on the length, see `units_of`
  bool logit_rank = false;          ///< also kind logits, for S from d_v + 2 to 2 max(d_v, d_k)
  std::int64_t memory = std::int64_t{3} << 30;  ///< bytes of device memory that each computer may use
  std::optional<sweep_model> model = std::nullopt;

  std::int64_t value_size(sweep_kind kind) const;
  std::int64_t samples_of(sweep_kind kind, std::int64_t length) const;
  bool has_pearson(sweep_kind kind, std::int64_t length) const;

  /// Queries from which the correlation of a head is computed; 0 without one.
  std::int64_t rows_of(sweep_kind kind, std::int64_t length) const;

  /// Whether a head may be divided among units. Such heads are computed one by one, divided or not: the bits of a head
  /// depend on how many are computed at once.
  bool is_divisible(sweep_kind kind, std::int64_t length) const;

  /// Whether the correlation of a length is an estimate.
  bool is_sampled() const { return query_sample > 0 && lengths.back() > query_sample; }

  std::vector<sweep_kind> kinds() const;  ///< without logits
};

/// Texts as a model reads them, and which of them a sweep takes at each length.
class sweep_texts {
 public:
  explicit sweep_texts(std::vector<token_batch::sequence> sequences);

  /// Tokens of the longest text; 0 without texts.
  std::int64_t longest() const;

  /// Up to `count` different texts of at least `length` tokens, chosen by the seed, cut to that length.
  std::vector<token_batch::sequence> choose(std::int64_t length, std::int64_t count, std::uint64_t seed) const;

 private:
  std::vector<token_batch::sequence> sequences_;  // the longest first, otherwise in the order given
};

/// Fills in what follows from other settings: the lengths, ascending, and the key size. Throws invalid_argument, with
/// the name of the setting, on settings that make no sense.
sweep_settings complete(sweep_settings settings);

/// For the heads of a model: width, heads and their sizes are those of the model. Lengths that no text reaches are
/// dropped; for the others, settings.model says how many texts are read. Throws invalid_argument also if no text
/// reaches a length.
sweep_settings complete(sweep_settings settings, const transformer_config& model, const sweep_texts& texts);

/// A piece of work that is computed as a whole: heads [first, first + count) of a length, counted over all samples.
/// Number i is head i % h of sample i / h. If one head is divided, of it rows [first_row, first_row + rows) of those
/// from which its correlation is computed.
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

/// The results for one head. NaN: not computed.
struct sweep_row {
  static constexpr double none = std::numeric_limits<double>::quiet_NaN();

  sweep_kind kind;
  std::int64_t length, sample, layer, head;                         ///< layer from 1; 0: random heads
  std::int64_t rank = 0, null_dim = 0, null_dim_ones = 0;           ///< of T, LN(T), LN([T, 1]); not of kind logits
  double pearson = none;                                            ///< correlation of raw and effective attention
  double raw_norm = none, effective_norm = none, null_norm = none;  ///< Frobenius norms of A, A_perp, A_par
  double pearson_error = none;                                      ///< standard errors: 0 if all queries were computed
  double raw_norm_error = none, effective_norm_error = none, null_norm_error = none;
  std::int64_t raw_logit_rank = 0, alternative_logit_rank = 0;  ///< only of kind logits
  std::vector<attention_sums> sums = {};  ///< of blocks of queries, until `finished_rows` has used them
};

/// Puts rows of parts of a head together, and computes the numbers of attention from the sums of their blocks, added in
/// the order of the queries. `parts`: rows of units, in the order of `units_of`. Throws error if the parts of a head
/// disagree about its rank.
std::vector<sweep_row> finished_rows(const sweep_settings& settings, const std::vector<sweep_row>& parts);

/// Least, mean and largest of the rows of one length and kind; NaN: not computed.
struct sweep_spread {
  double least = sweep_row::none, mean = sweep_row::none, most = sweep_row::none;
};

struct sweep_summary {
  sweep_kind kind;
  std::int64_t length = 0, samples = 0;
  sweep_spread rank, null_dim, null_dim_ones, pearson, raw_logit_rank, alternative_logit_rank;
  double pearson_error = sweep_row::none;  ///< standard error of the mean correlation, because queries were sampled
};

/// One summary per length and kind, in the order of the finished rows.
std::vector<sweep_summary> summaries_of(const std::vector<sweep_row>& rows);

/// A column of a table of finished rows: its name, and the member of a row that it shows.
struct sweep_column {
  std::string_view name;
  std::variant<sweep_kind sweep_row::*, std::int64_t sweep_row::*, double sweep_row::*> member;
};

/// The columns of heads, with layers for a model and with standard errors for estimates; or those of kind logits.
std::vector<sweep_column> sweep_columns(const sweep_settings& settings, bool of_logits = false);

/// The rows of heads, or of kind logits, as CSV: names, then one line per row; numbers that are NaN are empty.
std::string sweep_csv(const sweep_settings& settings, const std::vector<sweep_row>& rows, bool of_logits = false);

/// Computes units on a device. Belongs to one thread at a time.
class sweep_computer {
 public:
  virtual ~sweep_computer() = default;

  virtual const sweep_settings& settings() const = 0;

  /// The rows of a unit, for `finished_rows`. Throws computation_error if a rank is not found.
  virtual std::vector<sweep_row> compute(const sweep_unit& unit) = 0;

  /// Bytes of device memory that the unit takes. Throws invalid_argument if one head alone is above the budget.
  virtual std::int64_t memory_of(const sweep_unit& unit) = 0;
};

/// For random heads. The computer takes the context over, and limits its workspace. `settings` are complete.
std::unique_ptr<sweep_computer> make_sweep_computer(context ctx, const sweep_settings& settings);

/// For the heads of `model`, which must outlive the computer. `settings` were completed with its config and these
/// texts; the type is that of the model.
std::unique_ptr<sweep_computer> make_sweep_computer(context ctx, const sweep_settings& settings,
                                                    const transformer<float>& model, const sweep_texts& texts);
std::unique_ptr<sweep_computer> make_sweep_computer(context ctx, const sweep_settings& settings,
                                                    const transformer<double>& model, const sweep_texts& texts);

/// All units of a sweep, one after the other: the finished rows. `progress` is called after each unit with the share of
/// the work that is complete; what it throws ends the sweep.
std::vector<sweep_row> sweep(sweep_computer& computer, const std::function<void(double share)>& progress = {});

}  // namespace nullscope
