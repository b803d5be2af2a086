#include "bench/core/probes.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/operation.hpp>

#include "bench/core/harness.hpp"
#include "bench/core/peak_copy.hpp"
#include "bench/core/peak_fma.hpp"
#include "bench/core/peak_matrix.hpp"
#include "lib/src/core/dispatch.hpp"

namespace nullscope::bench {
namespace {

constexpr int line_floats = 16;  // a cache line, which a copy writes whole

template <class T>
double largest_error(const std::vector<T>& got, double expected) {
  double largest = 0;
  for (const T x : got) largest = worse(largest, std::abs(static_cast<double>(x) / expected - 1));
  return largest;
}

sycl::nd_range<1> groups_of(std::int64_t groups, std::int64_t group) {
  return {static_cast<std::size_t>(groups * group), static_cast<std::size_t>(group)};
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

double best_seconds(const std::function<void()>& call, double seconds, int least_calls) {
  double best = std::numeric_limits<double>::infinity();
  const double begin = now();
  for (int calls = 0; calls < least_calls || now() - begin < seconds; ++calls) {
    const double start = now();
    call();
    best = std::min(best, now() - start);
  }
  return best;
}

double median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

double typical_seconds(const std::function<void()>& call, double seconds) {
  best_seconds(call, seconds / 2, 1);
  std::vector<double> all;
  const double begin = now();
  while (all.size() < 3 || now() - begin < seconds) {
    const double start = now();
    call();
    all.push_back(now() - start);
  }
  return median(all);
}

template <class T>
fma_probe<T>::fma_probe(context& ctx, std::int64_t rounds) : ctx_(&ctx), rounds_(rounds) {
  const lane_layout& layout = ctx.layout();
  constexpr std::int64_t bytes = sizeof(T);
  if (layout.has_vectors()) {
    lanes_ = layout.vector_bytes / bytes;
    chains_ = layout.vector_bytes == 64 ? 16 : 12;
    group_ = 1;
    items_ = ctx.device().compute_units;
  } else {
    lanes_ = 1;
    chains_ = 16;
    group_ = layout.group_items;
    items_ = ctx.device().compute_units * 16 * group_;  // waves to hide all latencies
  }
  out_ = tensor<T>(ctx, {items_});
}

template <class T>
void fma_probe<T>::call() {
  const auto range = groups_of(items_ / group_, group_);
  const T factor = static_cast<T>(0.5), addend = 1;  // every chain tends to 2, and no step can be skipped
  const auto run = [&]<int Lanes, int Chains>() {
    launch(*ctx_, range, 0, kernels::peak_fma<T, Lanes, Chains>{out_.data(), rounds_, factor, addend}).wait();
  };
  detail::dispatch_vectors(ctx_->layout().vector_bytes, [&]<int Bytes>() {
    run.template operator()<(Bytes == 0 ? 1 : Bytes / static_cast<int>(sizeof(T))), (Bytes == 32 ? 12 : 16)>();
  });
}

template <class T>
double fma_probe<T>::flops() const {
  return 2.0 * static_cast<double>(chains_ * lanes_ * rounds_ * items_);
}

template <class T>
double fma_probe<T>::error() const {
  return largest_error(out_.to_host(), 2.0 * static_cast<double>(chains_ * lanes_));
}

template class fma_probe<float>;
template class fma_probe<double>;

const matrix_probe::tile_shape* matrix_probe::choose([[maybe_unused]] const context& ctx) {
#ifdef SYCL_EXT_ONEAPI_MATRIX
  const device_properties& device = ctx.device();
  const auto fits = [](std::int64_t size, std::int64_t fixed, std::int64_t largest) {
    return fixed == 0 ? size <= largest : size == fixed;
  };
  for (const tile_shape& shape : known_shapes) {
    const auto& groups = device.sub_group_sizes;
    if (std::find(groups.begin(), groups.end(), shape.sub_group) == groups.end()) continue;
    for (const matrix_tile& tile : device.bf16_tiles) {
      if (fits(shape.m, tile.m, tile.max_m) && fits(shape.n, tile.n, tile.max_n) && fits(shape.k, tile.k, tile.max_k)) {
        return &shape;
      }
    }
  }
#endif
  return nullptr;
}

bool matrix_probe::serves(const context& ctx) { return choose(ctx) != nullptr; }

matrix_probe::matrix_probe(context& ctx, std::int64_t rounds) : ctx_(&ctx), rounds_(rounds), shape_(choose(ctx)) {
  const device_properties& device = ctx.device();
  if (shape_ == nullptr) throw unsupported_device(device.name + " has no bf16 matrix tiles of a known shape");
  groups_ = device.compute_units * (ctx.layout().has_vectors() ? 1 : 32);
  const std::vector<bfloat16> numbers(static_cast<std::size_t>(shape_->k * std::max(shape_->m, shape_->n)),
                                      bfloat16(1.0f / 64));
  numbers_ = tensor<bfloat16>(ctx, {static_cast<std::int64_t>(numbers.size())}, numbers);
  out_ = tensor<float>(ctx, {groups_, 4, shape_->m, shape_->n});
}

void matrix_probe::call() {
#ifdef SYCL_EXT_ONEAPI_MATRIX
  const auto run_if_chosen = [&]<int M, int N, int K, int SubGroup, bool PackedB>() {
    if (*shape_ != tile_shape{M, N, K, SubGroup}) return;
    using kernel = kernels::peak_matrix<M, N, K, SubGroup, PackedB>;
    launch(*ctx_, groups_of(groups_, SubGroup), 0, kernel{numbers_.data(), out_.data(), rounds_}).wait();
  };
  run_if_chosen.template operator()<16, 16, 32, 16, true>();
  run_if_chosen.template operator()<8, 16, 16, 16, true>();
  run_if_chosen.template operator()<8, 8, 16, 8, true>();
  run_if_chosen.template operator()<16, 16, 16, 32, false>();
  run_if_chosen.template operator()<16, 16, 16, 64, false>();
#endif
}

double matrix_probe::flops() const {
  return 8.0 * static_cast<double>(shape_->m * shape_->n * shape_->k * rounds_ * groups_);
}

double matrix_probe::error() const {
  return largest_error(out_.to_host(), static_cast<double>(rounds_ * shape_->k) / 4096);
}

copy_probe::copy_probe(context& ctx, std::int64_t bytes) : ctx_(&ctx) {
  const std::int64_t size = std::max<std::int64_t>(1, bytes / 2 / static_cast<std::int64_t>(sizeof(float)));
  x_ = tensor<float>(ctx, {size});
  out_ = tensor<float>(ctx, {size});
  ctx.queue().fill(x_.data(), 1.5f, static_cast<std::size_t>(size)).wait();
  ctx.queue().fill(out_.data(), 0.0f, static_cast<std::size_t>(size)).wait();
  if (!ctx.layout().has_vectors()) return;
  double seconds[2];
  for (const bool streaming : {false, true}) {
    streaming_ = streaming;
    call();  // compiles, the first time
    seconds[streaming] = typical_seconds([this] { call(); }, 10e-3);
  }
  streaming_ = seconds[true] < seconds[false];
}

void copy_probe::call() {
  const std::int64_t size = x_.size();
  const lane_layout& layout = ctx_->layout();
  const std::int64_t group = layout.group_items;
  // A CPU thread copies some pages, a group of a GPU some cache lines.
  const std::int64_t block = layout.has_vectors() ? 16384 : group * 16;
  const auto range = groups_of((size + block - 1) / block, group);
  const float* x = x_.data();
  float* out = out_.data();
  detail::dispatch_vectors(layout.vector_bytes, [&]<int Bytes>() {
    if constexpr (Bytes == 0) {
      launch(*ctx_, range, 0, kernels::peak_copy<float, 1, false>{x, out, size, block}).wait();
    } else if (streaming_) {
      launch(*ctx_, range, 0, kernels::peak_copy<float, line_floats, true>{x, out, size, block}).wait();
    } else {
      launch(*ctx_, range, 0, kernels::peak_copy<float, line_floats, false>{x, out, size, block}).wait();
    }
  });
}

double copy_probe::bytes() const { return 2.0 * sizeof(float) * static_cast<double>(x_.size()); }

}  // namespace nullscope::bench
