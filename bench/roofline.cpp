#include "roofline.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <copy.hpp>
#include <limits>
#include <nullscope/device.hpp>
#include <nullscope/launch.hpp>
#include <peak_fma.hpp>

namespace nullscope::bench {
namespace {

constexpr int chains = 16;
constexpr double probe_seconds = 2e-3;  // a sample is short, so that it can be repeated often

bool is_cpu(const sycl::queue& queue) { return properties(queue.get_device()).kind == device_kind::cpu; }

template <class T>
constexpr int cpu_width = 64 / static_cast<int>(sizeof(T));  // lanes of the widest vector

double seconds_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The best of a few samples, each as long as `probe_seconds` or one call.
double best_seconds(const std::function<void()>& call) {
  double best = seconds_of(call);
  const int samples = 2 + static_cast<int>(std::min(8.0, probe_seconds / best));
  for (int i = 0; i < samples; ++i) best = std::min(best, seconds_of(call));
  return best;
}

}  // namespace

template <class T>
fma_probe<T>::fma_probe(const sycl::queue& queue, std::int64_t rounds) : queue_(queue), rounds_(rounds) {
  const std::int64_t units = properties(queue.get_device()).compute_units;
  wide_ = is_cpu(queue);
  group_ = wide_ ? 1 : 256;
  items_ = wide_ ? units : units * 16 * group_;  // a hardware thread each, or enough waves to hide all latencies
  out_ = tensor<T>(queue_, {items_});
}

template <class T>
void fma_probe<T>::call() {
  const sycl::nd_range<1> range{static_cast<std::size_t>(items_), static_cast<std::size_t>(group_)};
  const T factor = static_cast<T>(0.5), addend = 1;  // every chain tends to 2, and no step can be left out
  if (wide_) {
    launch(queue_, range, 0, kernels::peak_fma<T, cpu_width<T>, chains>{out_.data(), rounds_, factor, addend}).wait();
  } else {
    launch(queue_, range, 0, kernels::peak_fma<T, 1, chains>{out_.data(), rounds_, factor, addend}).wait();
  }
}

template <class T>
double fma_probe<T>::flops() const {
  const std::int64_t lanes = wide_ ? cpu_width<T> : 1;
  return 2.0 * chains * static_cast<double>(lanes * rounds_ * items_);
}

template <class T>
double fma_probe<T>::error() const {
  const double expected = 2.0 * chains * (wide_ ? cpu_width<T> : 1);
  double largest = 0;
  for (const T x : out_.to_host()) largest = std::max(largest, std::abs(static_cast<double>(x) / expected - 1));
  return largest;
}

template class fma_probe<float>;
template class fma_probe<double>;

copy_probe::copy_probe(const sycl::queue& queue, std::int64_t bytes) : queue_(queue), wide_(is_cpu(queue)) {
  const std::int64_t size = std::max<std::int64_t>(1, bytes / 2 / static_cast<std::int64_t>(sizeof(float)));
  x_ = tensor<float>(queue_, {size});
  out_ = tensor<float>(queue_, {size});
  queue_.fill(x_.data(), 1.5f, static_cast<std::size_t>(size));
  queue_.fill(out_.data(), 0.0f, static_cast<std::size_t>(size)).wait();
}

void copy_probe::call() {
  const std::int64_t size = x_.size();
  const std::int64_t group = wide_ ? 1 : 256;
  const std::int64_t block = wide_ ? 16384 : group * 16;  // a CPU thread streams some pages, a GPU group some lines
  const std::int64_t groups = (size + block - 1) / block;
  const sycl::nd_range<1> range{static_cast<std::size_t>(groups * group), static_cast<std::size_t>(group)};
  if (wide_) {
    launch(queue_, range, 0, kernels::copy<float, cpu_width<float>>{x_.data(), out_.data(), size, block}).wait();
  } else {
    launch(queue_, range, 0, kernels::copy<float, 1>{x_.data(), out_.data(), size, block}).wait();
  }
}

double copy_probe::bytes() const { return 2.0 * sizeof(float) * static_cast<double>(x_.size()); }

double ceilings::least_seconds(const workload& work) const { return std::max(work.flops / flops, work.bytes / bytes); }

template <class T>
roofline::peak_probe roofline::make_peak_probe() {
  std::int64_t rounds = 1024;
  for (;; rounds *= 2) {
    const auto probe = std::make_shared<fma_probe<T>>(queue_, rounds);
    probe->call();  // the first one compiles
    const std::function<void()> call = [probe] { probe->call(); };
    if (seconds_of(call) >= probe_seconds) return {call, probe->flops()};
  }
}

double roofline::peak_flops(const std::string& type) {
  auto entry = peaks_.find(type);
  if (entry == peaks_.end()) {
    entry = peaks_.emplace(type, type == "f64" ? make_peak_probe<double>() : make_peak_probe<float>()).first;
  }
  return entry->second.flops / best_seconds(entry->second.call);
}

double roofline::bandwidth(double footprint) {
  const std::int64_t bytes = std::max(smallest_footprint, static_cast<std::int64_t>(footprint));
  if (!copy_ || copy_footprint_ != bytes) {
    copy_.reset();  // before the new one is made, so that they never share the memory
    copy_ = std::make_unique<copy_probe>(queue_, bytes);
    copy_footprint_ = bytes;
    copy_->call();  // compiles
  }
  return copy_->bytes() / best_seconds([&] { copy_->call(); });
}

ceilings roofline::sample(const workload& work) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  return {work.flops > 0 ? peak_flops(work.type) : unlimited, work.bytes > 0 ? bandwidth(work.footprint) : unlimited};
}

}  // namespace nullscope::bench
