#include "lib/src/model/files/config_reader.hpp"

#include <fmt/format.h>

#include <map>

#include "lib/src/io/safetensors_format.hpp"

namespace nullscope::detail {

activation config_reader::function(const char* name) const {
  const std::string text = get<std::string>(name);
  if (text == "gelu") return activation::gelu;
  if (text == "gelu_new" || text == "gelu_pytorch_tanh" || text == "gelu_fast") return activation::gelu_tanh;
  if (text == "relu") return activation::relu;
  if (text == "tanh") return activation::tanh;
  fail(fmt::format("{} {} is not supported (gelu, gelu_new, relu, tanh)", name, in_quotes(text)));
}

std::vector<std::string> config_reader::labels() const {
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

}  // namespace nullscope::detail
