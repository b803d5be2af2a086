/// What the addresses of a sub-group cost on a GPU, by counting: conflicts of banks in local memory, lines of global
/// memory. No GPU is needed; the index functions of the kernels are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

namespace nullscope::bench {

/// Work-items [0, lanes) of a group read or write `bytes` bytes each, at once, from address(work-item) on.
struct sub_group_access {
  static constexpr std::int64_t banks = 32, word = 4,
                                line = 128;  // bytes of a word and a line; the same for all vendors

  std::set<std::int64_t> words, lines;  // each once: lanes that want the same word get it together

  template <class Address>
  sub_group_access(int lanes, std::int64_t bytes, Address address) {
    for (int lane = 0; lane < lanes; ++lane) {
      const std::int64_t first = address(lane);
      for (std::int64_t at = first / word; at <= (first + bytes - 1) / word; ++at) {
        words.insert(at);
        lines.insert(at * word / line);
      }
    }
  }

  /// How many times as long local memory takes as with the words spread over all banks; 1 is best.
  double bank_conflicts() const {
    std::map<std::int64_t, std::int64_t> of_bank;
    std::int64_t most = 0;
    for (const std::int64_t at : words) most = std::max(most, ++of_bank[at % banks]);
    return static_cast<double>(most) / static_cast<double>(least(banks));
  }

  /// How many times as many lines global memory moves as the words would fill; 1 is best.
  double line_overhead() const { return static_cast<double>(lines.size()) / static_cast<double>(least(line / word)); }

 private:
  std::int64_t least(std::int64_t at_once) const {
    return std::max<std::int64_t>(1, (static_cast<std::int64_t>(words.size()) + at_once - 1) / at_once);
  }
};

}  // namespace nullscope::bench
