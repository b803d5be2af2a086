#include "lib/src/model/parameters.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <utility>

#include "lib/src/core/fill.hpp"
#include "lib/src/model/weights.hpp"

namespace nullscope {
namespace {

class parameter_list {
 public:
  detail::parameter_place add(std::string name, std::vector<std::int64_t> shape) {
    std::int64_t size = 1, end = 0;
    constexpr std::int64_t alignment = 16;  // elements: every parameter begins at a cache line
    bool fits = true;
    for (const std::int64_t extent : shape) fits = fits && !__builtin_mul_overflow(size, extent, &size);
    offset_ = (offset_ + alignment - 1) / alignment * alignment;
    fits = fits && size <= most_elements && !__builtin_add_overflow(offset_, size, &end) && end <= most_elements;
    if (!fits) {
      throw invalid_argument(
          fmt::format("transformer_config: {} {} is too large; a model has at most 2^60 elements", name, shape));
    }
    const detail::parameter_place place{offset_, shape.size() == 2 ? shape[0] : 1, shape.back()};
    list_.push_back({std::move(name), std::move(shape), offset_, size});
    offset_ = end;
    return place;
  }
  detail::linear_places add_linear(const std::string& name, std::int64_t out, std::int64_t in, bool has_bias) {
    detail::linear_places places;
    places.weight = add(name + ".weight", {out, in});
    if (has_bias) places.bias = add(name + ".bias", {out});
    return places;
  }
  detail::norm_places add_norm(const std::string& name, std::int64_t width) {
    detail::norm_places places;
    places.gamma = add(name + ".gamma", {width});
    places.beta = add(name + ".beta", {width});
    return places;
  }
  std::vector<parameter> take() { return std::move(list_); }

 private:
  static constexpr std::int64_t most_elements = std::int64_t{1} << 60;  // whose bytes can be counted

  std::vector<parameter> list_;
  std::int64_t offset_ = 0;
};

std::int64_t flat_size(const std::vector<parameter>& parameters) {
  return parameters.empty() ? 0 : parameters.back().offset + parameters.back().size;
}

struct described_parameters {
  std::vector<parameter> list;
  detail::parameter_places places;
};

/// Every parameter of a model of this kind, in order.
described_parameters describe(const transformer_config& config) {
  config.validate();
  const std::int64_t d = config.width;
  parameter_list list;
  detail::parameter_places places;
  places.token = list.add("embedding.token", {config.vocabulary, d});
  if (config.has_positions) {
    places.position = list.add("embedding.position", {config.positions + config.first_position, d});
  }
  if (config.segments > 0) places.segment = list.add("embedding.segment", {config.segments, d});
  if (config.embedding_norm) places.embedding_norm = list.add_norm("embedding.norm", d);
  if (config.relative_buckets > 0) {
    places.relative_bias = list.add("relative_bias", {config.relative_buckets, config.heads});
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("layer.{}.", layer);
    const auto linear = [&](const char* name, std::int64_t out, std::int64_t in) {
      return list.add_linear(prefix + name, out, in, config.biases);
    };
    detail::layer_places& of_layer = places.layers.emplace_back();
    of_layer.query_key_value = linear("query_key_value", 2 * config.query_width() + config.value_width(), d);
    of_layer.output = linear("output", d, config.merged_width());
    of_layer.attention_norm = list.add_norm(prefix + "attention_norm", d);
    of_layer.up = linear("up", config.feed_forward, d);
    of_layer.down = linear("down", d, config.feed_forward);
    of_layer.feed_forward_norm = list.add_norm(prefix + "feed_forward_norm", d);
  }
  if (config.order == norm_order::pre) places.final_norm = list.add_norm("final_norm", d);
  if (config.classes > 0) {
    if (config.classifier_hidden != activation::none) {
      places.classifier_hidden = list.add_linear("classifier.hidden", d, d, true);
    }
    places.classifier = list.add_linear("classifier", config.classes, config.pairs ? 2 * d : d, config.classifier_bias);
  }
  return {list.take(), std::move(places)};
}

/// The place of a parameter that must be there.
detail::parameter_place place_of(const std::vector<parameter>& parameters, std::string_view name) {
  const parameter* found = detail::find_parameter(parameters, name);
  if (found == nullptr) throw invalid_argument(fmt::format("transformer: there is no parameter {}", name));
  return {found->offset, found->shape.size() == 2 ? found->shape[0] : 1, found->shape.back()};
}

}  // namespace

std::vector<parameter> parameters_of(const transformer_config& config) { return describe(config).list; }

const parameter* detail::find_parameter(std::span<const parameter> parameters, std::string_view name) {
  const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

template <class T>
transformer<T>::transformer(context& ctx, const transformer_config& config) : config_(config) {
  described_parameters described = describe(config);
  parameters_ = std::move(described.list);
  places_ = std::make_shared<const detail::parameter_places>(std::move(described.places));
  values_ = detail::zeros<T>(ctx, {flat_size(parameters_)});
}

template <class T>
view<const T, 2> transformer<T>::matrix(std::string_view name) const {
  return place_of(parameters_, name).matrix(values_.data());
}

template <class T>
view<const T, 1> transformer<T>::vector(std::string_view name) const {
  const detail::parameter_place place = place_of(parameters_, name);
  return contiguous(values_.data() + place.offset, place.rows * place.columns);
}

template <class T>
void transformer<T>::initialise(context& ctx, std::uint64_t seed, initialisation kind) {
  const bool is_bert = kind == initialisation::bert;
  operation op(ctx, "initialise");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const parameter& p = parameters_[i];
    const view<T, 1> values = contiguous(values_.data() + p.offset, p.size);
    const random_stream stream{seed, i};
    const bool is_table = p.name.starts_with("embedding.") && p.shape.size() == 2;
    if (p.name.ends_with(".gamma")) {
      detail::fill_value(op, values, T(1));
    } else if (p.shape.size() == 1) {
      detail::fill_zero(op, values);
    } else if (is_bert || is_table) {
      fill_normal(ctx, values, stream, {.mean = 0, .deviation = is_bert ? 0.02 : 1.0});
    } else {
      const double bound = 1 / std::sqrt(static_cast<double>(p.shape[1]));  // (outputs, inputs)
      fill_uniform(ctx, values, stream, {.low = -bound, .high = bound});
    }
  }
  op.submit_and_wait();
}

template class transformer<float>;
template class transformer<double>;

}  // namespace nullscope
