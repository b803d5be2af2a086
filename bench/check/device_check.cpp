/// Runs each operation once on a device and compares with the host: the correctness part of `./run check`. One line of
/// JSON per operation on stdout, at once, so that a crash or a hang shows which operation it was.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <nullscope/core/device.hpp>

#include "bench/check/operations.hpp"

namespace {

using namespace nullscope;
using namespace nullscope::check_device;

checked_operations all_operations(bool fp64) {
  checked_operations all;
  for (const checked_operations& some : {blas_operations(fp64), lapack_operations(fp64), attention_operations(fp64),
                                         model_operations(), surrogate_operations()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

void print(const nlohmann::ordered_json& line) {
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

/// Returns whether the operation is right.
bool check(context& ctx, const checked_operation& one) {
  nlohmann::ordered_json line{{"operation", one.name}, {"type", one.type}};
  print({{"begins", one.name}, {"type", one.type}});
  const auto start = std::chrono::steady_clock::now();
  bool is_right = false;
  try {
    const outcome found = one.run(ctx);
    is_right = found.residual <= found.bound;
    // JSON has no infinity and no NaN.
    line["residual"] = std::isfinite(found.residual) ? nlohmann::ordered_json(found.residual) : nullptr;
    line["bound"] = found.bound;
    line["error"] = is_right ? "" : "wrong result";
  } catch (const std::exception& failure) {
    line["error"] = failure.what();
  }
  line["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print(line);
  return is_right;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const sycl::device device = select_device(argc > 1 ? argv[1] : "");
    context ctx(device);
    const checked_operations all = all_operations(ctx.device().fp64);
    print({{"device", ctx.device().name}, {"layout", to_string(ctx.layout())}, {"operations", all.size()}});
    bool is_right = true;
    for (const checked_operation& one : all) is_right &= check(ctx, one);
    return is_right ? 0 : 1;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return 1;
  }
}
