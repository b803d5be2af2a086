/// Averages between classes of tokens over many texts.
#pragma once

#include <cstdint>
#include <nullscope/model/model_states.hpp>
#include <vector>

namespace nullscope::detail {

/// Of `matrices` matrices: class sums of each text divided by its queries of the class, added up over the texts.
class attention_sums {
 public:
  attention_sums(std::int64_t matrices, std::int64_t classes);

  std::int64_t matrices() const { return matrices_; }

  /// Class sums (2, matrices, classes, classes), raw and effective, of a text that has `tokens[c]` tokens of class c.
  void add(const std::vector<double>& sums, const std::vector<std::int64_t>& tokens);

  class_averages averages() const;

 private:
  std::int64_t matrices_, classes_;
  std::vector<double> raw_, effective_;  // (matrices, classes + 1, classes)
  std::vector<std::int64_t> texts_;      // (classes + 1)
};

}  // namespace nullscope::detail
