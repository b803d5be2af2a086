#include "lib/src/attribution/attribution_units.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <numeric>
#include <tuple>

namespace nullscope {
namespace {

constexpr std::size_t digits_of_a_number = 8;  // hexadecimal ones, of the bits of a float

void append_numbers(std::string& text, const std::vector<double>& numbers) {
  constexpr char digits[] = "0123456789abcdef";
  for (const double number : numbers) {
    const float rounded = static_cast<float>(number);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &rounded, sizeof(bits));
    for (int shift = 28; shift >= 0; shift -= 4) text += digits[bits >> shift & 15];
  }
}

std::vector<double> numbers_of(std::string_view text) {
  std::vector<double> numbers;
  numbers.reserve(text.size() / digits_of_a_number);
  for (std::size_t i = 0; i + digits_of_a_number <= text.size(); i += digits_of_a_number) {
    std::uint32_t bits = 0;
    std::from_chars(text.data() + i, text.data() + i + digits_of_a_number, bits, 16);
    float number = 0;
    std::memcpy(&number, &bits, sizeof(number));
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

std::vector<attribution_unit> attribution_units(std::span<const std::int64_t> tokens, std::int64_t tangents_per_token) {
  constexpr std::int64_t enough = std::int64_t{1} << 17;  // tangents times tokens, of all texts together
  std::vector<std::size_t> order(tokens.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return tokens[a] < tokens[b]; });
  std::vector<attribution_unit> units;
  for (const std::size_t i : order) {
    const std::int64_t work = tokens[i] * tokens[i] * tangents_per_token;
    const bool fits = !units.empty() && static_cast<std::int64_t>(units.back().size() + 1) * work <= enough;
    if (!fits) units.emplace_back();
    units.back().push_back(i);
  }
  return units;
}

template <class T>
std::vector<attribution> attribution_computer<T>::compute(const attribution_unit& unit,
                                                          const std::function<void(double)>& progress) {
  attribution_options options = options_;
  options.progress = progress;
  for (const std::size_t i : unit) options.numbers.push_back(static_cast<std::int64_t>(i));
  std::vector<attribution> all = hidden_token_attribution(ctx_, model_, batch_of(unit), options);
  constexpr std::size_t large = 1 << 22;  // numbers: beside those of a long text there is no room for the workspace
  if (all.front().norm.size() > large) ctx_.release_workspace();
  return all;
}

template <class T>
void attribution_computer<T>::check(std::span<const attribution_unit> units) {
  using shape = std::tuple<std::size_t, std::size_t>;  // tokens with padding, texts
  std::map<shape, const attribution_unit*, std::greater<>> shapes;
  for (const attribution_unit& unit : units) {
    shapes.try_emplace({unit.size() * texts_[unit.back()].ids.size(), unit.size()}, &unit);
  }
  for (const auto& [shape, unit] : shapes) check_attribution(ctx_, model_, batch_of(*unit), options_);
}

template <class T>
double attribution_computer<T>::rate() {
  return options_.rounded_products ? rate_of<bfloat16>() : rate_of<T>();
}

template <class T>
token_batch attribution_computer<T>::batch_of(const attribution_unit& unit) {
  std::vector<token_batch::sequence> sequences;
  for (const std::size_t i : unit) sequences.push_back(texts_[i]);
  return token_batch(ctx_, model_.config(), sequences);
}

template <class T>
template <class In>
double attribution_computer<T>::rate_of() {
  constexpr std::int64_t side = 1024;
  const std::int64_t d = model_.config().width;
  tensor<In> a(ctx_, {side, d}), b(ctx_, {d, side});
  for (tensor<In>* x : {&a, &b}) x->copy_from(std::vector<In>(static_cast<std::size_t>(x->size()), In(1.0f)));
  using clock = std::chrono::steady_clock;
  using seconds = std::chrono::duration<double>;
  matrix_product(ctx_, a, b);
  seconds best = seconds::max();
  for (const auto start = clock::now(); clock::now() - start < std::chrono::milliseconds(50);) {
    const auto before = clock::now();
    matrix_product(ctx_, a, b);
    best = std::min<seconds>(best, clock::now() - before);
  }
  return 2.0 * side * side * static_cast<double>(d) / best.count();
}

template class attribution_computer<float>;
template class attribution_computer<double>;

void append_attribution(std::string& text, const attribution& of) {
  const std::size_t numbers = of.norm.size() + of.contribution.size() + of.standard_error.size();
  text.reserve(text.size() + digits_of_a_number * numbers + 1);
  append_numbers(text, of.norm);
  append_numbers(text, of.contribution);
  append_numbers(text, of.standard_error);
  text += '\n';
}

attribution decode_attribution(std::string_view text, std::int64_t tokens, const std::vector<std::int64_t>& layers) {
  attribution of;
  of.tokens = tokens;
  of.layers = layers;
  const std::size_t digits = digits_of_a_number * layers.size() * static_cast<std::size_t>(tokens * tokens);
  if (text.size() != 2 * digits && text.size() != 3 * digits) {
    throw invalid_argument("a result of another process or run does not fit its text");
  }
  of.norm = numbers_of(text.substr(0, digits));
  of.contribution = numbers_of(text.substr(digits, digits));
  of.standard_error = numbers_of(text.substr(2 * digits));
  return of;
}

}  // namespace nullscope
