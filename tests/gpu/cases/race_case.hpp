/// What runs under the race checker: functions of the library, at sizes that are odd and larger than a tile.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <nullscope/core/context.hpp>
#include <string>
#include <vector>

namespace nullscope::test {

/// Results by name, which must be the same whatever runs the kernels.
using race_results = std::map<std::string, std::vector<double>>;

struct race_case {
  std::string name;
  std::function<race_results(context&)> run;
  double bound = 0;      ///< of the relative difference between layouts, in the norm of each result
  bool has_fp64 = true;  ///< false: the device is taken for one without
};

std::vector<race_case> contract_cases();  ///< every function of the contract test's table
std::vector<race_case> linalg_cases();    ///< several panels, levels and sweeps
std::vector<race_case> attention_cases();
std::vector<race_case> explain_cases();  ///< and other functions that wait for their results

/// Of numbers that went through `terms` roundings one after the other.
template <class T>
constexpr double bound_of(double terms) {
  return terms * static_cast<double>(std::numeric_limits<T>::epsilon());
}

template <class T>
std::vector<double> as_doubles(const std::vector<T>& numbers) {
  return {numbers.begin(), numbers.end()};
}

}  // namespace nullscope::test
