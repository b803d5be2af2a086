#include "lib/src/model/files/folder_names.hpp"

#include <fmt/format.h>

#include "lib/src/model/parameters.hpp"

namespace nullscope::detail {
namespace {

/// The names of a family; {} stands for the number of the layer.
struct family_names {
  std::string family, prefix;
  std::string token, position, segment, embedding_norm, relative_bias, layer;
  std::string query, key, value, output, attention_norm, up, down, feed_forward_norm;
  std::string final_norm, classifier_hidden, classifier;
};

const family_names* names_of(const std::string& family) {
  static const family_names families[] = {
      {"bert", "bert.", "embeddings.word_embeddings", "embeddings.position_embeddings",
       "embeddings.token_type_embeddings", "embeddings.LayerNorm", "", "encoder.layer.{}.", "attention.self.query",
       "attention.self.key", "attention.self.value", "attention.output.dense", "attention.output.LayerNorm",
       "intermediate.dense", "output.dense", "output.LayerNorm", "", "pooler.dense", "classifier"},
      {"distilbert", "distilbert.", "embeddings.word_embeddings", "embeddings.position_embeddings", "",
       "embeddings.LayerNorm", "", "transformer.layer.{}.", "attention.q_lin", "attention.k_lin", "attention.v_lin",
       "attention.out_lin", "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm", "", "pre_classifier",
       "classifier"},
      {"mpnet", "mpnet.", "embeddings.word_embeddings", "embeddings.position_embeddings", "", "embeddings.LayerNorm",
       "encoder.relative_attention_bias", "encoder.layer.{}.", "attention.attn.q", "attention.attn.k",
       "attention.attn.v", "attention.attn.o", "attention.LayerNorm", "intermediate.dense", "output.dense",
       "output.LayerNorm", "", "classifier.dense", "classifier.out_proj"},
      {"gpt2", "transformer.", "wte", "wpe", "", "", "", "h.{}.", "attn.c_attn", "", "", "attn.c_proj", "ln_1",
       "mlp.c_fc", "mlp.c_proj", "ln_2", "ln_f", "", "score"},
  };
  for (const family_names& names : families) {
    if (names.family == family) return &names;
  }
  return nullptr;
}

class place_list {
 public:
  place_list(const family_names& names, const transformer_config& config)
      : names_(names), config_(config), parameters_(parameters_of(config)) {}

  std::vector<tensor_place> all() {
    add("embedding.token", names_.token + ".weight");
    add("embedding.position", names_.position + ".weight");
    add("embedding.segment", names_.segment + ".weight");
    add_norm("embedding.norm", names_.embedding_norm);
    add("relative_bias", names_.relative_bias + ".weight");
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) add_layer(layer);
    add_norm("final_norm", names_.final_norm);
    // A pooler belongs to the model itself, a classifier stands beside it.
    add_linear("classifier.hidden", names_.classifier_hidden, false);
    add_linear("classifier", names_.classifier, false);
    return std::move(places_);
  }

 private:
  void add(const std::string& parameter, const std::string& tensor, bool transposed = false) {
    if (find_parameter(parameters_, parameter) == nullptr) return;
    const auto& shape = find_parameter(parameters_, parameter)->shape;
    places_.push_back({parameter, tensor, 0, shape[0], transposed});
  }
  void add_norm(const std::string& parameter, const std::string& tensor) {
    add(parameter + ".gamma", tensor + ".weight");
    add(parameter + ".beta", tensor + ".bias");
  }
  void add_linear(const std::string& parameter, const std::string& tensor, bool transposed) {
    add(parameter + ".weight", tensor + ".weight", transposed);
    add(parameter + ".bias", tensor + ".bias");
  }

  void add_layer(std::int64_t layer) {
    const std::string ours = fmt::format("layer.{}.", layer), theirs = fmt::format(fmt::runtime(names_.layer), layer);
    const bool is_gpt2 = names_.family == "gpt2";
    const std::int64_t q = config_.query_width(), v = config_.value_width();
    const auto part = [&](const std::string& tensor, std::int64_t first, std::int64_t rows) {
      for (const char* kind : {"weight", "bias"}) {
        const std::string parameter = fmt::format("{}query_key_value.{}", ours, kind);
        if (find_parameter(parameters_, parameter) == nullptr) continue;
        const bool is_weight = std::string_view(kind) == "weight";
        places_.push_back({parameter, fmt::format("{}{}.{}", theirs, tensor, kind), first, rows, is_gpt2 && is_weight});
      }
    };
    if (is_gpt2) {
      part(names_.query, 0, 2 * q + v);
    } else {
      part(names_.query, 0, q);
      part(names_.key, q, q);
      part(names_.value, 2 * q, v);
    }
    add_linear(ours + "output", theirs + names_.output, is_gpt2);
    add_norm(ours + "attention_norm", theirs + names_.attention_norm);
    add_linear(ours + "up", theirs + names_.up, is_gpt2);
    add_linear(ours + "down", theirs + names_.down, is_gpt2);
    add_norm(ours + "feed_forward_norm", theirs + names_.feed_forward_norm);
  }

  const family_names& names_;
  const transformer_config& config_;
  std::vector<parameter> parameters_;
  std::vector<tensor_place> places_;
};

}  // namespace

std::vector<tensor_place> tensor_places(const std::string& family, const transformer_config& config) {
  if (const family_names* names = names_of(family)) return place_list(*names, config).all();
  std::vector<tensor_place> own;
  for (const parameter& p : parameters_of(config)) own.push_back({p.name, p.name, 0, p.shape[0], false});
  return own;
}

std::string base_prefix(const std::string& family) {
  const family_names* names = names_of(family);
  return names == nullptr ? "" : names->prefix;
}

}  // namespace nullscope::detail
