/// The ceilings of a device, measured in the run that uses them, and what they mean for a workload.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nullscope/core/context.hpp>
#include <string>

#include "bench/core/harness.hpp"
#include "bench/core/probes.hpp"

namespace nullscope::bench {

/// What the device can reach at best, per second.
struct ceilings {
  double flops;
  double bytes;

  /// Seconds that the work takes at least: the roofline.
  double least_seconds(const workload& work) const;
};

/// Measures the ceilings anew each time: clock rates and other programs change during a run, so a ceiling is measured
/// right next to what is compared with it, and in the same way: the median of many calls in a row. The fastest call
/// would be a ceiling that nothing reaches, because some devices run faster for a moment than they can sustain.
///
/// The peak is that of the workload's type; bf16 means the matrix engine, or f32 arithmetic on a device that has none.
/// The bandwidth is that of a copy which touches as much memory as the workload: data that fit a cache are compared
/// with a copy in that cache, not with main memory, whose bandwidth they would exceed. Below 4 MiB the launch, not the
/// memory, would bound the copy, so no smaller copy is measured.
class roofline {
 public:
  static constexpr std::int64_t smallest_footprint = std::int64_t{4} << 20;

  /// The context must outlive it.
  explicit roofline(context& ctx) : ctx_(ctx) {}

  /// `type` is "f32", "f64" or "bf16".
  double peak_flops(const std::string& type);
  double bandwidth(double footprint);

  /// Both; a ceiling that the work does not use is infinite.
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

  context& ctx_;
  std::map<std::string, peak_probe> peaks_;
  std::unique_ptr<copy_probe> copy_;
  std::int64_t copy_footprint_ = 0;
};

}  // namespace nullscope::bench
