#include "lib/src/explain/query_sampling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nullscope/core/errors.hpp>
#include <string>
#include <unordered_map>

#include "lib/src/linalg/random_draws.hpp"

namespace nullscope {
namespace {

using parameter_list = std::vector<std::int32_t>;

bool is_special(const explained_text& text, std::size_t place) {
  return !text.special.empty() && text.special[place] != 0;
}

/// Special tokens in front of the first other token, the given ids, and the special tokens behind the first other one.
token_sequence with_special_tokens(const explained_text& text, std::span<const std::int32_t> ids) {
  token_sequence result;
  std::size_t place = 0;
  while (place < text.ids.size() && is_special(text, place)) result.push_back(text.ids[place++]);
  result.insert(result.end(), ids.begin(), ids.end());
  for (; place < text.ids.size(); ++place) {
    if (is_special(text, place)) result.push_back(text.ids[place]);
  }
  return result;
}

/// Numbers that may be large; infinity is larger than any number of samples.
double power(double base, std::int64_t exponent) {
  double result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) result *= base;
  return result;
}
double binomial(double n, std::int64_t k) {
  double result = 1;
  for (std::int64_t i = 0; i < k; ++i) result *= (n - static_cast<double>(i)) / static_cast<double>(i + 1);
  return result;
}

/// Queries by what they are made of: for short sequences the parameters in order, for deletions those that are absent.
class query_set {
 public:
  query_set(const explained_text& text, const text_parameters& parameters, std::int64_t classes, query_kind kind)
      : text_(text), parameters_(parameters), kind_(kind) {
    result_.queries = slalom_queries(parameters.count(), classes);
  }

  void add(const parameter_list& key) {
    ++result_.drawn;
    const std::string bytes(reinterpret_cast<const char*>(key.data()), key.size() * sizeof(key[0]));
    const auto [found, is_new] = places_.try_emplace(bytes, result_.sequences.size());
    if (!is_new) {
      ++result_.queries.weight[found->second];
      return;
    }
    if (kind_ == query_kind::short_sequences) {
      token_sequence ids;
      for (const std::int32_t p : key) {
        const auto& places = parameters_.occurrences[static_cast<std::size_t>(p)];
        ids.push_back(text_.ids[static_cast<std::size_t>(places[0])]);
      }
      result_.sequences.push_back(with_special_tokens(text_, ids));
      result_.queries.add(key);
    } else {
      add_deletion(key);
    }
  }

  sampled_queries take() { return std::move(result_); }

 private:
  /// `places` of the tokens, counted without special ones, are deleted.
  void add_deletion(const parameter_list& places) {
    token_sequence ids;
    parameter_list left;
    std::int32_t token = 0;
    for (std::size_t place = 0; place < text_.ids.size(); ++place) {
      if (!is_special(text_, place)) {
        if (std::ranges::binary_search(places, token++)) continue;
        left.push_back(parameters_.of_place[place]);
      }
      ids.push_back(text_.ids[place]);
    }
    result_.sequences.push_back(std::move(ids));
    result_.queries.add(left);
  }

  const explained_text& text_;
  const text_parameters& parameters_;
  query_kind kind_;
  std::unordered_map<std::string, std::size_t> places_;
  sampled_queries result_;
};

/// Calls visit(choice) for all ascending choices of `size` numbers below `count`.
template <class Visit>
void all_subsets(std::int64_t count, std::int64_t size, Visit visit) {
  parameter_list choice(static_cast<std::size_t>(size));
  std::iota(choice.begin(), choice.end(), 0);
  while (true) {
    visit(choice);
    std::int64_t i = size - 1;
    while (i >= 0 && choice[static_cast<std::size_t>(i)] == static_cast<std::int32_t>(count - size + i)) --i;
    if (i < 0) return;
    ++choice[static_cast<std::size_t>(i)];
    for (std::int64_t j = i + 1; j < size; ++j) {
      choice[static_cast<std::size_t>(j)] = choice[static_cast<std::size_t>(j - 1)] + 1;
    }
  }
}

/// Calls visit(choice) for all sequences of `size` numbers below `count`.
template <class Visit>
void all_sequences(std::int64_t count, std::int64_t size, Visit visit) {
  parameter_list choice(static_cast<std::size_t>(size));
  while (true) {
    visit(choice);
    std::int64_t i = size - 1;
    while (i >= 0 && ++choice[static_cast<std::size_t>(i)] == count) choice[static_cast<std::size_t>(i--)] = 0;
    if (i < 0) return;
  }
}

struct length_range {
  std::int64_t least, most;
  bool is_lengthened;
};

/// Which lengths short sequences have.
length_range lengths_of(const text_parameters& parameters, std::int64_t classes, const sampling_options& options) {
  const std::int64_t count = parameters.count(), free_classes = std::max<std::int64_t>(1, classes - 1);
  if (count == 1) return {1, 1, false};  // its value is the score of the token alone
  const double unknowns = static_cast<double>((1 + free_classes) * count - 1);
  const bool by_id = options.identity == token_identity::by_id;
  const std::int64_t length = by_id ? options.length : std::min(options.length, count);
  // Sequences that differ only in their order are one equation.
  const double different =
      by_id ? binomial(static_cast<double>(count + length - 1), length) : binomial(static_cast<double>(count), length);
  if (different * static_cast<double>(free_classes) >= unknowns) return {length, length, false};
  return {1, by_id ? length + 1 : std::min(length + 1, count), true};
}

void draw_short_sequences(query_set& set, const text_parameters& parameters, const sampling_options& options,
                          const length_range& lengths, bool& is_complete) {
  const std::int64_t count = parameters.count();
  const bool by_id = options.identity == token_identity::by_id;
  double all = 0;
  for (std::int64_t n = lengths.least; n <= lengths.most; ++n) {
    all += by_id ? power(static_cast<double>(count), n) : binomial(static_cast<double>(count), n);
  }
  const auto add = [&](const parameter_list& key) { set.add(key); };
  is_complete = all <= static_cast<double>(options.samples);
  if (is_complete) {
    for (std::int64_t n = lengths.least; n <= lengths.most; ++n) {
      if (by_id) {
        all_sequences(count, n, add);
      } else {
        all_subsets(count, n, add);
      }
    }
    return;
  }
  detail::random_draws draws({options.seed, 1});
  parameter_list key;
  for (std::int64_t i = 0; i < options.samples; ++i) {
    const std::int64_t n = lengths.least + draws.below(lengths.most - lengths.least + 1);
    key.clear();
    if (by_id) {
      for (std::int64_t k = 0; k < n; ++k) key.push_back(static_cast<std::int32_t>(draws.below(count)));
    } else {
      key = draws.subset(n, count);
      std::ranges::sort(key);
    }
    set.add(key);
  }
}

void draw_deletions(query_set& set, std::int64_t tokens, const sampling_options& options, bool& is_complete) {
  const std::int64_t most = std::min(options.most_deleted, tokens - 1);  // one token is left
  double all = 0;
  for (std::int64_t n = 0; n <= most; ++n) all += binomial(static_cast<double>(tokens), n);
  is_complete = all <= static_cast<double>(options.samples);
  if (is_complete) {
    for (std::int64_t n = 0; n <= most; ++n) {
      all_subsets(tokens, n, [&](const parameter_list& key) { set.add(key); });
    }
    return;
  }
  detail::random_draws draws({options.seed, 2});
  for (std::int64_t i = 0; i < options.samples; ++i) {
    parameter_list key = draws.subset(draws.below(most + 1), tokens);
    std::ranges::sort(key);
    set.add(key);
  }
}

}  // namespace

text_parameters parameters_of_text(const explained_text& text, token_identity identity) {
  if (!text.special.empty() && text.special.size() != text.ids.size()) {
    throw invalid_argument(fmt::format("text: {} ids, but special has {}", text.ids.size(), text.special.size()));
  }
  text_parameters result;
  std::map<std::int32_t, std::int32_t> known;  // id -> parameter
  for (std::size_t place = 0; place < text.ids.size(); ++place) {
    if (is_special(text, place)) {
      result.of_place.push_back(-1);
      continue;
    }
    const auto next = static_cast<std::int32_t>(result.occurrences.size());
    const std::int32_t parameter =
        identity == token_identity::by_id ? known.try_emplace(text.ids[place], next).first->second : next;
    if (parameter == next) result.occurrences.emplace_back();
    result.of_place.push_back(parameter);
    result.occurrences[static_cast<std::size_t>(parameter)].push_back(static_cast<std::int32_t>(place));
  }
  if (result.occurrences.empty()) throw invalid_argument("text: it has no token besides the special ones");
  return result;
}

sampled_queries sample_queries(const explained_text& text, const text_parameters& parameters, std::int64_t classes,
                               const sampling_options& options) {
  if (options.samples < 1 || options.length < 1 || options.most_deleted < 1) {
    throw invalid_argument(fmt::format("sample_queries: {} samples of {} tokens, with {} deleted; all must be above 0",
                                       options.samples, options.length, options.most_deleted));
  }
  query_set set(text, parameters, classes, options.kind);
  bool is_complete = false, is_lengthened = false;
  if (options.kind == query_kind::deletions) {
    std::int64_t tokens = 0;
    for (const std::int32_t p : parameters.of_place) tokens += p >= 0 ? 1 : 0;
    draw_deletions(set, tokens, options, is_complete);
  } else {
    const length_range lengths = lengths_of(parameters, classes, options);
    is_lengthened = lengths.is_lengthened;
    draw_short_sequences(set, parameters, options, lengths, is_complete);
  }
  sampled_queries result = set.take();
  result.is_complete = is_complete;
  result.is_lengthened = is_lengthened;
  return result;
}

token_sequence text_with(const explained_text& text, const text_parameters& parameters,
                         std::span<const std::uint8_t> present) {
  token_sequence result;
  for (std::size_t place = 0; place < text.ids.size(); ++place) {
    const std::int32_t parameter = parameters.of_place[place];
    if (parameter < 0 || present[static_cast<std::size_t>(parameter)] != 0) result.push_back(text.ids[place]);
  }
  return result.empty() ? text.empty : result;
}

std::vector<double> logits_of(const explained_model& model, std::span<const token_sequence> sequences) {
  std::vector<token_sequence> asked;
  for (const token_sequence& sequence : sequences) {
    if (!sequence.empty()) asked.push_back(sequence);
  }
  const auto classes = static_cast<std::size_t>(model.classes);
  std::vector<double> found;
  if (!asked.empty()) found = model.logits(asked);
  if (found.size() != asked.size() * classes) {
    throw invalid_argument(fmt::format("the explained model gave {} logits for {} sequences of {} classes",
                                       found.size(), asked.size(), classes));
  }
  if (asked.size() == sequences.size()) return found;
  std::vector<double> result(sequences.size() * classes);
  std::size_t next = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].empty()) continue;
    std::copy_n(found.begin() + static_cast<std::ptrdiff_t>(next), classes,
                result.begin() + static_cast<std::ptrdiff_t>(i * classes));
    next += classes;
  }
  return result;
}

}  // namespace nullscope
