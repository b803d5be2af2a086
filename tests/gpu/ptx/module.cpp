#include "tests/gpu/ptx/module.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace nullscope::ptx {
namespace {

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}

/// Reads a text from front to back, past spaces and comments.
class reader {
 public:
  explicit reader(std::string_view text) : text_(text) { skip(); }

  bool at_end() const { return at_ == text_.size(); }
  char next() const { return at_end() ? '\0' : text_[at_]; }
  std::size_t place() const { return at_; }
  std::string_view since(std::size_t begin) const { return text_.substr(begin, at_ - begin); }

  bool take(char c) {
    if (next() != c) return false;
    ++at_;
    skip();
    return true;
  }
  void expect(char c) {
    if (!take(c))
      throw failure("PTX: '" + std::string(1, c) + "' is missing at: " + std::string(text_.substr(at_, 60)));
  }
  /// Letters, digits, points and colons as in ".param", "cp.async.cg", "ld.global::L2"; a label's colon is none of it.
  std::string_view word() {
    const std::size_t begin = at_;
    while (!at_end()) {
      const bool is_double_colon = text_.substr(at_, 2) == "::";
      if (!is_name_character(next()) && next() != '.' && !is_double_colon) break;
      at_ += is_double_colon ? 2 : 1;
    }
    const std::string_view result = text_.substr(begin, at_ - begin);
    skip();
    return result;
  }
  /// Up to one of these characters, which is not taken.
  std::string_view up_to(std::string_view ends) {
    const std::size_t begin = at_;
    while (!at_end() && ends.find(next()) == std::string_view::npos) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  void skip_block() {  // from after { to after its }
    for (int depth = 1; depth > 0 && !at_end(); ++at_) depth += next() == '{' ? 1 : next() == '}' ? -1 : 0;
    skip();
  }

 private:
  void skip() {
    while (!at_end()) {
      if (std::isspace(static_cast<unsigned char>(next())) != 0) {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        while (!at_end() && next() != '\n') ++at_;
      } else {
        break;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

[[noreturn]] void refuse(std::string_view what, std::string_view text) {
  throw failure("PTX: " + std::string(what) + ": " + std::string(text));
}

std::uint64_t integer(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  while (text.ends_with('U')) text.remove_suffix(1);
  const bool is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  std::uint64_t value = 0;
  const char* const begin = text.data() + (is_hexadecimal ? 2 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value, is_hexadecimal ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size()) refuse("no number", text);
  return is_negative ? 0 - value : value;
}

bool is_number(std::string_view text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-');
}

void set_number(operand& x, std::string_view text) {
  x.is = operand::form::number;
  const std::string_view prefix = text.substr(0, 2);
  x.float_bits = prefix == "0f" || prefix == "0F" ? 32 : prefix == "0d" || prefix == "0D" ? 64 : 0;
  if (x.float_bits == 0) {
    x.bits = integer(text);
  } else {
    std::from_chars(text.data() + 2, text.data() + text.size(), x.bits, 16);
  }
}

operand parse_operand(reader& in);

operand parse_memory(reader& in) {
  operand result;
  result.is = operand::form::memory;
  result.name = in.word();
  if (is_number(result.name)) {
    result.offset = static_cast<std::int64_t>(integer(result.name));
    result.name = {};
  }
  if (in.take('+')) {
    const bool is_negative = in.take('-');
    const auto offset = static_cast<std::int64_t>(integer(in.word()));
    result.offset += is_negative ? -offset : offset;
  } else if (in.take('-')) {
    result.offset -= static_cast<std::int64_t>(integer(in.word()));
  }
  in.expect(']');
  return result;
}

operand parse_operand(reader& in) {
  operand result;
  if (in.take('[')) return parse_memory(in);
  const char end = in.take('{') ? '}' : in.take('(') ? ')' : '\0';
  if (end != '\0') {
    result.is = operand::form::list;
    while (!in.take(end)) {
      result.parts.push_back(parse_operand(in));
      in.take(',');
    }
    return result;
  }
  const bool is_negative = in.take('-');
  const std::string_view word = in.word();
  if (is_number(word)) {
    set_number(result, word);
    if (is_negative) result.bits = 0 - result.bits;
  } else {
    result.name = word;
  }
  if (!in.take('|')) return result;
  operand both;
  both.is = operand::form::list;
  both.parts = {result, parse_operand(in)};
  return both;
}

std::vector<std::string_view> split(std::string_view word) {
  std::vector<std::string_view> parts;
  while (!word.empty()) {
    const std::size_t end = std::min(word.find('.'), word.size());
    if (end > 0) parts.push_back(word.substr(0, end));
    word.remove_prefix(std::min(end + 1, word.size()));
  }
  return parts;
}

/// After the space: ".align 4 .b8 name[16]", ".b64 .ptr .align 1 name", ".b32 %r<5>".
declaration parse_declaration(reader& in, std::string_view space) {
  declaration result;
  result.space = space;
  for (std::string_view word = in.word();; word = in.word()) {
    if (word == ".align") {
      result.alignment = static_cast<std::size_t>(integer(in.word()));
    } else if (word.starts_with('.')) {
      parse_type(word.substr(1), result.element);  // .ptr and its space say nothing about the layout
    } else {
      result.name = word;
      break;
    }
  }
  if (in.take('<')) {
    result.is_numbered = true;
    result.count = static_cast<std::int64_t>(integer(in.word()));
    in.expect('>');
  }
  while (in.take('[')) {
    const std::string_view size = in.word();
    result.has_size = !size.empty();
    result.count = (result.is_array ? result.count : 1) * (size.empty() ? 0 : static_cast<std::int64_t>(integer(size)));
    result.is_array = true;
    in.expect(']');
  }
  if (in.take('=')) {
    const operand values = parse_operand(in);
    const std::vector<operand> one{values};
    for (const operand& value : values.is == operand::form::list ? values.parts : one) {
      if (value.is != operand::form::number) refuse("a variable that begins with an address", result.name);
      result.values.push_back(value.bits);
    }
  }
  result.alignment = std::max(result.alignment, static_cast<std::size_t>(bytes_of(result.element)));
  return result;
}

std::vector<declaration> parse_parameters(reader& in) {
  std::vector<declaration> result;
  if (!in.take('(')) return result;
  while (!in.take(')')) {
    result.push_back(parse_declaration(in, in.word()));
    in.take(',');
  }
  return result;
}

statement parse_instruction(reader& in, std::string_view word) {
  statement result;
  if (word.starts_with('.')) {
    result.is = statement::form::declaration;
    result.declared = parse_declaration(in, word);
    while (in.take(',')) result.declared.more_names.push_back(in.word());
  } else {
    result.op = split(word);
    while (in.next() != ';' && !in.at_end()) {
      result.operands.push_back(parse_operand(in));
      in.take(',');
    }
  }
  in.expect(';');
  return result;
}

/// A statement; `depth` counts open scopes.
statement parse_statement(reader& in, int& depth) {
  statement result;
  if (in.take('{')) {
    ++depth;
    result.is = statement::form::begin_scope;
    return result;
  }
  if (in.take('}')) {
    --depth;
    result.is = statement::form::end_scope;
    return result;
  }
  std::string_view guard;
  bool is_negated = false;
  if (in.take('@')) {
    is_negated = in.take('!');
    guard = in.word();
  }
  const std::string_view word = in.word();
  if (word.empty()) refuse("no statement", in.up_to("\n"));
  if (in.take(':')) {
    result.is = statement::form::label;
    reader ahead = in;
    if (ahead.word() == ".branchtargets") {
      result.is = statement::form::targets;
      in = ahead;
      while (!in.take(';')) {
        result.operands.push_back(parse_operand(in));
        in.take(',');
      }
    }
    result.name = word;
    return result;
  }
  if (word == ".loc" || word == ".pragma") {  // .loc ends with its line
    in.up_to(word == ".loc" ? "\n" : ";");
    in.take(';');
    result.is = statement::form::label;  // one that nobody names
    in.take('\n');
    return result;
  }
  result = parse_instruction(in, word);
  result.guard = guard;
  result.is_negated = is_negated;
  return result;
}

function parse_function(reader& in, bool is_entry) {
  function result;
  result.is_entry = is_entry;
  if (!is_entry) result.results = parse_parameters(in);
  result.name = in.word();
  result.parameters = parse_parameters(in);
  in.up_to("{;");  // directives of performance
  if (in.take(';')) return result;
  in.expect('{');
  result.has_body = true;
  for (int depth = 1;;) {
    const std::size_t begin = in.place();
    statement one = parse_statement(in, depth);
    if (depth == 0) return result;
    one.text = in.since(begin);
    while (!one.text.empty() && std::isspace(static_cast<unsigned char>(one.text.back())) != 0)
      one.text.remove_suffix(1);
    one.text = one.text.substr(0, one.text.find("//"));
    const std::vector<std::string_view> more = std::exchange(one.declared.more_names, {});
    result.body.push_back(std::move(one));
    for (const std::string_view name : more) {
      result.body.push_back(result.body.back());
      result.body.back().declared.name = name;
    }
  }
}

}  // namespace

bool statement::has(std::string_view part) const { return std::find(op.begin(), op.end(), part) != op.end(); }

module parse_module(std::string_view text) {
  module result;
  reader in(text);
  while (!in.at_end()) {
    const std::string_view word = in.word();
    if (word == ".entry" || word == ".func") {
      function found = parse_function(in, word == ".entry");
      auto [place, is_new] = result.functions.try_emplace(found.name, found);
      if (found.has_body) place->second = std::move(found);
    } else if (word == ".global" || word == ".const" || word == ".shared") {
      result.variables.push_back(parse_declaration(in, word));
      in.expect(';');
    } else if (word == ".section") {
      in.up_to("{");
      in.take('{');
      in.skip_block();
    } else if (word == ".visible" || word == ".extern" || word == ".weak" || word == ".common") {
      continue;  // linking
    } else if (word == ".version" || word == ".target" || word == ".address_size" || word == ".file") {
      in.up_to("\n");
      in.take('\n');
    } else {
      refuse("not understood", in.up_to("\n"));
    }
  }
  return result;
}

}  // namespace nullscope::ptx
