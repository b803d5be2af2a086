#include "lib/src/text/longest_match.hpp"

#include <algorithm>
#include <array>

namespace nullscope::detail {

namespace {

// FNV-1a: that of a text with one more byte follows from that of the text.
constexpr std::uint64_t hash_of_nothing = 0xcbf29ce484222325u;

std::uint64_t extended(std::uint64_t hash, char byte) {
  return (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
}

}  // namespace

void longest_match::add(std::string_view text, std::int32_t id) {
  std::uint64_t hash = hash_of_nothing;
  for (const char byte : text) hash = extended(hash, byte);
  entries_.insert(hash, {id, static_cast<std::uint32_t>(texts_.size()), static_cast<std::uint32_t>(text.size())});
  texts_ += text;
  longest_ = std::max(longest_, text.size());
}

longest_match::match longest_match::find(std::string_view text) const {
  text = text.substr(0, longest_);
  std::array<std::uint64_t, 64> few_hashes;
  std::vector<std::uint64_t> many_hashes;
  std::uint64_t* hashes = few_hashes.data();
  if (text.size() > few_hashes.size()) {
    many_hashes.resize(text.size());
    hashes = many_hashes.data();
  }
  std::uint64_t hash = hash_of_nothing;
  for (std::size_t i = 0; i < text.size(); ++i) hashes[i] = hash = extended(hash, text[i]);
  for (std::size_t size = text.size(); size > 0; --size) {
    const auto is_same = [&](const entry& e) {
      return std::string_view(texts_).substr(e.begin, e.size) == text.substr(0, size);
    };
    if (const entry* found = entries_.find(hashes[size - 1], is_same)) return {found->id, size};
  }
  return {0, 0};
}

}  // namespace nullscope::detail
