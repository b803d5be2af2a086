#include "lib/src/model/files/own_config.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/src/io/safetensors_format.hpp"

namespace nullscope::detail {
namespace {

template <class Enum>
struct named_value {
  const char* name;
  Enum value;
};
constexpr named_value<norm_order> norm_orders[] = {{"post", norm_order::post}, {"pre", norm_order::pre}};
constexpr named_value<head_merge> head_merges[] = {{"concatenated", head_merge::concatenated},
                                                   {"added", head_merge::added}};
constexpr named_value<pooling> poolings[] = {
    {"first", pooling::first}, {"last", pooling::last}, {"mean", pooling::mean}};
constexpr named_value<activation> activations[] = {{"none", activation::none},
                                                   {"relu", activation::relu},
                                                   {"gelu", activation::gelu},
                                                   {"gelu_tanh", activation::gelu_tanh},
                                                   {"tanh", activation::tanh}};

template <class Enum, std::size_t Count>
const char* name_of(const named_value<Enum> (&values)[Count], Enum value) {
  for (const auto& [name, candidate] : values) {
    if (candidate == value) return name;
  }
  return "";
}

/// Visits every member with its name: visit(name, member) or visit(name, member, names of an enumeration).
template <class Config, class Visit>
void visit_members(Config& c, Visit visit) {
  visit("layers", c.layers);
  visit("width", c.width);
  visit("heads", c.heads);
  visit("key_size", c.key_size);
  visit("value_size", c.value_size);
  visit("feed_forward", c.feed_forward);
  visit("vocabulary", c.vocabulary);
  visit("positions", c.positions);
  visit("first_position", c.first_position);
  visit("has_positions", c.has_positions);
  visit("segments", c.segments);
  visit("order", c.order, norm_orders);
  visit("merge", c.merge, head_merges);
  visit("function", c.function, activations);
  visit("biases", c.biases);
  visit("embedding_norm", c.embedding_norm);
  visit("causal", c.causal);
  visit("relative_buckets", c.relative_buckets);
  visit("relative_distance", c.relative_distance);
  visit("norm_epsilon", c.norm_epsilon);
  visit("dropout", c.dropout);
  visit("classes", c.classes);
  visit("pool", c.pool, poolings);
  visit("classifier_hidden", c.classifier_hidden, activations);
  visit("classifier_bias", c.classifier_bias);
  visit("pairs", c.pairs);
  visit("language_model", c.language_model);
}

struct read_member {
  const config_reader& reader;

  template <class Value>
  void operator()(const char* name, Value& member) const {
    member = reader.get<Value>(name);
  }
  template <class Enum, std::size_t Count>
  void operator()(const char* name, Enum& member, const named_value<Enum> (&values)[Count]) const {
    const std::string text = reader.get<std::string>(name);
    for (const auto& [candidate, value] : values) {
      if (text == candidate) {
        member = value;
        return;
      }
    }
    reader.fail(fmt::format("{} cannot be {}", name, in_quotes(text)));
  }
};

struct write_member {
  nlohmann::json& document;

  template <class Value>
  void operator()(const char* name, const Value& member) const {
    document[name] = member;
  }
  template <class Enum, std::size_t Count>
  void operator()(const char* name, const Enum& member, const named_value<Enum> (&values)[Count]) const {
    document[name] = name_of(values, member);
  }
};

}  // namespace

void read_own_config(const config_reader& reader, model_description& to) {
  visit_members(to.config, read_member{reader});
  to.labels = reader.get<std::vector<std::string>>("labels", {});
}

void write_own_config(const model_description& description, nlohmann::json& document) {
  document["model_type"] = "nullscope";
  visit_members(description.config, write_member{document});
  document["labels"] = description.labels;
}

}  // namespace nullscope::detail
