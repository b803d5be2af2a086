/// A benchmark program whose comparisons are right, wrong, lazy or broken, to test the harness.
#include <algorithm>
#include <stdexcept>

#include "bench/core/harness.hpp"

namespace {

using namespace nullscope::bench;

int alive = 0;

struct numbers {
  explicit numbers(std::int64_t size) : x(static_cast<std::size_t>(size), 1.0f) { ++alive; }
  numbers(const numbers&) = delete;
  ~numbers() { --alive; }
  std::vector<float> x;
};

void twice(numbers& d) {
  for (float& x : d.x) x *= 2;
}

void set_to_two(numbers& d) { std::fill(d.x.begin(), d.x.end(), 2.0f); }

void set_to_one(numbers& d) { std::fill(d.x.begin(), d.x.end(), 1.0f); }

void set_to_nan(numbers& d) { std::fill(d.x.begin(), d.x.end(), NAN); }

void nothing(numbers&) {}

void verify(numbers& d, report& report) {
  report.residual("residual", d.x[0] == 2 ? 0 : 100, 10);
  report.column("alive", alive);
}

void verify_all(numbers& d, report& report) {
  double error = 0;
  for (const float x : d.x) error = worse(error, std::abs(static_cast<double>(x) - 2));
  report.residual("error", error, 0);
}

auto& add(suite& suite, const std::string& operation, std::int64_t size) {
  return suite
      .add({.operation = operation,
            .type = "f32",
            .sizes = {{"n", size}},
            .flops = 1.0 * static_cast<double>(size),
            .bytes = 8.0 * static_cast<double>(size)},
           [size](nullscope::context&) { return numbers(size); })
      .verify(verify);
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv, "comparisons for a test", [](suite& suite) {
    for (const std::int64_t size : {64, 4096}) {
      add(suite, "right", size).path("sycl", twice).path("onemkl", twice).path("loop", twice).restore(set_to_one);
    }
    add(suite, "wrong", 64).path("sycl", nothing).path("loop", twice).restore(set_to_one);
    add(suite, "lazy", 64).path("loop", set_to_two).path("sycl", nothing).clear(set_to_one);
    add(suite, "nan", 64).path("sycl", set_to_nan).path("loop", set_to_two).verify(verify_all);
    suite
        .add({.operation = "broken", .type = "f32", .flops = 1},
             [](nullscope::context&) -> numbers { throw std::runtime_error("no data today"); })
        .path("sycl", nothing);
    add(suite, "throws", 64).path("sycl", [](numbers&) { throw std::runtime_error("no result today"); });
  });
}
