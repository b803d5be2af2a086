/// The ceilings of a device, measured by micro-benchmarks in the run that uses them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nullscope/tensor.hpp>
#include <string>
#include <sycl/sycl.hpp>

#include "harness.hpp"

namespace nullscope::bench {

/// Fused multiply-adds in registers: the highest rate of arithmetic in T (float or double).
template <class T>
class fma_probe {
 public:
  fma_probe(const sycl::queue& queue, std::int64_t rounds);

  void call();           ///< submits and waits
  double flops() const;  ///< of one call
  double error() const;  ///< of the results after a call, relative: of the order of eps if every step was done

 private:
  mutable sycl::queue queue_;
  std::int64_t rounds_, group_, items_;
  bool wide_;  ///< a work-item computes with packs (CPU), not with single numbers
  tensor<T> out_;
};

/// A copy kernel that reads bytes / 2 and writes bytes / 2.
class copy_probe {
 public:
  copy_probe(const sycl::queue& queue, std::int64_t bytes);

  void call();           ///< submits and waits
  double bytes() const;  ///< moved by one call
  tensor<float>& input() { return x_; }
  tensor<float>& output() { return out_; }

 private:
  sycl::queue queue_;
  bool wide_;
  tensor<float> x_, out_;
};

/// What the device can reach at best, per second.
struct ceilings {
  double flops;
  double bytes;

  /// Seconds that the work takes at least: the roofline.
  double least_seconds(const workload& work) const;
};

/// Measures the ceilings, each time anew, in some milliseconds: clock rates and neighbours change during a run, so a
/// ceiling is measured next to what is compared with it.
///
/// The peak is that of the workload's type. The bandwidth is that of a copy which touches as much memory as the
/// workload: data that fit a cache are compared with a copy in that cache, not with main memory, of which they could
/// reach more than all. Below 4 MiB the launch, not the memory, would bound the copy, so no smaller copy is measured.
class roofline {
 public:
  static constexpr std::int64_t smallest_footprint = std::int64_t{4} << 20;

  explicit roofline(sycl::queue queue) : queue_(std::move(queue)) {}

  /// `type` is "f32", "f64" or "bf16".
  double peak_flops(const std::string& type);
  double bandwidth(double footprint);

  /// Both, or the one that bounds the work: what it does not use is infinite.
  ceilings sample(const workload& work);

  /// Frees the arrays of the copy.
  void release() { copy_.reset(); }

 private:
  struct peak_probe {
    std::function<void()> call;
    double flops;
  };
  template <class T>
  peak_probe make_peak_probe();

  sycl::queue queue_;
  std::map<std::string, peak_probe> peaks_;
  std::unique_ptr<copy_probe> copy_;
  std::int64_t copy_footprint_ = 0;
};

}  // namespace nullscope::bench
