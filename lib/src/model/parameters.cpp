#include "lib/src/model/parameters.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <utility>

#include "lib/src/core/fill.hpp"

namespace nullscope {
namespace {

class parameter_list {
 public:
  void add(std::string name, std::vector<std::int64_t> shape) {
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
    list_.push_back({std::move(name), std::move(shape), offset_, size});
    offset_ = end;
  }
  void add_linear(const std::string& name, std::int64_t out, std::int64_t in, bool has_bias) {
    add(name + ".weight", {out, in});
    if (has_bias) add(name + ".bias", {out});
  }
  void add_norm(const std::string& name, std::int64_t width) {
    add(name + ".gamma", {width});
    add(name + ".beta", {width});
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

}  // namespace

std::vector<parameter> parameters_of(const transformer_config& config) {
  config.validate();
  const std::int64_t d = config.width;
  parameter_list list;
  list.add("embedding.token", {config.vocabulary, d});
  if (config.has_positions) list.add("embedding.position", {config.positions + config.first_position, d});
  if (config.segments > 0) list.add("embedding.segment", {config.segments, d});
  if (config.embedding_norm) list.add_norm("embedding.norm", d);
  if (config.relative_buckets > 0) list.add("relative_bias", {config.relative_buckets, config.heads});
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("layer.{}.", layer);
    list.add_linear(prefix + "query_key_value", 2 * config.query_width() + config.value_width(), d, config.biases);
    list.add_linear(prefix + "output", d, config.merged_width(), config.biases);
    list.add_norm(prefix + "attention_norm", d);
    list.add_linear(prefix + "up", config.feed_forward, d, config.biases);
    list.add_linear(prefix + "down", d, config.feed_forward, config.biases);
    list.add_norm(prefix + "feed_forward_norm", d);
  }
  if (config.order == norm_order::pre) list.add_norm("final_norm", d);
  if (config.classes > 0) {
    if (config.classifier_hidden != activation::none) list.add_linear("classifier.hidden", d, d, true);
    list.add_linear("classifier", config.classes, config.pairs ? 2 * d : d, config.classifier_bias);
  }
  return list.take();
}

const parameter* detail::find_parameter(std::span<const parameter> parameters, std::string_view name) {
  const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

template <class T>
transformer<T>::transformer(context& ctx, const transformer_config& config)
    : config_(config), parameters_(parameters_of(config)), values_(detail::zeros<T>(ctx, {flat_size(parameters_)})) {}

template <class T>
view<const T, 2> transformer<T>::matrix(std::string_view name) const {
  const view<const T, 2> result = detail::matrix_at(std::span(parameters_), values_.data(), name);
  if (result.is_absent()) throw invalid_argument(fmt::format("transformer: there is no parameter {}", name));
  return result;
}

template <class T>
view<const T, 1> transformer<T>::vector(std::string_view name) const {
  const view<const T, 1> result = detail::vector_at(std::span(parameters_), values_.data(), name);
  if (result.is_absent()) throw invalid_argument(fmt::format("transformer: there is no parameter {}", name));
  return result;
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
