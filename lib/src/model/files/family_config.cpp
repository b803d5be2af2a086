#include "lib/src/model/files/family_config.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace nullscope::detail {
namespace {

using nlohmann::json;

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

/// The name of the class of models, by what stands on the layers.
void write_architecture(const transformer_config& c, const char* base, json& document) {
  const char* head = c.classes > 0 ? "ForSequenceClassification" : c.language_model ? "LMHeadModel" : "Model";
  document["architectures"] = {fmt::format("{}{}", base, head)};
}

void write_gpt2(const transformer_config& c, json& document) {
  write_architecture(c, "GPT2", document);
  document["tie_word_embeddings"] = c.language_model;
  document["n_layer"] = c.layers;
  document["n_embd"] = c.width;
  document["n_head"] = c.heads;
  document["n_inner"] = c.feed_forward;
  document["n_positions"] = c.positions;
  document["activation_function"] = their_name(c.function);
  document["layer_norm_epsilon"] = c.norm_epsilon;
  document["resid_pdrop"] = document["embd_pdrop"] = c.dropout;
}

void write_distilbert(const transformer_config& c, json& document) {
  write_architecture(c, "DistilBert", document);
  document["n_layers"] = c.layers;
  document["dim"] = c.width;
  document["n_heads"] = c.heads;
  document["hidden_dim"] = c.feed_forward;
  document["max_position_embeddings"] = c.positions;
  document["activation"] = their_name(c.function);
  document["dropout"] = c.dropout;
}

void write_bert(const transformer_config& c, bool is_mpnet, json& document) {
  write_architecture(c, is_mpnet ? "MPNet" : "Bert", document);
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

void write_labels(const model_description& description, json& document) {
  for (std::int64_t i = 0; i < description.config.classes; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const std::string label =
        index < description.labels.size() ? description.labels[index] : fmt::format("LABEL_{}", i);
    document["id2label"][std::to_string(i)] = label;
    document["label2id"][label] = i;
  }
}

}  // namespace

bool read_family_config(const config_reader& reader, model_description& to) {
  if (to.family == "bert" || to.family == "mpnet") {
    to.config = read_bert(reader, to.family);
  } else if (to.family == "distilbert") {
    to.config = read_distilbert(reader);
  } else if (to.family == "gpt2") {
    to.config = read_gpt2(reader);
  } else {
    return false;
  }
  to.labels = reader.labels();
  to.config.classes = static_cast<std::int64_t>(to.labels.size());
  if (to.config.classes == 0) to.config.classifier_hidden = activation::none;
  return true;
}

bool write_family_config(const model_description& description, json& document) {
  const transformer_config& c = description.config;
  if (description.family == "nullscope" || !fits_family(description.family, c)) return false;
  document["model_type"] = description.family;
  document["vocab_size"] = c.vocabulary;
  if (description.family == "gpt2") {
    write_gpt2(c, document);
  } else if (description.family == "distilbert") {
    write_distilbert(c, document);
  } else {
    write_bert(c, description.family == "mpnet", document);
  }
  write_labels(description, document);
  return true;
}

}  // namespace nullscope::detail
