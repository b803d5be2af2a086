/// Batches of examples on the device, while steps that use them run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <nullscope/core/context.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/training/training.hpp>
#include <span>
#include <utility>
#include <vector>

namespace nullscope::detail {

inline std::int64_t count_labels(std::span<const training_example> examples) {
  std::int64_t count = 0;
  for (const training_example& example : examples) {
    count += std::ranges::count_if(example.labels, [](std::int32_t label) { return label >= 0; });
  }
  return count;
}

/// The sequences of the examples, those of pairs side by side.
inline std::vector<token_batch::sequence> sequences_of(const transformer_config& config,
                                                       std::span<const training_example> examples) {
  std::vector<token_batch::sequence> sequences;
  for (const training_example& example : examples) {
    sequences.push_back(example.sequence);
    if (config.pairs) sequences.push_back(example.pair);
  }
  return sequences;
}

struct device_batch {
  token_batch tokens;
  tensor<std::int32_t> labels;  // one per example, or per token with -1 for padding
  std::int64_t counted;         // labels that are not negative

  device_batch(context& upload, const transformer_config& config, std::span<const training_example> examples)
      : tokens(upload, config, sequences_of(config, examples)), counted(count_labels(examples)) {
    const std::size_t row = config.classes > 0 ? 1 : static_cast<std::size_t>(tokens.tokens());
    std::vector<std::int32_t> all(examples.size() * row, -1);
    for (std::size_t i = 0; i < examples.size(); ++i) {
      std::ranges::copy(examples[i].labels, all.begin() + static_cast<std::ptrdiff_t>(i * row));
    }
    labels = tensor<std::int32_t>(upload, {static_cast<std::int64_t>(all.size())}, all);
  }
};

/// Keeps batches until the device has used them, and keeps the host from running far ahead of it.
class batches_in_flight {
 public:
  ~batches_in_flight() {
    for (auto& [event, batch] : batches_) event.wait();
  }

  void add(const sycl::event& event, device_batch&& batch) {
    constexpr std::size_t most = 3;
    batches_.emplace_back(event, std::move(batch));
    while (batches_.size() > most) pop();
  }

  void wait() {
    while (!batches_.empty()) pop();
  }

 private:
  void pop() {
    batches_.front().first.wait_and_throw();
    batches_.pop_front();
  }

  std::deque<std::pair<sycl::event, device_batch>> batches_;
};

/// A context for copies to the device that do not wait for what runs there.
inline context upload_context(const context& ctx) {
  const sycl::queue& queue = ctx.queue();
  return context(sycl::queue(queue.get_context(), queue.get_device(), sycl::property::queue::in_order()));
}

}  // namespace nullscope::detail
