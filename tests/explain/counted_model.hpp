/// Models whose explanations are known, and which count what they are asked.
#pragma once

#include <nullscope/explain/explanations.hpp>

#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "tests/core/support.hpp"
#include "tests/explain/planted.hpp"

namespace nullscope::test {

inline constexpr std::int32_t begin_id = 100, end_id = 101;  // of special tokens

/// A log-odds of each sequence, and how often the model was asked.
struct counted_model {
  std::function<double(const token_sequence&)> score;
  std::multiset<token_sequence> asked = {};

  explained_model model() {
    return {.classes = 1, .logits = [this](std::span<const token_sequence> sequences) {
              std::vector<double> scores;
              for (const token_sequence& s : sequences) {
                asked.insert(s);
                scores.push_back(score(s));
              }
              return scores;
            }};
  }
};

inline explained_text with_ends(const token_sequence& ids) {
  explained_text text;
  text.ids.push_back(begin_id);
  text.ids.insert(text.ids.end(), ids.begin(), ids.end());
  text.ids.push_back(end_id);
  text.special.assign(text.ids.size(), 0);
  text.special.front() = text.special.back() = 1;
  return text;
}

inline bool is_ordinary(std::int32_t id) { return id != begin_id && id != end_id; }

inline double weight_of_id(std::int32_t id) { return std::sin(1.7 * id) + 0.3; }

/// 0.25 plus the weights of all tokens; fails on sequences without the special tokens.
inline double linear_score(const token_sequence& sequence) {
  EXPECT_EQ(sequence.front(), begin_id);
  EXPECT_EQ(sequence.back(), end_id);
  double sum = 0.25;
  for (const std::int32_t id : sequence) sum += is_ordinary(id) ? weight_of_id(id) : 0;
  return sum;
}

class explanation_fixture : public device_test {
 protected:
  void SetUp() override {
    if (!has_fp64()) GTEST_SKIP() << "bounds are those of double";
  }

  explanation explain_one(counted_model& model, const explained_text& text, const explain_options& options) {
    return explain(ctx_, model.model(), {&text, 1}, options)[0];
  }

  /// A planted SLALOM over the ids 0 to tokens - 1.
  static counted_model slalom_of(const slalom_model& planted) {
    return {[planted](const token_sequence& sequence) {
      slalom_queries query(planted.tokens());
      std::vector<std::int32_t> tokens;
      for (const std::int32_t id : sequence) {
        if (is_ordinary(id)) tokens.push_back(id);
      }
      if (tokens.empty()) return 0.0;  // LIME and SHAP ask for it
      query.add(tokens);
      return predict(planted, query)[0];
    }};
  }

  static token_sequence counting(std::int32_t count) {
    token_sequence ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }
};

}  // namespace nullscope::test
