/// The parameters of a transformer as views, of the values or of their gradients.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nullscope/model/transformer.hpp>
#include <span>
#include <string_view>

namespace nullscope::detail {

/// The parameter of that name; null if there is none.
const parameter* find_parameter(std::span<const parameter> parameters, std::string_view name);

/// A parameter in the flat array at `base`; absent if there is no such parameter, or no array.
template <class Element>
view<Element, 2> matrix_at(std::span<const parameter> parameters, Element* base, std::string_view name) {
  const parameter* found = find_parameter(parameters, name);
  if (found == nullptr || base == nullptr) return {};
  const std::int64_t rows = found->shape.size() == 2 ? found->shape[0] : 1;
  return contiguous(base + found->offset, rows, found->shape.back());
}

template <class Element>
view<Element, 1> vector_at(std::span<const parameter> parameters, Element* base, std::string_view name) {
  const parameter* found = find_parameter(parameters, name);
  if (found == nullptr || base == nullptr) return {};
  return contiguous(base + found->offset, found->size);
}

template <class Element>
struct norm_weights {
  view<Element, 1> gamma, beta;
};

/// Of one layer; Element is const for values. Biases are absent if the model has none.
template <class Element>
struct layer_weights {
  view<Element, 2> query_key_value, output, up, down;
  view<Element, 1> query_key_value_bias, output_bias, up_bias, down_bias;
  norm_weights<Element> attention_norm, feed_forward_norm;

  layer_weights(std::span<const parameter> parameters, Element* base, std::int64_t layer) {
    const auto matrix = [&](const char* name) {
      return matrix_at(parameters, base, fmt::format("layer.{}.{}", layer, name));
    };
    const auto vector = [&](const char* name) {
      return vector_at(parameters, base, fmt::format("layer.{}.{}", layer, name));
    };
    query_key_value = matrix("query_key_value.weight");
    query_key_value_bias = vector("query_key_value.bias");
    output = matrix("output.weight");
    output_bias = vector("output.bias");
    up = matrix("up.weight");
    up_bias = vector("up.bias");
    down = matrix("down.weight");
    down_bias = vector("down.bias");
    attention_norm = {vector("attention_norm.gamma"), vector("attention_norm.beta")};
    feed_forward_norm = {vector("feed_forward_norm.gamma"), vector("feed_forward_norm.beta")};
  }
};

/// Weights outside the layers: embeddings, norms and classifier.
template <class Element>
struct outer_weights {
  view<Element, 2> token, position, segment, relative_bias;
  norm_weights<Element> embedding_norm, final_norm;
  view<Element, 2> classifier_hidden, classifier;
  view<Element, 1> classifier_hidden_bias, classifier_bias;

  outer_weights(std::span<const parameter> parameters, Element* base) {
    token = matrix_at(parameters, base, "embedding.token");
    position = matrix_at(parameters, base, "embedding.position");
    segment = matrix_at(parameters, base, "embedding.segment");
    relative_bias = matrix_at(parameters, base, "relative_bias");
    embedding_norm = {vector_at(parameters, base, "embedding.norm.gamma"),
                      vector_at(parameters, base, "embedding.norm.beta")};
    final_norm = {vector_at(parameters, base, "final_norm.gamma"), vector_at(parameters, base, "final_norm.beta")};
    classifier_hidden = matrix_at(parameters, base, "classifier.hidden.weight");
    classifier_hidden_bias = vector_at(parameters, base, "classifier.hidden.bias");
    classifier = matrix_at(parameters, base, "classifier.weight");
    classifier_bias = vector_at(parameters, base, "classifier.bias");
  }
};

}  // namespace nullscope::detail
