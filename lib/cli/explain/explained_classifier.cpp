#include "lib/cli/explain/explained_classifier.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/cli/commands.hpp"

namespace nullscope::cli {

explained_classifier::explained_classifier(context& ctx, const std::filesystem::path& folder)
    : classifier_(ctx, folder), explained_(explained_transformer(ctx, classifier_.model())) {}

explained_text explained_classifier::text_of(const encoded_text& tokens) const {
  explained_text text{tokens.ids, tokens.special_mask, {}};
  if (const std::optional<std::int32_t> id = encoder().empty_id()) text.empty = {*id};
  return text;
}

std::optional<std::int64_t> class_named(const std::string& name, const std::vector<std::string>& labels) {
  if (name.empty()) return std::nullopt;
  const auto found = std::ranges::find(labels, name);
  if (found != labels.end()) return found - labels.begin();
  for (std::size_t c = 0; c < labels.size(); ++c) {
    if (name == std::to_string(c)) return static_cast<std::int64_t>(c);
  }
  throw usage_error(fmt::format("there is no class \"{}\"; the classes are: {}", name, fmt::join(labels, ", ")));
}

}  // namespace nullscope::cli
