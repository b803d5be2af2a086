/// Micro-benchmarks, each of which measures one ceiling of a device. A call submits the work and waits for it.
#pragma once

#include <cstdint>
#include <functional>
#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/context.hpp>
#include <nullscope/core/tensor.hpp>
#include <vector>

namespace nullscope::bench {

/// Seconds of the fastest of some calls: `least_calls` of them, and more until `seconds` have passed.
double best_seconds(const std::function<void()>& call, double seconds, int least_calls);

/// The number in the middle, or the upper one of two. `numbers` is not empty.
double median(std::vector<double> numbers);

/// Seconds of a typical call: the median of at least three that together take `seconds`, after a warm-up.
double typical_seconds(const std::function<void()>& call, double seconds);

/// Fused multiply-adds in registers: the highest rate of arithmetic in T (float or double).
template <class T>
class fma_probe {
 public:
  fma_probe(context& ctx, std::int64_t rounds);

  void call();
  double flops() const;  ///< of one call
  double error() const;  ///< relative error of the results of a call: only rounding if every step was computed

 private:
  context* ctx_;
  std::int64_t rounds_, group_, items_;
  std::int64_t lanes_, chains_;  // per work-item: a vector on a CPU, one number on a GPU; as many as registers hold
  tensor<T> out_;
};

/// Products of bf16 tiles in registers: the highest rate of the matrix engine.
class matrix_probe {
 public:
  /// Whether the device has tiles of a shape that the probe knows.
  static bool serves(const context& ctx);

  matrix_probe(context& ctx, std::int64_t rounds);

  void call();
  double flops() const;
  double error() const;

 private:
  struct tile_shape {
    std::int64_t m, n, k, sub_group;
    bool operator==(const tile_shape&) const = default;
  };
  /// AMX, XMX of two generations, tensor cores, matrix cores.
  static constexpr tile_shape known_shapes[] = {
      {16, 16, 32, 16}, {8, 16, 16, 16}, {8, 8, 16, 8}, {16, 16, 16, 32}, {16, 16, 16, 64}};
  static const tile_shape* choose(const context& ctx);

  context* ctx_;
  std::int64_t rounds_, groups_;
  const tile_shape* shape_;
  tensor<bfloat16> numbers_;
  tensor<float> out_;
};

/// A copy kernel that reads bytes / 2 and writes bytes / 2, with ordinary or streaming stores, whichever is faster.
class copy_probe {
 public:
  copy_probe(context& ctx, std::int64_t bytes);

  void call();
  double bytes() const;  ///< moved by one call
  tensor<float>& input() { return x_; }
  tensor<float>& output() { return out_; }

 private:
  context* ctx_;
  bool streaming_ = false;
  tensor<float> x_, out_;
};

}  // namespace nullscope::bench
