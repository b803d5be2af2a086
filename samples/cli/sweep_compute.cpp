#include "sweep_compute.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nullscope/errors.hpp>
#include <nullscope/svd.hpp>
#include <nullscope/tensor.hpp>

#include "sweep_chunk.hpp"

namespace nullscope::cli {
namespace {

/// Six decimals: what is right of a correlation in single precision, and enough for any chart.
double rounded(double correlation) { return std::round(correlation * 1e6) / 1e6; }

double in_mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

template <class T>
class computer : public sweep_computer {
 public:
  computer(const sweep_settings& settings, const sycl::device& device)
      : settings_(settings), queue_(device, sycl::property::queue::in_order{}) {}

  std::int64_t memory_of(const sweep_unit& unit) const override { return chunk_of(unit, chunk_size(unit)).bytes(); }

  std::vector<sweep_row> compute(const sweep_unit& unit) override {
    const std::int64_t size = chunk_size(unit), end = unit.first + unit.count;
    const std::int64_t bytes = chunk_of(unit, size).bytes();
    if (memory_.size() < bytes) {
      memory_ = {};  // before the larger one, so that both are never there together
      memory_ = tensor<std::byte>(queue_, {bytes});
    }
    sweep_chunk<T> chunk = chunk_of(unit, size, memory_.data());
    std::vector<sweep_row> rows;
    for (std::int64_t first = unit.first; first < end; first += size) {
      const head_range range{first, std::min(size, end - first)};
      chunk.compute(queue_, range);
      append_rows(unit, chunk, range, rows);
    }
    return rows;
  }

 private:
  sweep_chunk<T> chunk_of(const sweep_unit& unit, std::int64_t size, std::byte* memory = nullptr) const {
    return {queue_, settings_, unit, size, unit.count % size, memory};
  }

  /// As many heads at once as the budget allows, found by halving.
  std::int64_t chunk_size(const sweep_unit& unit) const {
    for (std::int64_t size = unit.count;; size = (size + 1) / 2) {
      const std::int64_t bytes = chunk_of(unit, size).bytes();
      if (bytes <= settings_.memory) return size;
      if (size > 1) continue;
      throw invalid_argument(
          fmt::format("sweep: one head at length {} ({}) takes {:.1f} MiB; --memory allows {:.1f} MiB", unit.length,
                      to_string(unit.kind), in_mib(bytes), in_mib(settings_.memory)));
    }
  }

  template <class Number>
  std::vector<Number> to_host(const view<Number, 1>& array, std::int64_t count) {
    std::vector<Number> host(array.data == nullptr ? 0 : static_cast<std::size_t>(count));
    queue_.copy(array.data, host.data(), host.size()).wait_and_throw();
    return host;
  }

  void append_rows(const sweep_unit& unit, const sweep_chunk<T>& chunk, const head_range& range,
                   std::vector<sweep_row>& rows) {
    const auto status = to_host(chunk.status, range.count);
    const auto rank = to_host(chunk.rank, range.count), with_ones = to_host(chunk.rank_with_ones, range.count);
    const auto summary = to_host(chunk.summary, range.count);
    const auto raw = to_host(chunk.raw_logit_rank, range.count);
    const auto alternative = to_host(chunk.alternative_logit_rank, range.count);
    for (std::size_t i = 0; i < status.size(); ++i) {
      const std::int64_t number = range.first + static_cast<std::int64_t>(i);
      sweep_row row{unit.kind, unit.length, number / settings_.heads, number % settings_.heads};
      if (status[i] != svd_converged || rank[i] < 0) {
        throw computation_error(fmt::format("sweep: the rank of head {} of sample {} at length {} was not found",
                                            row.head, row.sample, row.length),
                                {number});
      }
      if (!raw.empty() && (raw[i] < 0 || alternative[i] < 0)) {  // a weight is zero, or the SVD failed
        throw computation_error(
            fmt::format("sweep: the ranks of the logits of head {} of sample {} at length {} were not found", row.head,
                        row.sample, row.length),
            {number});
      }
      row.rank = rank[i];
      row.null_dim = row.length - rank[i];
      row.null_dim_ones = row.length - with_ones[i];
      if (!summary.empty()) row.pearson = rounded(static_cast<double>(summary[i].pearson));
      if (!raw.empty()) row.raw_logit_rank = raw[i];
      if (!raw.empty()) row.alternative_logit_rank = alternative[i];
      rows.push_back(row);
    }
  }

  sweep_settings settings_;
  sycl::queue queue_;
  tensor<std::byte> memory_;
};

}  // namespace

std::unique_ptr<sweep_computer> make_sweep_computer(const sweep_settings& settings, const sycl::device& device) {
  if (settings.is_double) return std::make_unique<computer<double>>(settings, device);
  return std::make_unique<computer<float>>(settings, device);
}

}  // namespace nullscope::cli
