/// The parameters of a transformer: where each is in the flat array, found once per model, and views of them there, of
/// values or of gradients.
#pragma once

#include <cstdint>
#include <nullscope/model/transformer.hpp>
#include <vector>

namespace nullscope::detail {

/// A part of the flat array; no columns: the model has no such parameter. A vector is one row.
struct parameter_place {
  std::int64_t offset = 0, rows = 0, columns = 0;

  /// In the array at `base`; absent if there is no such parameter, or no array.
  template <class Element>
  view<Element, 2> matrix(Element* base) const {
    if (columns == 0 || base == nullptr) return {};
    return contiguous(base + offset, rows, columns);
  }
  template <class Element>
  view<Element, 1> vector(Element* base) const {
    if (columns == 0 || base == nullptr) return {};
    return contiguous(base + offset, columns);
  }
};

struct norm_places {
  parameter_place gamma = {}, beta = {};
};
struct linear_places {
  parameter_place weight = {}, bias = {};
};
struct layer_places {
  linear_places query_key_value, output, up, down;
  norm_places attention_norm, feed_forward_norm;
};
struct parameter_places {
  parameter_place token, position, segment, relative_bias;
  norm_places embedding_norm, final_norm;
  linear_places classifier_hidden, classifier;
  std::vector<layer_places> layers;
};

template <class T>
const parameter_places& places_of(const transformer<T>& model) {
  return *model.places_;
}

template <class Element>
struct norm_weights {
  view<Element, 1> gamma, beta;

  norm_weights(const norm_places& of, Element* base) : gamma(of.gamma.vector(base)), beta(of.beta.vector(base)) {}
};

/// Of one layer; Element is const for values. Biases are absent if the model has none.
template <class Element>
struct layer_weights {
  view<Element, 2> query_key_value, output, up, down;
  view<Element, 1> query_key_value_bias, output_bias, up_bias, down_bias;
  norm_weights<Element> attention_norm, feed_forward_norm;

  layer_weights(const layer_places& of, Element* base)
      : query_key_value(of.query_key_value.weight.matrix(base)),
        output(of.output.weight.matrix(base)),
        up(of.up.weight.matrix(base)),
        down(of.down.weight.matrix(base)),
        query_key_value_bias(of.query_key_value.bias.vector(base)),
        output_bias(of.output.bias.vector(base)),
        up_bias(of.up.bias.vector(base)),
        down_bias(of.down.bias.vector(base)),
        attention_norm(of.attention_norm, base),
        feed_forward_norm(of.feed_forward_norm, base) {}
};

/// What stands before and after the layers.
template <class Element>
struct outer_weights {
  view<Element, 2> token, position, segment, relative_bias;
  norm_weights<Element> embedding_norm, final_norm;
  view<Element, 2> classifier_hidden, classifier;
  view<Element, 1> classifier_hidden_bias, classifier_bias;

  outer_weights(const parameter_places& of, Element* base)
      : token(of.token.matrix(base)),
        position(of.position.matrix(base)),
        segment(of.segment.matrix(base)),
        relative_bias(of.relative_bias.matrix(base)),
        embedding_norm(of.embedding_norm, base),
        final_norm(of.final_norm, base),
        classifier_hidden(of.classifier_hidden.weight.matrix(base)),
        classifier(of.classifier.weight.matrix(base)),
        classifier_hidden_bias(of.classifier_hidden.bias.vector(base)),
        classifier_bias(of.classifier.bias.vector(base)) {}
};

}  // namespace nullscope::detail
