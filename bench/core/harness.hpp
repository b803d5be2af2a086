/// The harness that every benchmark program shares. A program describes comparisons, the harness does the rest: it
/// verifies each path before it times it, interleaves the paths of a comparison, and prints rates, the share of the
/// roofline and a table of ratios. The whole of a benchmark:
///
///   struct scale_data {
///     context& ctx;
///     tensor<float> x, y;
///     std::vector<double> expected;
///   };
///
///   int main(int argc, char** argv) {
///     return bench::run(argc, argv, "y = 2 x", [](bench::suite& suite) {
///       for (const std::int64_t n : {1 << 16, 1 << 24}) {
///         suite.add({.operation = "scale", .type = "f32", .sizes = {{"n", n}}, .flops = 1.0 * n, .bytes = 8.0 * n},
///                   [n](context& ctx) { return scale_data{ctx, ...}; })
///             .path("sycl", [](scale_data& d) { scale(d.ctx, d.x, d.y, 2).wait(); })
///             .path("loop", [](scale_data& d) { ... })
///             .clear([](scale_data& d) { d.ctx.queue().fill(d.y.data(), NAN, d.y.size()).wait(); })
///             .verify([](scale_data& d, bench::report& report) {
///               report.residual("residual", scaled_residual(d.y.to_host(), d.expected, 1), 10);
///             });
///       }
///     });
///   }
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nullscope/core/context.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/core/residuals.hpp"

namespace nullscope::bench {

/// What one call computes. Flops and bytes are those of the mathematics (each operand moved once), not those of an
/// implementation, so that the rates of all paths of a comparison can be compared.
struct workload {
  std::string operation;                                      ///< "gemm"
  std::string type;                                           ///< "f32", "f64" or "bf16"; chooses the peak
  std::vector<std::pair<std::string, std::int64_t>> sizes{};  ///< {{"n", 1024}} becomes "n:1024"
  double flops = 0;
  double bytes = 0;
  double footprint = 0;  ///< bytes of memory that a call touches; 0: as many as it moves
};

/// The `type` of a workload in float or double.
template <class T>
std::string type_name() {
  return std::is_same_v<T, float> ? "f32" : "f64";
}

/// What the verification of a path found.
class report {
 public:
  explicit report(std::string path) : path_(std::move(path)) {}

  /// The path that has just run, for example "sycl".
  const std::string& path() const { return path_; }

  /// A residual that must not exceed `bound`; NaN does. It becomes a column of the results.
  void residual(const std::string& name, double value, double bound);

  /// Another number to show next to the rates.
  void column(const std::string& name, double value) { columns_[name] = value; }

  const std::map<std::string, double>& columns() const { return columns_; }
  const std::string& failure() const { return failure_; }  ///< empty: all residuals are within their bounds

 private:
  std::string path_;
  std::map<std::string, double> columns_;
  std::string failure_;
};

using nullscope::scaled_residual;
using nullscope::worse;

/// Runs `part(begin, end)` on every hardware thread, over disjoint parts of [0, count): for plain C++ loops.
void parallel_for(std::int64_t count, const std::function<void(std::int64_t begin, std::int64_t end)>& part);

/// Numbers in [-1, 1) that depend on the seed alone.
template <class T>
std::vector<T> random_numbers(std::int64_t count, std::uint64_t seed) {
  std::vector<T> numbers(static_cast<std::size_t>(count));
  for (T& x : numbers) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    x = static_cast<T>(static_cast<float>(static_cast<std::int64_t>(seed) >> 40) * 0x1p-23f);
  }
  return numbers;
}

/// A workload and the paths that compute it, with the type of their data hidden.
class any_comparison {
 public:
  explicit any_comparison(workload work);
  virtual ~any_comparison() = default;

  const workload& work() const { return work_; }
  const std::vector<std::string>& paths() const { return paths_; }
  std::string name(const std::string& path) const;  ///< "gemm/f32/sycl/n:1024"; without a path "gemm/f32/n:1024"

  virtual void set_up(context& ctx) = 0;
  virtual void tear_down() = 0;
  virtual void clear() = 0;
  virtual void restore() = 0;
  virtual void call(std::size_t path) = 0;
  virtual void verify(report& found) = 0;

 protected:
  void add_path(const std::string& path);

 private:
  workload work_;
  std::vector<std::string> paths_;
};

/// A comparison whose paths share a `Data`, made when they run and destroyed afterwards.
template <class Data>
class comparison : public any_comparison {
 public:
  using action = std::function<void(Data&)>;

  comparison(workload work, std::function<std::unique_ptr<Data>(context&)> make)
      : any_comparison(std::move(work)), make_(std::move(make)) {}

  /// One way to compute the workload: "sycl" (this project's kernels), "plain" (the same by the obvious algorithm),
  /// "onemkl", "loop" (plain C++ on all threads of
  /// the host) or "runtime" (the SYCL runtime called directly). The call submits the work and waits for it.
  comparison& path(const std::string& name, action call) {
    add_path(name);
    calls_.push_back(std::move(call));
    return *this;
  }

  /// Before a path is verified: overwrites the results, so that a path cannot pass with what another one left.
  comparison& clear(action clear) {
    clear_ = std::move(clear);
    return *this;
  }

  /// Before every call, not timed: gives a path that overwrites its input the same input each time.
  comparison& restore(action restore) {
    restore_ = std::move(restore);
    return *this;
  }

  /// After one call of each path, before it is timed: compares with a reference.
  comparison& verify(std::function<void(Data&, report&)> verify) {
    verify_ = std::move(verify);
    return *this;
  }

 private:
  void set_up(context& ctx) override { data_ = make_(ctx); }
  void tear_down() override { data_.reset(); }
  void clear() override {
    if (clear_) clear_(*data_);
  }
  void restore() override {
    if (restore_) restore_(*data_);
  }
  void call(std::size_t path) override { calls_[path](*data_); }
  void verify(report& found) override {
    if (verify_) verify_(*data_, found);
  }

  std::function<std::unique_ptr<Data>(context&)> make_;
  std::unique_ptr<Data> data_;
  std::vector<action> calls_;
  action clear_, restore_;
  std::function<void(Data&, report&)> verify_;
};

/// The comparisons of a program, in the order in which they run.
class suite {
 public:
  explicit suite(context ctx) : ctx_(std::move(ctx)) {}

  /// What the benchmarks run on, for example to ask what the device offers.
  context& ctx() { return ctx_; }

  /// Adds a comparison; `make(ctx)` returns the data that its paths share. Add paths and a verification to the result.
  /// On a device without double precision, comparisons of type "f64" are skipped.
  template <class Make>
  auto& add(workload work, Make make) {
    using data = std::invoke_result_t<Make, context&>;
    auto added = std::make_unique<comparison<data>>(
        std::move(work), [make = std::move(make)](context& ctx) { return std::unique_ptr<data>(new data(make(ctx))); });
    auto& result = *added;
    comparisons_.push_back(std::move(added));
    return result;
  }

  const std::vector<std::unique_ptr<any_comparison>>& comparisons() const { return comparisons_; }

 private:
  context ctx_;
  std::vector<std::unique_ptr<any_comparison>> comparisons_;
};

/// The `main` of a benchmark program: reads the flags, lets `describe` fill the suite, runs it, prints the summary.
/// Returns 0, 1 if something failed (including a verification), 2 for wrong flags. `title` says in one line what is
/// measured.
int run(int argc, char** argv, const std::string& title, const std::function<void(suite&)>& describe);

}  // namespace nullscope::bench
