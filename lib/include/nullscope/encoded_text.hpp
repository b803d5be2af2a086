/// What a tokenizer or a word vocabulary makes of a text. Host code that needs no SYCL.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace nullscope {

/// A piece of a text, in bytes: begin is the first, end is one past the last.
struct text_range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool operator==(const text_range&) const = default;
};

struct encode_options {
  /// A second text, for models that read two.
  std::optional<std::string_view> pair = std::nullopt;

  /// The most tokens that may come out, special tokens included; the rest of the text is cut off at its end. Of a pair,
  /// the longer text is shortened until both are equally long, then both are. Default: no limit.
  std::optional<std::int64_t> max_length = std::nullopt;

  /// Whether the tokens come that the model expects around the text, such as [CLS] and [SEP].
  bool add_special_tokens = true;
};

/// Tokens in the order in which the model reads them. All vectors are equally long.
struct encoded_text {
  std::vector<std::int32_t> ids;

  /// 0, or 1 for the second text of a pair where the model tells the two apart.
  std::vector<std::int32_t> segments;

  /// The bytes of the given text that a token stands for; 0 to 0 for special tokens that were added. A character that
  /// is split into several tokens belongs to each of them as a whole.
  std::vector<text_range> offsets;

  /// The word within its text that a token belongs to, counted from 0; -1 for special tokens that were added.
  std::vector<std::int32_t> words;

  /// The text that `offsets` and `words` refer to: 0, 1 for the second text of a pair, -1 for special tokens that were
  /// added.
  std::vector<std::int32_t> sources;

  /// 1 for special tokens that were added, otherwise 0. One that stands in the text itself, such as "[MASK]", has 0.
  std::vector<std::uint8_t> special_mask;

  /// Whether max_length cut something off.
  bool truncated = false;
};

}  // namespace nullscope
