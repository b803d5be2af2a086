#include <fmt/format.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/layers.hpp>
#include <nullscope/training/training.hpp>
#include <numeric>

#include "lib/src/training/training_batch.hpp"
#include "lib/src/training/training_loss.hpp"

namespace nullscope {
namespace {

/// The examples, the longest first, in batches: the first batch needs the most memory.
std::vector<std::vector<std::int64_t>> batches_by_length(std::span<const training_example> examples,
                                                         std::int64_t batch) {
  std::vector<std::int64_t> order(examples.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length = [&](std::int64_t i) { return examples[static_cast<std::size_t>(i)].tokens(); };
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) { return length(a) > length(b); });
  std::vector<std::vector<std::int64_t>> batches;
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = begin + std::min<std::ptrdiff_t>(batch, order.end() - begin);
    batches.emplace_back(begin, end);
    begin = end;
  }
  return batches;
}

template <class T>
training_sums sums_over(context& ctx, const transformer<T>& model, std::span<const training_example> examples,
                        std::int64_t batch) {
  if (batch < 1) throw invalid_argument(fmt::format("evaluate: batches of {}, expected at least 1", batch));
  detail::check_head("evaluate", model.config());
  check_examples(model.config(), examples);
  const auto batches = batches_by_length(examples, batch);
  const std::int64_t count = std::ssize(batches);
  context upload = detail::upload_context(ctx);
  tensor<T> losses(ctx, {count}), logits;
  tensor<std::int64_t> correct(ctx, {count});
  std::vector<std::int64_t> counted;
  detail::batches_in_flight in_flight;
  sycl::event last;
  for (std::int64_t i = 0; i < count; ++i) {
    detail::device_batch data(upload, model.config(), pick(examples, batches[static_cast<std::size_t>(i)]));
    const std::int64_t needed = detail::logit_count(model.config(), data.tokens);
    if (logits.size() < needed) {
      in_flight.wait();
      logits = tensor<T>(ctx, {needed});
    }
    operation op(ctx, "evaluate", {last});
    detail::loss_of<T>(ctx, model, data, {}, logits.data(),
                       {.loss = contiguous(losses.data() + i, 1), .correct = contiguous(correct.data() + i, 1)});
    last = op.submit();
    counted.push_back(data.counted);
    in_flight.add(last, std::move(data));
  }
  in_flight.wait();
  const std::vector<T> loss_host = losses.to_host();
  const std::vector<std::int64_t> correct_host = correct.to_host();
  training_sums sums;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    if (counted[i] == 0) continue;
    sums.loss += static_cast<double>(loss_host[i]) * static_cast<double>(counted[i]);
    sums.correct += correct_host[i];
    sums.count += counted[i];
  }
  return sums;
}

}  // namespace

training_sums evaluate(context& ctx, const transformer<float>& model, std::span<const training_example> examples,
                       std::int64_t batch) {
  return sums_over(ctx, model, examples, batch);
}
training_sums evaluate(context& ctx, const transformer<double>& model, std::span<const training_example> examples,
                       std::int64_t batch) {
  return sums_over(ctx, model, examples, batch);
}

}  // namespace nullscope
