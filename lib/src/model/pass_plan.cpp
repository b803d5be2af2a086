#include "lib/src/model/pass_plan.hpp"

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <utility>

namespace nullscope::detail {

/// Parts of an array that nobody reads any more, each at a cache line.
template <class T>
class free_memory {
 public:
  free_memory() = default;
  explicit free_memory(const view<T, 2>& array) : next_(array.data), left_(array.size()) {}

  /// Null if there is not so much left.
  T* take(std::int64_t count) {
    constexpr std::int64_t line = 64 / sizeof(T);
    if (count > left_) return nullptr;
    const std::int64_t used = std::min((count + line - 1) / line * line, left_);
    left_ -= used;
    return std::exchange(next_, next_ + used);
  }

 private:
  T* next_ = nullptr;
  std::int64_t left_ = 0;
};

namespace {

template <class T>
view<T, 2> first_present(std::initializer_list<view<T, 2>> choices) {
  for (const view<T, 2>& choice : choices) {
    if (!choice.is_absent()) return choice;
  }
  return {};
}

}  // namespace

template <class T>
pass_plan<T>::pass_plan(const transformer<T>& model, std::int64_t b, std::int64_t s, bool narrow)
    : batch(b), tokens(s), is_narrow(narrow), config(model.config()), weights(places_of(model), model.values().data()) {
  for (const layer_places& places : places_of(model).layers) {
    const std::int64_t number = std::ssize(layers);
    const bool is_last = number + 1 == config.layers;
    layers.push_back({number,
                      {batch, tokens, is_last && is_narrow ? 1 : tokens},
                      layer_weights<const T>(places, model.values().data()),
                      {}});
  }
}

template <class T>
pass_plan<T>::pass_plan(const transformer<T>& model, forward_record<T>& record, std::int64_t b, std::int64_t s)
    : pass_plan(model, b, s, record.what() == keep::pooled_backward && can_be_narrow(model.config())) {
  const kept_arrays<T> kept = record.arrays(b, s);
  arrays = kept.outer;
  for (planned_layer<T>& layer : layers) {
    layer.arrays = kept.layers[static_cast<std::size_t>(layer.number)];
    share_arrays(config, layer.shape, layer.arrays);
  }
}

template <class T>
pass_plan<T> pass_plan<T>::of_filled(const transformer<T>& model, forward_record<T>& record) {
  if (record.filled_batch_ == 0) throw invalid_argument("forward_record: no forward pass has filled it");
  return pass_plan(model, record, record.filled_batch_, record.filled_tokens_);
}

template <class T>
const view<T, 2>& pass_plan<T>::hidden_state(std::int64_t layer) const {
  return layer == config.layers ? arrays.output : layers[static_cast<std::size_t>(layer)].arrays.input;
}

template <class T>
void pass_plan<T>::take_forward(operation& op, const forward_results<T>& results, forward_record<T>* record) {
  if (record != nullptr) {
    record->filled_batch_ = batch;
    record->filled_tokens_ = tokens;
  }
  take_outer(op, results);
  take_layers(op, false);
}

template <class T>
void pass_plan<T>::take_outer(operation& op, const forward_results<T>& results) {
  const auto matrix = [&](std::int64_t count) { return op.take_array<T>(count, config.width); };
  // Hidden states that nobody keeps or asks for share an array: each has been read when the next one is written.
  view<T, 2> shared;
  const auto place_of = [&](const view<T, 2>& kept, std::int64_t layer, std::int64_t count) {
    const view<T, 2> found = first_present<T>({kept, asked_state(results, layer)});
    if (!found.is_absent()) return found;
    if (shared.is_absent()) shared = matrix(layers.empty() ? count : rows());
    return contiguous(shared.data, count, config.width);
  };
  for (planned_layer<T>& layer : layers) {
    layer.arrays.input = place_of(layer.arrays.input, layer.number, rows());
  }
  arrays.output = place_of(arrays.output, config.layers, last_rows());
  const view<T, 2> asked_embedded =
      results.embedded.is_absent() ? view<T, 2>{} : contiguous(results.embedded.data, rows(), config.width);
  arrays.embedded =
      config.embedding_norm ? first_present<T>({arrays.embedded, asked_embedded, hidden_state(0)}) : hidden_state(0);
  if (is_narrow) arrays.pooled = arrays.output;
  const bool has_logits = !results.logits.is_absent();
  if (has_logits || !results.pooled.is_absent()) {
    arrays.pooled = first_present<T>({arrays.pooled, results.pooled});
    if (arrays.pooled.is_absent()) arrays.pooled = matrix(batch);
  }
  if (has_logits && config.classifier_hidden != activation::none && arrays.classifier_activated.is_absent()) {
    arrays.classifier_activated = matrix(batch);
  }
}

/// Layers that are not kept share arrays: each overwrites what another one computed.
template <class T>
void pass_plan<T>::take_layers(operation& op, bool for_backward) {
  layer_arrays<T> whole, narrow;
  view<T, 2> feed_forward;  // pre-LN: read by the next norm, before the next layer writes it
  free_memory<T> free;      // of the whole layers, for the narrow one
  for (planned_layer<T>& layer : layers) {
    const bool is_whole = !layer.shape.is_narrow();
    const auto take = [&](std::int64_t count) {
      T* const part = is_whole ? nullptr : free.take(count);
      return part != nullptr ? part : op.take<T>(count);
    };
    layer_arrays<T>& shared = is_whole ? whole : narrow;
    layer_arrays<T>& own = layer.arrays;
    if (own.q.is_absent()) {
      if (shared.q.is_absent()) take_heads(config, layer.shape, shared.heads(), take);
      own.heads() = shared.heads();
    }
    if (own.middle.is_absent()) {
      if (shared.middle.is_absent()) take_steps(config, layer.shape, for_backward, shared.steps(), take);
      own.steps() = shared.steps();
      if (is_whole) free = free_memory<T>(whole.activated);
    }
    if (config.order == norm_order::pre && !for_backward) {
      if (feed_forward.is_absent()) feed_forward = op.take_array<T>(rows(), config.width);
      own.feed_forward_sum = contiguous(feed_forward.data, layer.shape.query_rows(), config.width);
    }
    share_arrays(config, layer.shape, own);
  }
}

template struct pass_plan<float>;
template struct pass_plan<double>;

}  // namespace nullscope::detail
