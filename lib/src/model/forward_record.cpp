#include <fmt/format.h>

#include <nullscope/core/errors.hpp>
#include <nullscope/model/transformer.hpp>

#include "lib/src/model/pass_plan.hpp"

namespace nullscope {
namespace {

/// Cuts one array into parts; without an array it only counts.
template <class T>
class record_parts {
 public:
  explicit record_parts(T* memory) : memory_(memory) {}

  T* operator()(std::int64_t count) {
    constexpr std::int64_t line = 64 / sizeof(T);
    T* const part = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (count + line - 1) / line * line;
    return part;
  }
  std::int64_t used() const { return used_; }

 private:
  T* memory_;
  std::int64_t used_ = 0;
};

/// The arrays of a record of this kind; `take(count)` gives memory.
template <class T>
detail::kept_arrays<T> cut(const transformer_config& config, std::int64_t batch, std::int64_t tokens, keep what,
                           bool recompute, record_parts<T>& take) {
  const std::int64_t rows = batch * tokens, d = config.width;
  const bool for_backward = what != keep::heads, is_pre = config.order == norm_order::pre;
  const bool is_narrow = what == keep::pooled_backward && detail::can_be_narrow(config);
  const std::int64_t last_rows = is_narrow ? batch : rows;
  detail::kept_arrays<T> kept;
  const auto matrix = [&](std::int64_t count) { return contiguous(take(count * d), count, d); };
  const auto statistics = [&](std::int64_t count) -> detail::norm_statistics<T> {
    const view<T, 1> mean = contiguous(take(count), count);
    return {mean, contiguous(take(count), count)};
  };
  if (for_backward) {
    if (config.embedding_norm) {
      kept.outer.embedded = matrix(rows);
      kept.outer.embedding_norm = statistics(rows);
    }
    if (is_pre) {
      kept.outer.last_sum = matrix(last_rows);
      kept.outer.final_norm = statistics(last_rows);
    }
    kept.outer.output = matrix(last_rows);
    kept.outer.pooled = is_narrow ? kept.outer.output : matrix(batch);
    if (config.classifier_hidden != activation::none) {
      kept.outer.classifier_pre = matrix(batch);
      kept.outer.classifier_activated = matrix(batch);
    }
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool is_last = layer + 1 == config.layers;
    const detail::layer_shape shape{batch, tokens, is_last && is_narrow ? 1 : tokens};
    detail::layer_arrays<T> arrays;
    if (for_backward) arrays.input = matrix(rows);
    if (!recompute) detail::take_heads(config, shape, arrays.heads(), take);
    if (!recompute && for_backward) detail::take_steps(config, shape, true, arrays.steps(), take);
    kept.layers.push_back(arrays);
  }
  return kept;
}

}  // namespace

template <class T>
forward_record<T>::forward_record(context& ctx, const transformer_config& config, std::int64_t batch,
                                  std::int64_t tokens, keep what, bool recompute)
    : config_(config), batch_(batch), tokens_(tokens), what_(what), recompute_(recompute && what != keep::heads) {
  if (batch < 1 || tokens < 1) {
    throw invalid_argument(fmt::format("forward_record: a batch of {} sequences of {} tokens is empty", batch, tokens));
  }
  record_parts<T> count(nullptr);
  cut(config_, batch, tokens, what_, recompute_, count);
  memory_ = tensor<T>(ctx, {count.used()});
}

template <class T>
detail::kept_arrays<T> forward_record<T>::arrays(std::int64_t batch, std::int64_t tokens) {
  record_parts<T> parts(memory_.data());
  detail::kept_arrays<T> result = cut(config_, batch, tokens, what_, recompute_, parts);
  if (parts.used() > memory_.size()) {
    throw invalid_argument(fmt::format("forward_record: made for {} sequences of {} tokens, too small for {} of {}",
                                       batch_, tokens_, batch, tokens));
  }
  return result;
}

template class forward_record<float>;
template class forward_record<double>;

}  // namespace nullscope
