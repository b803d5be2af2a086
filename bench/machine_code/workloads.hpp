/// What `./run machine-code --execute` runs: functions of the library, in sizes that fill some work-groups.
#pragma once

#include <functional>
#include <nullscope/core/operation.hpp>
#include <string>
#include <vector>

namespace nullscope::bench {

struct workload {
  std::string name;     ///< of the function and its type
  std::string size;     ///< "128 x 128 x 256"
  double useful_flops;  ///< of the formula; 0: not counted
  std::function<void(context&)> run;
};

/// In an order that groups functions. Operands are random numbers that a run makes itself.
std::vector<workload> workloads();

}  // namespace nullscope::bench
