/// config.json: from the descriptions of other people's models to ours, and back.
#include <fmt/format.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/model_folder.hpp>
#include <type_traits>

#include "lib/src/io/json_reader.hpp"
#include "lib/src/io/safetensors_format.hpp"
#include "lib/src/model/files/folder_config.hpp"
#include "lib/src/model/files/tensor_files.hpp"

namespace nullscope {
namespace {

using nlohmann::json;

/// A config.json.
class config_reader {
 public:
  explicit config_reader(const detail::json_reader& document) : document_(document) {}

  [[noreturn]] void fail(std::string_view why) const { document_.fail(why); }

  bool has(const char* name) const { return document_.has(name); }

  template <class Value>
  Value get(const char* name) const {
    return value<Value>(document_.at(name));
  }
  template <class Value>
  Value get(const char* name, const Value& otherwise) const {
    return has(name) ? value<Value>(document_.at(name)) : otherwise;
  }

  activation function(const char* name) const {
    const std::string text = get<std::string>(name);
    if (text == "gelu") return activation::gelu;
    if (text == "gelu_new" || text == "gelu_pytorch_tanh" || text == "gelu_fast") return activation::gelu_tanh;
    if (text == "relu") return activation::relu;
    if (text == "tanh") return activation::tanh;
    fail(fmt::format("{} {} is not supported (gelu, gelu_new, relu, tanh)", name, detail::in_quotes(text)));
  }

  /// Names of the classes, by number, if the model is for sequence classification.
  std::vector<std::string> labels() const {
    bool classifies = false;
    for (const std::string& name : get<std::vector<std::string>>("architectures", {})) {
      classifies |= name.ends_with("ForSequenceClassification");
    }
    if (!classifies) return {};
    std::vector<std::string> result;
    if (has("id2label")) {
      std::map<std::string, std::string> names;
      for (const auto& [number, name] : document_.at("id2label").members()) names[number] = name.string();
      for (std::size_t i = 0; i < names.size(); ++i) {
        const auto entry = names.find(std::to_string(i));
        if (entry == names.end()) fail(fmt::format("id2label has no {}", i));
        result.push_back(entry->second);
      }
      return result;
    }
    constexpr std::int64_t most = 1 << 16;  // without names
    const std::int64_t count = has("num_labels") ? document_.at("num_labels").integer(1, most) : 2;
    for (std::int64_t i = 0; i < count; ++i) result.push_back(fmt::format("LABEL_{}", i));
    return result;
  }

 private:
  template <class Value>
  static Value value(const detail::json_reader& found) {
    if constexpr (std::is_same_v<Value, std::string>) {
      return found.string();
    } else if constexpr (std::is_same_v<Value, bool>) {
      return found.boolean();
    } else if constexpr (std::is_same_v<Value, double>) {
      return found.number();
    } else if constexpr (std::is_same_v<Value, std::int64_t>) {
      constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();  // so that sums and products fit
      return found.integer(-most, most);
    } else {
      static_assert(std::is_same_v<Value, std::vector<std::string>>);
      std::vector<std::string> texts;
      for (const detail::json_reader& element : found.elements()) texts.push_back(element.string());
      return texts;
    }
  }

  const detail::json_reader& document_;
};

/// Heads of equal size that fill the width, as all of these families have them.
void set_heads(const config_reader& reader, transformer_config& config) {
  if (config.heads < 1 || config.width % config.heads != 0) {
    reader.fail(fmt::format("{} heads do not divide a width of {}", config.heads, config.width));
  }
  config.key_size = config.value_size = config.width / config.heads;
}

transformer_config read_bert(const config_reader& reader, const std::string& family) {
  if (reader.get<std::string>("position_embedding_type", "absolute") != "absolute") {
    reader.fail("position_embedding_type is not \"absolute\"");
  }
  if (reader.get<bool>("is_decoder", false))
    reader.fail("is_decoder is set; decoders of this family are not supported");
  transformer_config config;
  config.layers = reader.get<std::int64_t>("num_hidden_layers");
  config.width = reader.get<std::int64_t>("hidden_size");
  config.heads = reader.get<std::int64_t>("num_attention_heads");
  config.feed_forward = reader.get<std::int64_t>("intermediate_size");
  config.vocabulary = reader.get<std::int64_t>("vocab_size");
  config.positions = reader.get<std::int64_t>("max_position_embeddings");
  config.function = reader.function("hidden_act");
  config.norm_epsilon = reader.get<double>("layer_norm_eps", 1e-12);
  config.embedding_norm = true;
  config.dropout = reader.get<double>("hidden_dropout_prob", 0.1);
  config.classifier_hidden = activation::tanh;
  if (family == "mpnet") {
    config.first_position = reader.get<std::int64_t>("pad_token_id", 1) + 1;
    config.positions -= config.first_position;
    config.relative_buckets = reader.get<std::int64_t>("relative_attention_num_buckets", 32);
    if (config.relative_buckets != 32) {  // `transformers` itself counts 32, whatever the table holds
      reader.fail(fmt::format("relative_attention_num_buckets = {} is not supported (32)", config.relative_buckets));
    }
  } else {
    config.segments = reader.get<std::int64_t>("type_vocab_size", 2);
  }
  set_heads(reader, config);
  return config;
}

transformer_config read_distilbert(const config_reader& reader) {
  transformer_config config;
  config.layers = reader.get<std::int64_t>("n_layers");
  config.width = reader.get<std::int64_t>("dim");
  config.heads = reader.get<std::int64_t>("n_heads");
  config.feed_forward = reader.get<std::int64_t>("hidden_dim");
  config.vocabulary = reader.get<std::int64_t>("vocab_size");
  config.positions = reader.get<std::int64_t>("max_position_embeddings");
  config.function = reader.function("activation");
  config.norm_epsilon = 1e-12;
  config.embedding_norm = true;
  config.dropout = reader.get<double>("dropout", 0.1);
  config.classifier_hidden = activation::relu;
  set_heads(reader, config);
  return config;
}

transformer_config read_gpt2(const config_reader& reader) {
  if (reader.get<bool>("scale_attn_by_inverse_layer_idx", false)) {
    reader.fail("scale_attn_by_inverse_layer_idx is not supported");
  }
  if (!reader.get<bool>("scale_attn_weights", true)) reader.fail("scale_attn_weights = false is not supported");
  transformer_config config;
  config.layers = reader.get<std::int64_t>("n_layer");
  config.width = reader.get<std::int64_t>("n_embd");
  config.heads = reader.get<std::int64_t>("n_head");
  config.feed_forward = reader.get<std::int64_t>("n_inner", 4 * config.width);
  config.vocabulary = reader.get<std::int64_t>("vocab_size");
  config.positions = reader.get<std::int64_t>("n_positions");
  config.function = reader.function("activation_function");
  config.norm_epsilon = reader.get<double>("layer_norm_epsilon", 1e-5);
  config.order = norm_order::pre;
  config.causal = true;
  config.dropout = reader.get<double>("resid_pdrop", 0.1);
  config.pool = pooling::last;
  config.classifier_bias = false;
  config.language_model = reader.get<bool>("tie_word_embeddings", true);  // its logits are products with token vectors
  set_heads(reader, config);
  return config;
}

// Our own format: the members of transformer_config by their names.

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
    reader.fail(fmt::format("{} cannot be {}", name, detail::in_quotes(text)));
  }
};

struct write_member {
  json& document;

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

namespace {

model_description description_of(const detail::json_reader& document) {
  const config_reader reader(document);
  model_description result;
  result.family = reader.get<std::string>("model_type");
  if (result.family == "bert" || result.family == "mpnet") {
    result.config = read_bert(reader, result.family);
  } else if (result.family == "distilbert") {
    result.config = read_distilbert(reader);
  } else if (result.family == "gpt2") {
    result.config = read_gpt2(reader);
  } else if (result.family == "nullscope") {
    visit_members(result.config, read_member{reader});
    result.labels = reader.get<std::vector<std::string>>("labels", {});
  } else {
    reader.fail(fmt::format("model_type {} is not supported (bert, distilbert, mpnet, gpt2, nullscope)",
                            detail::in_quotes(result.family)));
  }
  if (result.family != "nullscope") {
    result.labels = reader.labels();
    result.config.classes = static_cast<std::int64_t>(result.labels.size());
    if (result.config.classes == 0) result.config.classifier_hidden = activation::none;
  }
  return result;
}

}  // namespace

model_description describe_model(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw file_error(fmt::format("{}: there is no such folder", folder.string()));
  }
  if (!std::filesystem::exists(path, ignored)) {
    throw file_error(fmt::format("{}: not a model folder, it has no config.json", folder.string()));
  }
  model_description result = detail::read_json(path, description_of);
  try {
    result.config.validate();
    if (detail::has_tensor_files(folder)) detail::tensor_files(folder).bound(result.config);
  } catch (const invalid_argument& failure) {
    throw file_error(fmt::format("{}: {}", path.string(), failure.what()));
  }
  return result;
}

namespace {

/// Throws invalid_argument if JSON cannot hold one of the labels.
std::string text_of(const json& config) {
  try {
    return config.dump(2) + "\n";
  } catch (const json::exception&) {
    throw invalid_argument("save_transformer: a label is not UTF-8");
  }
}

}  // namespace

std::string detail::own_config(const model_description& description) {
  json document;
  document["model_type"] = "nullscope";
  visit_members(description.config, write_member{document});
  document["labels"] = description.labels;
  return text_of(document);
}

namespace {

const char* their_name(activation function) {
  switch (function) {
    case activation::gelu_tanh: return "gelu_new";
    case activation::relu: return "relu";
    case activation::tanh: return "tanh";
    default: return "gelu";
  }
}

/// What the config would have to be for this family to have it, apart from what it can vary.
bool fits_family(const std::string& family, const transformer_config& c) {
  const bool is_gpt2 = family == "gpt2", is_distil = family == "distilbert";
  if (c.merge != head_merge::concatenated || c.key_size != c.value_size || c.heads * c.key_size != c.width)
    return false;
  if (!c.biases || !c.has_positions || c.pairs) return false;
  if ((c.order == norm_order::pre) != is_gpt2 || c.causal != is_gpt2 || c.embedding_norm == is_gpt2) return false;
  if ((c.relative_buckets > 0) != (family == "mpnet") || (c.segments > 0) != (family == "bert")) return false;
  if (c.language_model && !is_gpt2) return false;
  if (family != "mpnet" && c.first_position != 0) return false;
  if (is_distil && c.norm_epsilon != 1e-12) return false;
  if (c.classes == 0) return true;
  const activation hidden = is_gpt2 ? activation::none : is_distil ? activation::relu : activation::tanh;
  return c.classifier_hidden == hidden && c.pool == (is_gpt2 ? pooling::last : pooling::first) &&
         c.classifier_bias != is_gpt2;
}

}  // namespace

std::string detail::family_config(const model_description& description) {
  const transformer_config& c = description.config;
  if (description.family == "nullscope" || !fits_family(description.family, c)) return {};
  json document;
  document["model_type"] = description.family;
  document["vocab_size"] = c.vocabulary;
  const bool classifies = c.classes > 0;
  const auto architecture = [&](const char* base) {
    const char* head = classifies ? "ForSequenceClassification" : c.language_model ? "LMHeadModel" : "Model";
    document["architectures"] = {fmt::format("{}{}", base, head)};
  };
  if (description.family == "gpt2") {
    architecture("GPT2");
    document["tie_word_embeddings"] = c.language_model;
    document["n_layer"] = c.layers;
    document["n_embd"] = c.width;
    document["n_head"] = c.heads;
    document["n_inner"] = c.feed_forward;
    document["n_positions"] = c.positions;
    document["activation_function"] = their_name(c.function);
    document["layer_norm_epsilon"] = c.norm_epsilon;
    document["resid_pdrop"] = document["embd_pdrop"] = c.dropout;
  } else if (description.family == "distilbert") {
    architecture("DistilBert");
    document["n_layers"] = c.layers;
    document["dim"] = c.width;
    document["n_heads"] = c.heads;
    document["hidden_dim"] = c.feed_forward;
    document["max_position_embeddings"] = c.positions;
    document["activation"] = their_name(c.function);
    document["dropout"] = c.dropout;
  } else {
    const bool is_mpnet = description.family == "mpnet";
    architecture(is_mpnet ? "MPNet" : "Bert");
    document["num_hidden_layers"] = c.layers;
    document["hidden_size"] = c.width;
    document["num_attention_heads"] = c.heads;
    document["intermediate_size"] = c.feed_forward;
    document["max_position_embeddings"] = c.positions + c.first_position;
    document["hidden_act"] = their_name(c.function);
    document["layer_norm_eps"] = c.norm_epsilon;
    document["hidden_dropout_prob"] = c.dropout;
    if (is_mpnet) {
      document["relative_attention_num_buckets"] = c.relative_buckets;
      document["pad_token_id"] = c.first_position - 1;
    } else {
      document["type_vocab_size"] = c.segments;
    }
  }
  if (classifies) {
    for (std::int64_t i = 0; i < c.classes; ++i) {
      const auto index = static_cast<std::size_t>(i);
      const std::string label =
          index < description.labels.size() ? description.labels[index] : fmt::format("LABEL_{}", i);
      document["id2label"][std::to_string(i)] = label;
      document["label2id"][label] = i;
    }
  }
  return text_of(document);
}

}  // namespace nullscope
