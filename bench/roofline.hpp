/// The ceilings of a device, measured in the run that uses them, and what they mean for a workload.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sycl/sycl.hpp>

#include "harness.hpp"
#include "probes.hpp"

namespace nullscope::bench {

/// What the device can reach at best, per second.
struct ceilings {
  double flops;
  double bytes;

  /// Seconds that the work takes at least: the roofline.
  double least_seconds(const workload& work) const;
};

/// Measures the ceilings, each time anew: clock rates and neighbours change during a run, so a ceiling is measured next
/// to what is compared with it, and like it: what a call typically takes when many follow each other. The best call
/// would be no ceiling that anything reaches: a matrix engine was seen to run twice as fast for two milliseconds as for
/// fifty.
///
/// The peak is that of the workload's type; bf16 means the matrix engine, or f32 arithmetic on a
/// device that has none. The bandwidth is that of a copy which touches as much memory as the workload: data that fit a
/// cache are compared with a copy in that cache, not with main memory, of which they could reach more than all. Below 4
/// MiB the launch, not the memory, would bound the copy, so no smaller copy is measured.
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
  template <class Probe>
  peak_probe calibrated();

  sycl::queue queue_;
  std::map<std::string, peak_probe> peaks_;
  std::unique_ptr<copy_probe> copy_;
  std::int64_t copy_footprint_ = 0;
};

}  // namespace nullscope::bench
