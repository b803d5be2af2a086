#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nullscope/core/errors.hpp>
#include <nullscope/text/tokenizer.hpp>
#include <utility>

#include "lib/src/text/tokenizer_parts.hpp"

namespace nullscope {

using detail::aligned_text;
using detail::layout_item;
using detail::token_list;
using detail::word_range;

struct tokenizer::parts : detail::tokenizer_parts {
  explicit parts(detail::tokenizer_parts&& from) : detail::tokenizer_parts(std::move(from)) {}

  token_list tokenise(std::string_view text) const;
};

namespace {

aligned_text slice(const aligned_text& text, word_range range) {
  return {text.characters.substr(range.begin, range.end - range.begin),
          {text.origin.begin() + static_cast<std::ptrdiff_t>(range.begin),
           text.origin.begin() + static_cast<std::ptrdiff_t>(range.end)}};
}

/// Cuts a text at added tokens, and calls with_text(part of the text) and with_token(id, part of the text).
template <class Split, class WithText, class WithToken>
void for_each_part(aligned_text&& text, Split split, WithText with_text, WithToken with_token) {
  const std::vector<detail::added_tokens::part> parts = split(text);
  if (parts.size() == 1 && !parts[0].id) return with_text(std::move(text));
  for (const auto& part : parts) {
    if (part.id) {
      with_token(*part.id, slice(text, part.range));
    } else {
      with_text(slice(text, part.range));
    }
  }
}

constexpr char32_t space_in_byte_tokens = 0x120;  // the character that stands for a space

/// The offsets without the spaces at the ends of the token.
text_range trimmed(std::string_view text, text_range range, std::u32string_view token, bool keeps_first_space) {
  const auto is_space = [](char32_t c) { return c == space_in_byte_tokens || detail::is_white_space(c); };
  std::int64_t leading = std::ranges::find_if_not(token, is_space) - token.begin();
  const auto last = std::find_if_not(token.rbegin(), token.rend(), is_space);
  const std::int64_t trailing = last - token.rbegin();
  if (leading == 1 && keeps_first_space && range.begin == 0) leading = 0;  // more were not added, but given
  return detail::without_ends(text, range, leading, trailing);
}

/// How many tokens are left of a text and of a pair when both have room for no more than `room`.
std::pair<std::int64_t, std::int64_t> longest_first(std::int64_t first, std::int64_t second, std::int64_t room) {
  if (first + second <= room) return {first, second};
  const std::int64_t shorter = std::min(first, second);
  if (2 * shorter > room) {
    // Both are cut; the one token that is over if `room` is odd goes to the longer one.
    const std::int64_t half = room / 2, rest = room - half;
    return first > second ? std::pair(rest, half) : std::pair(half, rest);
  }
  return first > second ? std::pair(room - second, second) : std::pair(first, room - first);
}

void append(encoded_text& encoded, const layout_item& item, const token_list& tokens, std::int64_t count,
            std::int32_t source) {
  const std::size_t n = static_cast<std::size_t>(count);
  const auto copy = [n](const auto& from, auto& to) { to.insert(to.end(), from.begin(), from.begin() + n); };
  copy(tokens.ids, encoded.ids);
  copy(tokens.offsets, encoded.offsets);
  copy(tokens.words, encoded.words);
  encoded.segments.insert(encoded.segments.end(), n, item.segment);
  encoded.sources.insert(encoded.sources.end(), n, source);
  encoded.special_mask.insert(encoded.special_mask.end(), n, 0);
}

void append_special(encoded_text& encoded, const layout_item& item) {
  encoded.ids.push_back(item.id);
  encoded.offsets.push_back({});
  encoded.words.push_back(-1);
  encoded.segments.push_back(item.segment);
  encoded.sources.push_back(-1);
  encoded.special_mask.push_back(1);
}

detail::tokenizer_parts read_parts(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) throw file_error(fmt::format("{}: not a folder", folder.string()));
  const detail::tokenizer_settings settings = detail::read_tokenizer_settings(folder);
  const bool has_json = std::filesystem::exists(folder / "tokenizer.json");
  detail::tokenizer_parts parts =
      has_json ? detail::read_tokenizer_json(folder, settings) : detail::read_vocabulary_files(folder, settings);
  parts.model_max_length = settings.model_max_length;
  return parts;
}

}  // namespace

token_list tokenizer::parts::tokenise(std::string_view text) const {
  constexpr std::size_t longest_text = std::numeric_limits<std::int32_t>::max();
  if (text.size() > longest_text) {
    throw invalid_argument(fmt::format("tokenizer: a text of {} bytes; at most {} fit", text.size(), longest_text));
  }
  token_list tokens;
  const auto with_token = [&](std::int32_t id, const aligned_text& found) {
    text_range range{found.origin.front().begin, found.origin.back().end};
    if (layout.trims_spaces) range = trimmed(text, range, found.characters, layout.keeps_first_space);
    tokens.append(id, range);
    ++tokens.next_word;
  };
  const auto with_normalised = [&](const aligned_text& part) {
    const std::size_t begin = tokens.ids.size();
    model->tokenise(part, tokens);
    for (std::size_t i = begin; layout.trims_spaces && i < tokens.ids.size(); ++i) {
      const std::u32string token = detail::decode_utf8(*this->tokens.text(tokens.ids[i])).characters;
      tokens.offsets[i] = trimmed(text, tokens.offsets[i], token, layout.keeps_first_space);
    }
  };
  const auto with_given = [&](aligned_text&& part) {
    for_each_part(
        model->normalise(std::move(part)), [&](const aligned_text& t) { return added.split_normalised(t); },
        with_normalised, with_token);
  };
  for_each_part(
      detail::decode_utf8(text), [&](const aligned_text& t) { return added.split_given(t); }, with_given, with_token);
  return tokens;
}

tokenizer::tokenizer(const std::filesystem::path& folder) : parts_(std::make_shared<parts>(read_parts(folder))) {}

encoded_text tokenizer::encode(std::string_view text, const encode_options& options) const {
  const bool is_pair = options.pair.has_value();
  const std::int64_t special_count = options.add_special_tokens ? special_token_count(is_pair) : 0;
  const std::int64_t least_length = std::max<std::int64_t>(special_count, 1);
  if (options.max_length && *options.max_length < least_length) {
    throw invalid_argument(fmt::format("tokenizer: max_length {}, expected at least {} ({} special tokens)",
                                       *options.max_length, least_length, special_count));
  }
  const token_list first = parts_->tokenise(text);
  const token_list second = is_pair ? parts_->tokenise(*options.pair) : token_list();
  const std::int64_t first_size = std::ssize(first.ids), second_size = std::ssize(second.ids);
  const std::int64_t room = options.max_length ? *options.max_length - special_count : first_size + second_size;
  const auto [first_count, second_count] = longest_first(first_size, second_size, room);

  encoded_text encoded;
  encoded.truncated = first_count < first_size || second_count < second_size;
  for (const layout_item& item : is_pair ? parts_->layout.pair : parts_->layout.single) {
    switch (item.what) {
      case layout_item::kind::text: append(encoded, item, first, first_count, 0); break;
      case layout_item::kind::second_text: append(encoded, item, second, second_count, 1); break;
      case layout_item::kind::special:
        if (options.add_special_tokens) append_special(encoded, item);
        break;
    }
  }
  return encoded;
}

std::string tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string_view> tokens;
  for (const std::int32_t id : ids) {
    const std::string_view text = token(id);
    if (!skip_special_tokens || !is_special(id)) tokens.push_back(text);
  }
  return parts_->model->decode(tokens);
}

std::string_view tokenizer::token(std::int32_t id) const {
  if (const auto text = parts_->tokens.text(id)) return *text;
  throw invalid_argument(fmt::format("tokenizer: no token has the id {}; ids are 0 to {}", id, vocabulary_size() - 1));
}

std::optional<std::int32_t> tokenizer::id(std::string_view token) const { return parts_->tokens.find(token); }

bool tokenizer::is_special(std::int32_t id) const { return parts_->added.is_special(id); }

const special_token_ids& tokenizer::special_ids() const { return parts_->special; }

std::int64_t tokenizer::special_token_count(bool is_pair) const {
  return std::ranges::count(is_pair ? parts_->layout.pair : parts_->layout.single, layout_item::kind::special,
                            &layout_item::what);
}

std::int64_t tokenizer::vocabulary_size() const { return parts_->tokens.size(); }

std::optional<std::int64_t> tokenizer::model_max_length() const { return parts_->model_max_length; }

}  // namespace nullscope
