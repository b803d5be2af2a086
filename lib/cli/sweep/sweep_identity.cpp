#include "lib/cli/sweep/sweep_identity.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace nullscope::cli {

std::string describe(const sweep_settings& settings, const swept_model* model) {
  const std::string sizes = fmt::format("d = {}, {} heads, d_k = {}", settings.width,
                                        model != nullptr ? settings.model->heads : settings.heads, settings.key_size);
  return model != nullptr ? fmt::format("{}, {} layers, {}", model->name, settings.model->layers, sizes) : sizes;
}

nlohmann::ordered_json to_json(const sweep_settings& settings, const swept_model* model) {
  const auto number_or_default = [](std::int64_t number, bool is_default) {
    return is_default ? nlohmann::ordered_json("default") : nlohmann::ordered_json(number);
  };
  nlohmann::ordered_json json{{"lengths", settings.lengths},
                              {"samples", number_or_default(settings.samples, settings.samples == 0)},
                              {"width", settings.width},
                              {"heads", settings.heads},
                              {"key_size", settings.key_size},
                              {"heads_are", settings.heads_are},
                              {"seed", settings.seed},
                              {"type", settings.is_double ? "f64" : "f32"},
                              {"pearson_up_to", number_or_default(settings.pearson_up_to, settings.pearson_up_to < 0)},
                              {"query_sample", settings.is_sampled() ? nlohmann::ordered_json(settings.query_sample)
                                                                     : nlohmann::ordered_json("all")},
                              {"logit_rank", settings.logit_rank},
                              {"memory", settings.memory}};
  if (model == nullptr) return json;
  nlohmann::ordered_json samples = nlohmann::ordered_json::array();
  for (const std::int64_t length : settings.lengths) samples.push_back(settings.model->samples.at(length));
  json["heads"] = settings.model->heads;
  json["model"] = model->name;
  json["layers"] = settings.model->layers;
  json["value_size"] = settings.model->value_size;
  json["texts"] = model->file;
  json["texts_per_length"] = samples;
  json["checksum"] = checksum_of(settings, *model);
  return json;
}

}  // namespace nullscope::cli
