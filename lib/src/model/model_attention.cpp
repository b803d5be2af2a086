#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nullscope/attention/attention_statistics.hpp>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/linalg/svd.hpp>
#include <nullscope/model/model_states.hpp>
#include <numeric>

#include "lib/src/model/attention_sums.hpp"
#include "lib/src/model/gathered_heads.hpp"

namespace nullscope {

/// What the device leaves of one text.
template <class T>
struct model_attention<T>::text_results {
  tensor<std::int32_t> classes;                    // (S)
  tensor<std::int64_t> rank;                       // (heads)
  tensor<std::int32_t> status;                     // (heads)
  tensor<effective_attention_summary<T>> summary;  // (heads)
  tensor<T> entropy;                               // (1, heads): sums over the queries
  tensor<T> sums;                                  // (2, heads, classes, classes): raw, effective
  tensor<T> rollout;                               // (2, layers, classes, classes)

  text_results(context& ctx, const std::vector<std::int32_t>& of_tokens, std::int64_t heads, std::int64_t layers,
               std::int64_t count)
      : classes(ctx, {std::ssize(of_tokens)}, of_tokens),
        rank(ctx, {heads}),
        status(ctx, {heads}),
        summary(ctx, {heads}),
        entropy(ctx, {1, heads}),
        sums(ctx, {2, heads, count, count}),
        rollout(ctx, {2, layers, count, count}) {}
};

namespace {

bool choose_rows(const transformer_config& config, const model_attention_options& options) {
  if (options.by_rows.value_or(false) && !config.causal) {
    throw invalid_argument("model_attention: by_rows needs a causal model");
  }
  return options.by_rows.value_or(config.causal);
}

/// The factors of the effective attention of one text, in the workspace of an operation.
template <class T>
struct text_factors {
  view<T, 3> p, u;
  view<T, 2> log_sum_exp;

  text_factors(operation& op, const attention_heads<T>& heads)
      : p(op.take_array<T>(heads.q.extent[0], heads.q.extent[1], heads.basis_columns())),
        u(op.take_array<T>(heads.q.extent[0], heads.q.extent[1], heads.basis_columns())),
        log_sum_exp(op.take_array<T>(heads.q.extent[0], heads.q.extent[1])) {}

  attention_factors<T> of(const attention_heads<T>& heads) const {
    return {heads.q, heads.k, log_sum_exp, p, u, heads.bias};
  }
};

/// The factors of heads [first, first + count).
template <class T>
attention_factors<T> part_of(const attention_factors<T>& all, std::int64_t first, std::int64_t count) {
  return {slice(all.q, 0, first, count),           slice(all.k, 0, first, count),
          slice(all.log_sum_exp, 0, first, count), slice(all.p, 0, first, count),
          slice(all.u, 0, first, count),           all.bias.is_absent() ? all.bias : slice(all.bias, 0, first, count)};
}

/// Class sums (layers, classes, classes) of the rollout of one kind of attention.
template <class T>
void roll_out(context& ctx, const attention_factors<T>& factors, const class_views& classes, const view<T, 3>& sums,
              const attention_part_options& options) {
  const std::int64_t layers = sums.extent[0], heads = factors.q.extent[0] / layers, tokens = factors.q.extent[1];
  operation op(ctx, "model_attention::add");
  const auto dense = op.take_array<T>(heads, tokens, tokens), r = op.take_array<T>(std::int64_t{2}, tokens, tokens);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    attention_part(ctx, part_of(factors, layer * heads, heads), dense, options);
    const view<T, 2> now = select(r, 0, layer % 2);
    attention_rollout(
        ctx,
        rollout_operands<T>{dense, layer == 0 ? view<const T, 2>{} : view<const T, 2>(select(r, 0, 1 - layer % 2))},
        now);
    class_sums(ctx, class_sum_operands<T>{now, classes}, slice(sums, 0, layer, 1));
  }
  op.submit();
}

}  // namespace

template <class T>
model_attention<T>::model_attention(context&, const transformer<T>& model, std::int64_t classes,
                                    const model_attention_options& options)
    : model_(model),
      classes_(classes),
      heads_(model.config().layers * model.config().heads),
      options_(options),
      by_rows_(choose_rows(model.config(), options)) {
  if (classes < 1) throw invalid_argument(fmt::format("model_attention: {} classes of tokens", classes));
  heads_sums_ = std::make_unique<detail::attention_sums>(heads_, classes);
  rollout_sums_ = std::make_unique<detail::attention_sums>(options.rollout ? model.config().layers : 0, classes);
}

template <class T>
model_attention<T>::~model_attention() = default;
template <class T>
model_attention<T>::model_attention(model_attention&&) noexcept = default;

template <class T>
void model_attention<T>::check(std::span<const classified_text> texts) const {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto& [tokens, classes] = texts[i];
    if (classes.size() != tokens.ids.size()) {
      throw invalid_argument(fmt::format("model_attention::add: text {} has {} tokens and {} classes", i,
                                         tokens.ids.size(), classes.size()));
    }
    for (const std::int32_t one : classes) {
      if (one >= 0 && one < classes_) continue;
      throw invalid_argument(
          fmt::format("model_attention::add: text {} has class {}; there are 0 to {}", i, one, classes_ - 1));
    }
  }
}

template <class T>
std::vector<text_attention<T>> model_attention<T>::add(context& ctx, std::span<const classified_text> texts,
                                                       const std::function<void(std::int64_t)>& progress) {
  check(texts);
  // Longest first: texts of a batch have similar lengths, and memory for the first one serves all.
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t i) { return std::ssize(texts[i].tokens.ids); };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return length(a) > length(b); });
  std::vector<text_attention<T>> results(texts.size());
  for (std::size_t first = 0; first < order.size();) {
    const std::int64_t most = options_.batch_tokens / std::max<std::int64_t>(1, length(order[first]));
    const std::size_t count = std::min(order.size() - first, static_cast<std::size_t>(std::max<std::int64_t>(1, most)));
    read_batch(ctx, texts, std::span(order).subspan(first, count), results);
    if (progress) progress(static_cast<std::int64_t>(count));
    first += count;
  }
  return results;
}

template <class T>
void model_attention<T>::read_batch(context& ctx, std::span<const classified_text> texts,
                                    std::span<const std::size_t> chosen, std::vector<text_attention<T>>& results) {
  transformer_config config = model_.config();
  config.pairs = false;  // a model for pairs reads its texts one by one
  std::vector<token_batch::sequence> sequences;
  for (const std::size_t i : chosen) sequences.push_back(texts[i].tokens);
  const token_batch batch(ctx, config, sequences);
  if (!gathered_ || gathered_->tokens() < batch.tokens()) {
    gathered_ = std::make_unique<detail::gathered_heads<T>>(ctx, model_, batch.tokens());
  }
  forward_record<T> record(ctx, model_.config(), batch.size(), batch.tokens(), keep::heads);
  std::vector<text_results> found;
  operation op(ctx, "model_attention::add");
  forward(ctx, model_, batch, forward_results<T>{}, {.record = &record});
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const std::vector<std::int32_t>& classes = texts[chosen[static_cast<std::size_t>(i)]].classes;
    analyse(ctx, record, i, found.emplace_back(ctx, classes, heads_, rollout_sums_->matrices(), classes_));
  }
  op.submit_and_wait();

  std::vector<std::vector<std::int64_t>> ranks;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ranks.push_back(found[i].rank.to_host());
    const std::vector<std::int64_t> failed = failed_ids(found[i].status.to_host(), ranks.back());
    if (failed.empty()) continue;
    throw computation_error(fmt::format("model_attention::add: text {} is not finite, or has no known rank, in {} "
                                        "heads: {}",
                                        chosen[i], failed.size(), fmt::join(failed, ", ")),
                            failed);
  }
  const auto numbers = [](const tensor<T>& x) {
    const std::vector<T> host = x.to_host();
    return std::vector<double>(host.begin(), host.end());
  };
  for (std::size_t i = 0; i < found.size(); ++i) {
    const classified_text& text = texts[chosen[i]];
    text_attention<T>& to = results[chosen[i]];
    to.tokens = std::ssize(text.classes);
    const auto summary = found[i].summary.to_host();
    const std::vector<T> entropy = found[i].entropy.to_host();
    for (std::size_t head = 0; head < summary.size(); ++head) {
      const auto& [pearson, raw, effective, null] = summary[head];
      to.heads.push_back({ranks[i][head], pearson, raw, effective, null, entropy[head] / static_cast<T>(to.tokens)});
    }
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(classes_), 0);
    for (const std::int32_t one : text.classes) ++tokens[static_cast<std::size_t>(one)];
    heads_sums_->add(numbers(found[i].sums), tokens);
    if (options_.rollout) rollout_sums_->add(numbers(found[i].rollout), tokens);
  }
}

template <class T>
void model_attention<T>::analyse(context& ctx, forward_record<T>& record, std::int64_t sequence, text_results& to) {
  const transformer_config& config = model_.config();
  const std::int64_t tokens = to.classes.size();
  operation op(ctx, "model_attention::add");  // gives its workspace back
  const attention_heads<T> heads = gathered_->gather(ctx, record, sequence, tokens);
  const text_factors<T> factors(op, heads);
  const effective_attention_results<T> results{.p = factors.p,
                                               .u = factors.u,
                                               .s = op.take_array<T>(heads_, heads.basis_columns()),
                                               .rank = to.rank,
                                               .status = to.status,
                                               .log_sum_exp = factors.log_sum_exp,
                                               .summary = to.summary};
  // The default tolerance of T (S, d): the projections here have fewer columns.
  constexpr auto epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  const double relative = default_range_tolerance(tokens, config.width, epsilon);
  if (by_rows_) {
    effective_attention_by_rows(ctx, heads, results, {.tolerance = {.relative = relative}, .row_tolerance = relative});
  } else {
    effective_attention(ctx, heads, results, {.causal = config.causal, .tolerance = {.relative = relative}});
  }
  const class_views classes{to.classes, to.classes};
  const view<T, 4> sums = to.sums, rollout = to.rollout;
  const auto entropy = op.take_array<T>(heads_, tokens);
  attention_classes(ctx, attention_class_operands<T>{factors.of(heads), classes},
                    attention_class_results<T>{select(sums, 0, 0), select(sums, 0, 1), entropy},
                    {.causal = config.causal, .by_rows = by_rows_});
  row_reduce(ctx, view<const T, 3>(entropy), to.entropy, row_reduction::sum);
  for (const bool is_raw : {true, false}) {
    if (!options_.rollout) break;
    roll_out(ctx, factors.of(heads), classes, select(rollout, 0, is_raw ? 0 : 1),
             {.matrix = is_raw ? attention_matrix::raw : attention_matrix::effective,
              .causal = config.causal,
              .by_rows = by_rows_});
  }
  op.submit();
}

template <class T>
class_averages model_attention<T>::averages() const {
  return heads_sums_->averages();
}

template <class T>
class_averages model_attention<T>::rollout_averages() const {
  return rollout_sums_->averages();
}

template class model_attention<float>;
template class model_attention<double>;

}  // namespace nullscope
