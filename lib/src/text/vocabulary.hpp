/// Tokens and their ids.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace nullscope::detail {

struct string_hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

using token_ids = std::unordered_map<std::string, std::int32_t, string_hash, std::equal_to<>>;

class vocabulary {
 public:
  /// A token that occurs again gets the new id; the old one keeps its text. Ids are not negative.
  void add(std::string token, std::int32_t id) {
    const std::size_t place = static_cast<std::size_t>(id);
    if (place >= texts_.size()) texts_.resize(place + 1);
    texts_[place] = token;
    ids_.insert_or_assign(std::move(token), id);
  }

  std::optional<std::int32_t> find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  /// Nothing if no token has the id.
  std::optional<std::string_view> text(std::int32_t id) const {
    if (id < 0 || static_cast<std::size_t>(id) >= texts_.size()) return std::nullopt;
    const std::optional<std::string>& text = texts_[static_cast<std::size_t>(id)];
    return text ? std::optional<std::string_view>(*text) : std::nullopt;
  }

  /// One more than the highest id.
  std::int64_t size() const { return static_cast<std::int64_t>(texts_.size()); }

  const token_ids& ids() const { return ids_; }

 private:
  std::vector<std::optional<std::string>> texts_;
  token_ids ids_;
};

}  // namespace nullscope::detail
