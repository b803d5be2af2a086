#include "lib/src/text/byte_bpe.hpp"

#include <algorithm>

namespace nullscope::detail {

namespace {

constexpr int byte_count = 256;

constexpr bool is_printable(int byte) { return (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad); }

constexpr std::array<char32_t, byte_count> make_byte_characters() {
  std::array<char32_t, byte_count> characters{};
  char32_t next = 0x100;
  for (int byte = 0; byte < byte_count; ++byte) {
    characters[static_cast<std::size_t>(byte)] = is_printable(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return characters;
}

constexpr std::array<char32_t, byte_count> byte_characters = make_byte_characters();

/// 's 't 're 've 'm 'll 'd at this place: their length with the apostrophe, or 0.
std::size_t contraction_length(std::u32string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const char32_t first = text[1], second = text.size() > 2 ? text[2] : U'\0';
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return 3;
  return 0;
}

/// The length of the word that begins the text, as GPT-2's pattern cuts it:
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t word_length(std::u32string_view text) {
  if (const std::size_t length = contraction_length(text)) return length;
  const auto run_end = [text](std::size_t begin, character_kind kind) {
    std::size_t end = begin;
    while (end < text.size() && kind_of(text[end]) == kind) ++end;
    return end;
  };
  const std::size_t start = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const character_kind kind = kind_of(text[start]);
  if (kind != character_kind::white_space) return run_end(start, kind);
  const std::size_t end = run_end(0, character_kind::white_space);
  return end == text.size() || end == 1 ? end : end - 1;  // the last space belongs to the word behind it
}

std::vector<word_range> gpt2_words(const aligned_text& text) {
  std::vector<word_range> words;
  const std::u32string_view characters = text.characters;
  for (std::size_t begin = 0; begin < characters.size();) {
    const std::size_t end = begin + word_length(characters.substr(begin));
    words.push_back({begin, end});
    begin = end;
  }
  return words;
}

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

constexpr std::int32_t nowhere = -1;

}  // namespace

char32_t character_of_byte(unsigned char byte) { return byte_characters[byte]; }

/// A token of a word while it is merged; the word is a linked list of them.
struct byte_bpe::symbol {
  std::int32_t id;
  std::int32_t previous, next;  // places in the list of symbols, or nowhere
  text_range from;
  bool is_merged_away = false;
};

/// A pair that may be merged; it is out of date if the symbol at its place has changed.
struct byte_bpe::candidate {
  std::int32_t rank, place, merged;

  /// For a heap: the first merge of training, then the leftmost, is the greatest.
  bool operator<(const candidate& other) const { return rank != other.rank ? rank > other.rank : place > other.place; }
};

byte_bpe::byte_bpe(const vocabulary& tokens, const std::vector<bpe_merge>& merges, byte_bpe_options options)
    : options_(options) {
  for (int byte = 0; byte < byte_count; ++byte) {
    std::string character;
    append_utf8(character, character_of_byte(static_cast<unsigned char>(byte)));
    byte_ids_[static_cast<std::size_t>(byte)] = tokens.find(character);
  }
  // Backwards: of a pair that is listed twice, the last one counts, and the table finds what came first.
  for (std::size_t rank = merges.size(); rank-- > 0;) {
    const bpe_merge& merge = merges[rank];
    merges_.insert(pair_key(merge.left, merge.right), {static_cast<std::int32_t>(rank), merge.merged});
  }
}

const byte_bpe::ranked_merge* byte_bpe::find(std::int32_t left, std::int32_t right) const {
  return merges_.find(pair_key(left, right), [](const ranked_merge&) { return true; });
}

void byte_bpe::merge(std::vector<symbol>& symbols, std::vector<candidate>& queue) const {
  const auto at = [&](std::int32_t place) -> symbol& { return symbols[static_cast<std::size_t>(place)]; };
  const auto consider = [&](std::int32_t place) {
    if (place == nowhere || at(place).next == nowhere) return;
    if (const ranked_merge* merge = find(at(place).id, at(at(place).next).id)) {
      queue.push_back({merge->rank, place, merge->merged});
      std::push_heap(queue.begin(), queue.end());
    }
  };
  queue.clear();
  for (std::int32_t place = 0; place < std::ssize(symbols); ++place) consider(place);
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end());
    const candidate best = queue.back();
    queue.pop_back();
    symbol& left = at(best.place);
    if (left.is_merged_away || left.next == nowhere) continue;
    symbol& right = at(left.next);
    const ranked_merge* merge = find(left.id, right.id);
    if (merge == nullptr || merge->merged != best.merged) continue;
    left.id = best.merged;
    left.from.end = right.from.end;
    right.is_merged_away = true;
    left.next = right.next;
    if (left.next != nowhere) at(left.next).previous = best.place;
    consider(left.previous);
    consider(best.place);
  }
}

/// The bytes of some characters as the symbols that a word starts with.
void byte_bpe::spell(const aligned_text& text, word_range word, std::vector<symbol>& symbols) const {
  symbols.clear();
  bool follows_unknown = false;
  std::string bytes;
  for (std::size_t i = word.begin; i < word.end; ++i) {
    bytes.clear();
    append_utf8(bytes, text.characters[i]);
    for (const char byte : bytes) {
      const std::optional<std::int32_t> known = byte_ids_[static_cast<unsigned char>(byte)];
      const std::optional<std::int32_t> id = known ? known : options_.unknown_id;
      if (!id) continue;
      if (!known && follows_unknown && options_.fuse_unknown) {
        symbols.back().from.end = text.origin[i].end;
        continue;
      }
      follows_unknown = !known;
      const std::int32_t place = static_cast<std::int32_t>(symbols.size());
      symbols.push_back({*id, place - 1, place + 1, text.origin[i]});
    }
  }
  if (!symbols.empty()) symbols.back().next = nowhere;
}

void byte_bpe::tokenise(const aligned_text& given, token_list& tokens) const {
  aligned_text prefixed;
  const bool is_prefixed = options_.prefix_space && given.size() > 0 && given.characters[0] != ' ';
  if (is_prefixed) {
    prefixed = given;
    prefixed.characters.insert(prefixed.characters.begin(), ' ');
    prefixed.origin.insert(prefixed.origin.begin(), given.origin[0]);
  }
  const aligned_text& text = is_prefixed ? prefixed : given;
  std::vector<word_range> words;
  if (options_.split_words) {
    words = gpt2_words(text);
  } else if (text.size() > 0) {
    words = {{0, text.size()}};
  }
  std::vector<symbol> symbols;
  std::vector<candidate> queue;
  for (const word_range word : words) {
    spell(text, word, symbols);
    merge(symbols, queue);
    for (const symbol& s : symbols) {
      if (!s.is_merged_away) tokens.append(s.id, s.from);
    }
    ++tokens.next_word;
  }
}

std::string byte_bpe::decode(std::span<const std::string_view> tokens) const {
  std::string bytes;
  for (const std::string_view token : tokens) {
    std::string decoded;
    bool stands_for_bytes = true;
    for (const char32_t character : decode_utf8(token).characters) {
      const auto found = std::ranges::find(byte_characters, character);
      stands_for_bytes = stands_for_bytes && found != byte_characters.end();
      if (stands_for_bytes) decoded.push_back(static_cast<char>(found - byte_characters.begin()));
    }
    bytes += stands_for_bytes ? decoded : token;
  }
  return valid_utf8(bytes);
}

}  // namespace nullscope::detail
