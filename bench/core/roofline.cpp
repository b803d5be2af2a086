#include "bench/core/roofline.hpp"

#include <algorithm>
#include <limits>
#include <nullscope/core/errors.hpp>

namespace nullscope::bench {
namespace {

constexpr double peak_call_seconds = 2e-3;
constexpr double sample_seconds = 15e-3;

}  // namespace

double ceilings::least_seconds(const workload& work) const { return std::max(work.flops / flops, work.bytes / bytes); }

/// A probe with as many rounds as take some milliseconds.
template <class Probe>
roofline::peak_probe roofline::calibrated() {
  for (std::int64_t rounds = 1 << 16;; rounds *= 2) {
    const auto probe = std::make_shared<Probe>(ctx_, rounds);
    probe->call();  // the first one compiles
    const auto call = [probe] { probe->call(); };
    if (best_seconds(call, 0, 3) < peak_call_seconds) continue;
    if (!(probe->error() < 1e-5)) throw computation_error("the probe of the peak computes wrong numbers", {});
    return {call, probe->flops()};
  }
}

double roofline::peak_flops(const std::string& type) {
  auto entry = peaks_.find(type);
  if (entry == peaks_.end()) {
    peak_probe probe;
    if (type == "f64") {
      probe = calibrated<fma_probe<double>>();
    } else if (type == "bf16" && matrix_probe::serves(ctx_)) {
      probe = calibrated<matrix_probe>();
    } else {
      probe = calibrated<fma_probe<float>>();
    }
    entry = peaks_.emplace(type, std::move(probe)).first;
  }
  return entry->second.flops / typical_seconds(entry->second.call, sample_seconds);
}

double roofline::bandwidth(double footprint) {
  const std::int64_t bytes = std::max(smallest_footprint, static_cast<std::int64_t>(footprint));
  if (!copy_ || copy_footprint_ != bytes) {
    copy_.reset();  // first, so that both are never allocated at once
    copy_ = std::make_unique<copy_probe>(ctx_, bytes);
    copy_footprint_ = bytes;
  }
  return copy_->bytes() / typical_seconds([&] { copy_->call(); }, sample_seconds);
}

ceilings roofline::sample(const workload& work) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  return {work.flops > 0 ? peak_flops(work.type) : unlimited, work.bytes > 0 ? bandwidth(work.footprint) : unlimited};
}

}  // namespace nullscope::bench
