#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/training/training.hpp>

#include "lib/src/core/fill.hpp"
#include "lib/src/training/trainer_state.hpp"
#include "lib/src/training/training_loss.hpp"
#include "lib/src/training/training_streams.hpp"

namespace nullscope {
namespace {

constexpr std::int64_t slots = 256;  // steps whose loss stays on the device

void check_options(const training_options& o) {
  const auto require = [](bool holds, const char* member, double value, const char* expected) {
    if (!holds) throw invalid_argument(fmt::format("trainer: {} is {}, expected {}", member, value, expected));
  };
  const auto not_negative = [&](const char* member, double value) {
    require(value >= 0 && std::isfinite(value), member, value, "a number of at least 0");
  };
  not_negative("learning_rate", o.learning_rate);
  not_negative("weight_decay", o.weight_decay);
  not_negative("largest_norm", o.largest_norm);
  require(o.beta1 >= 0 && o.beta1 < 1, "beta1", o.beta1, "a number from 0 to below 1");
  require(o.beta2 >= 0 && o.beta2 < 1, "beta2", o.beta2, "a number from 0 to below 1");
  require(o.epsilon > 0, "epsilon", o.epsilon, "a number above 0");
  require(o.warm_up_steps >= 0, "warm_up_steps", static_cast<double>(o.warm_up_steps), "at least 0");
  const bool decays = o.schedule == learning_schedule::linear;
  require(!decays || o.total_steps > 0, "total_steps", static_cast<double>(o.total_steps),
          "at least 1 for a linear schedule");
}

}  // namespace

double learning_rate_at(const training_options& options, std::int64_t step) {
  const auto now = static_cast<double>(step), warm = static_cast<double>(options.warm_up_steps);
  if (step <= options.warm_up_steps) return options.learning_rate * now / warm;
  if (options.schedule == learning_schedule::constant) return options.learning_rate;
  const auto total = static_cast<double>(options.total_steps);
  return options.learning_rate * std::max(0.0, (total - now + 1) / std::max(1.0, total - warm));
}

template <class T>
trainer<T>::state::state(context& c, transformer<T>&& m, const training_options& o, training_ranks<T>&& r)
    : ctx(c),
      upload(detail::upload_context(c)),
      model(std::move(m)),
      options(o),
      ranks(std::move(r)),
      optimizer(c, model.values().size()) {
  detail::check_head("trainer", model.config());
  check_options(options);
  if (ranks.count < 1 || ranks.rank < 0 || ranks.rank >= ranks.count || (ranks.count > 1 && !ranks.sum)) {
    throw invalid_argument(fmt::format("trainer: rank {} of {}{}", ranks.rank, ranks.count,
                                       ranks.sum ? "" : ", without a function that sums"));
  }
  losses = tensor<T>(ctx, {slots});
  correct = tensor<std::int64_t>(ctx, {slots});
}

/// Memory for a batch of this shape; it grows, and is then as large as the largest batch in each extent.
template <class T>
void trainer<T>::state::reserve(const token_batch& tokens) {
  const transformer_config& config = model.config();
  if (!record || tokens.size() > record_batch || tokens.tokens() > record_tokens) {
    in_flight.wait();
    record.reset();
    record_batch = std::max(record_batch, tokens.size());
    record_tokens = std::max(record_tokens, tokens.tokens());
    record.emplace(ctx, config, record_batch, record_tokens,
                   config.classes > 0 ? keep::pooled_backward : keep::backward, options.recompute);
  }
  const std::int64_t needed = detail::logit_count(config, tokens);
  if (logits.size() < needed) {
    in_flight.wait();
    logits = tensor<T>(ctx, {needed});
  }
}

/// gradient += share times that of the batch's mean loss. Loss and correct answers go to the next slot.
template <class T>
void trainer<T>::state::compute(const detail::device_batch& batch, double share) {
  const transformer_config& config = model.config();
  const auto slot = static_cast<std::int64_t>(counted.size());
  constexpr std::uint64_t streams_per_layer = 4;
  const std::uint64_t pass = static_cast<std::uint64_t>(steps * ranks.count + ranks.rank);
  forward_options<T> pass_options;
  pass_options.record = &*record;
  pass_options.training = true;
  pass_options.dropout = {
      options.seed, detail::dropout_stream + pass * streams_per_layer * static_cast<std::uint64_t>(config.layers + 1)};
  const std::int64_t rows = detail::logit_rows(config, batch.tokens);
  const view<T, 2> d_logits = contiguous(logits.data(), rows, detail::logit_count(config, batch.tokens) / rows);
  detail::loss_of<T>(ctx, model, batch, pass_options, logits.data(),
                     {.loss = contiguous(losses.data() + slot, 1),
                      .correct = contiguous(correct.data() + slot, 1),
                      .d_logits = d_logits});
  if (share != 1) scale(ctx, d_logits, d_logits, static_cast<T>(share));
  const forward_results<T> at = detail::logits_at(config, batch.tokens, logits.data());
  backward(ctx, model, batch.tokens, {.d_logits = at.logits, .d_token_logits = at.token_logits},
           {.d_parameters = optimizer.gradient}, pass_options);
}

template <class T>
void trainer<T>::state::step(std::span<const training_example> examples) {
  if (examples.empty()) throw invalid_argument("trainer: a step without examples");
  check_examples(model.config(), examples);
  if (detail::count_labels(examples) == 0) throw invalid_argument("trainer: a step in which no label counts");
  if (std::ssize(counted) == slots) drain();
  if (ranks.count > 1) {
    step_together(examples);
  } else {
    step_alone(examples);
  }
}

template <class T>
void trainer<T>::state::step_alone(std::span<const training_example> examples) {
  detail::device_batch batch(upload, model.config(), examples);
  reserve(batch.tokens);
  ++steps;
  operation op(ctx, "training step", {last});
  detail::fill_zero(op, optimizer.gradient);
  compute(batch, 1);
  optimizer.update(ctx, model.values(), 0, options, steps);
  last = op.submit();
  counted.push_back(batch.counted);
  in_flight.add(last, std::move(batch));
}

template <class T>
void trainer<T>::state::step_together(std::span<const training_example> examples) {
  const auto total = static_cast<std::int64_t>(examples.size());
  const std::int64_t begin = ranks.rank * total / ranks.count, end = (ranks.rank + 1) * total / ranks.count;
  const auto own = examples.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  const std::int64_t all_labels = detail::count_labels(examples), own_labels = detail::count_labels(own);
  ++steps;
  const std::size_t size = static_cast<std::size_t>(optimizer.gradient.size());
  std::vector<T> sums(size + 2, T(0));  // the gradient, loss, correct answers
  if (own_labels > 0) {
    const double share = static_cast<double>(own_labels) / static_cast<double>(all_labels);
    const detail::device_batch batch(upload, model.config(), own);
    reserve(batch.tokens);
    operation op(ctx, "training step", {last});
    detail::fill_zero(op, optimizer.gradient);
    compute(batch, share);
    op.submit_and_wait();
    const std::vector<T> part = optimizer.gradient.to_host();
    std::ranges::copy(part, sums.begin());
    T loss = 0;
    std::int64_t own_correct = 0;
    detail::copy(ctx.queue(), losses.data(), &loss, sizeof(loss));
    detail::copy(ctx.queue(), correct.data(), &own_correct, sizeof(own_correct));
    sums[size] = static_cast<T>(share) * loss;
    sums[size + 1] = static_cast<T>(own_correct);
  }
  ranks.sum(sums);
  last.wait_and_throw();  // the step before reads the gradient; a rank without labels has not waited for it yet
  optimizer.gradient.copy_from(std::span<const T>(sums).first(size));
  operation op(ctx, "training step");
  optimizer.update(ctx, model.values(), 0, options, steps);
  last = op.submit();
  keep_sums(sums[size], std::llround(static_cast<double>(sums[size + 1])), all_labels, steps);
}

template <class T>
void trainer<T>::state::keep_sums(T mean_loss, std::int64_t correct_rows, std::int64_t count,
                                  std::int64_t step_number) {
  if (!std::isfinite(mean_loss)) {
    throw computation_error(fmt::format("training: the loss of step {} is {}", step_number, mean_loss), {step_number});
  }
  drained.push_back({static_cast<double>(mean_loss) * static_cast<double>(count), correct_rows, count});
}

template <class T>
void trainer<T>::state::drain() {
  in_flight.wait();
  last.wait_and_throw();
  if (counted.empty()) return;
  const std::vector<T> loss = losses.to_host();
  const std::vector<std::int64_t> right = correct.to_host();
  const std::int64_t before = steps - std::ssize(counted);
  for (std::size_t i = 0; i < counted.size(); ++i) {
    keep_sums(loss[i], right[i], counted[i], before + static_cast<std::int64_t>(i) + 1);
  }
  counted.clear();
}

template <class T>
trainer<T>::trainer(context& ctx, transformer<T> model, const training_options& options, training_ranks<T> ranks)
    : state_(std::make_unique<state>(ctx, std::move(model), options, std::move(ranks))) {}

template <class T>
trainer<T>::~trainer() = default;
template <class T>
trainer<T>::trainer(trainer&&) noexcept = default;

template <class T>
const transformer<T>& trainer<T>::model() const {
  return state_->model;
}
template <class T>
const training_options& trainer<T>::options() const {
  return state_->options;
}
template <class T>
const training_ranks<T>& trainer<T>::ranks() const {
  return state_->ranks;
}
template <class T>
std::int64_t trainer<T>::steps() const {
  return state_->steps;
}

template <class T>
void trainer<T>::step(std::span<const training_example> examples) {
  state_->step(examples);
}

template <class T>
void trainer<T>::wait() {
  state_->in_flight.wait();
  state_->last.wait_and_throw();
}

template <class T>
void trainer<T>::add_sums(training_sums& sums) {
  state_->drain();
  for (const training_sums& step : state_->drained) {
    sums.loss += step.loss;
    sums.correct += step.correct;
    sums.count += step.count;
  }
  state_->drained.clear();
}

template <class T>
training_sums trainer<T>::evaluate(std::span<const training_example> examples, std::int64_t batch) {
  wait();
  const training_ranks<T>& ranks = state_->ranks;
  if (ranks.count == 1) return nullscope::evaluate(state_->ctx, state_->model, examples, batch);
  check_examples(state_->model.config(), examples);
  std::vector<training_example> own;
  for (std::size_t i = static_cast<std::size_t>(ranks.rank); i < examples.size();
       i += static_cast<std::size_t>(ranks.count)) {
    own.push_back(examples[i]);
  }
  const training_sums part = nullscope::evaluate(state_->ctx, state_->model, own, batch);
  std::vector<T> sums{static_cast<T>(part.loss), static_cast<T>(part.correct)};
  ranks.sum(sums);
  return {static_cast<double>(sums[0]), std::llround(static_cast<double>(sums[1])), detail::count_labels(examples)};
}

template class trainer<float>;
template class trainer<double>;

}  // namespace nullscope
