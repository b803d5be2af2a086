#include "sweep_compute.hpp"

#include <fmt/format.h>

#include <nullscope/device.hpp>
#include <nullscope/errors.hpp>
#include <nullscope/null_space.hpp>
#include <nullscope/svd.hpp>
#include <nullscope/tensor.hpp>
#include <optional>

#include "sweep_heads.hpp"

namespace nullscope::cli {
namespace {

template <class T>
class computer : public sweep_computer {
 public:
  computer(const sweep_settings& settings, const sycl::device& device)
      : settings_(settings), queue_(device, sycl::property::queue::in_order{}) {}

  std::int64_t memory_of(const sweep_unit& unit) const override { return work(*this, unit, nullptr).bytes; }

  std::vector<sweep_row> compute(const sweep_unit& unit) override {
    const std::int64_t bytes = memory_of(unit);
    if (memory_.size() < bytes) {
      memory_ = {};
      memory_ = tensor<std::byte>(queue_, {bytes});
    }
    work at_once(*this, unit, memory_.data());
    const std::int64_t all = unit.samples * settings_.heads;
    std::vector<sweep_row> rows;
    for (std::int64_t first = 0; first < all; first += at_once.count) {
      at_once.run(queue_, {first, std::min(at_once.count, all - first)}, rows);
    }
    return rows;
  }

 private:
  /// The heads of a unit that are computed at once: as many as fit the memory budget.
  struct work {
    sweep_settings settings;
    sweep_unit unit;
    std::int64_t count;  ///< heads at once
    std::int64_t bytes;

    work(const computer& owner, const sweep_unit& wanted, std::byte* memory)
        : settings(owner.settings_), unit(wanted), count(wanted.samples * settings.heads) {
      for (;; count = (count + 1) / 2) {
        bytes = cut(owner.queue_, nullptr);
        if (bytes <= settings.memory) break;
        if (count > 1) continue;
        throw invalid_argument(fmt::format("sweep: one head at length {} ({}) takes {} MiB; --memory allows {} MiB",
                                           unit.length, to_string(unit.kind), (bytes >> 20) + 1,
                                           settings.memory >> 20));
      }
      cut(owner.queue_, memory);
    }

    std::int64_t cut(const sycl::queue& queue, std::byte* memory) {
      memory_cutter cutter(memory);
      const std::int64_t values = settings.value_size(unit.kind), k = std::min(unit.length, values);
      heads.emplace(settings, unit, count, false, cutter);
      basis = cutter.array<T>(count, unit.length, k + 1);
      s = cutter.array<T>(count, k);
      rank = cutter.array<std::int64_t>(count);
      rank_with_ones = cutter.array<std::int64_t>(count);
      status = cutter.array<std::int32_t>(count);
      scratchpad =
          cutter.bytes(std::max(range_basis_scratchpad_size<T>(queue, count, unit.length, values, settings.width),
                                append_ones_scratchpad_size<T>(count, unit.length)));
      return cutter.used();
    }

    void run(sycl::queue& queue, const head_range& range, std::vector<sweep_row>& rows) {
      const auto part = [&](auto array) { return slice(array, 0, 0, range.count); };
      heads->generate(queue, range);
      queue.memset(basis.data, 0, static_cast<std::size_t>(basis.size()) * sizeof(T));
      range_basis<T>(queue, part(heads->v), part(heads->h), slice(part(basis), 2, 0, basis.extent[2] - 1), part(s),
                     part(rank), part(status), scratchpad);
      append_ones<T>(queue, part(basis), part(rank), part(rank_with_ones), scratchpad);
      append_rows(queue, range, rows);
    }

    template <class Number>
    static std::vector<Number> to_host(sycl::queue& queue, const view<Number, 1>& array, std::int64_t count) {
      std::vector<Number> host(static_cast<std::size_t>(count));
      queue.copy(array.data, host.data(), host.size()).wait_and_throw();
      return host;
    }

    void append_rows(sycl::queue& queue, const head_range& range, std::vector<sweep_row>& rows) {
      const auto states = to_host(queue, status, range.count);
      const auto ranks = to_host(queue, rank, range.count), with_ones = to_host(queue, rank_with_ones, range.count);
      for (std::size_t i = 0; i < states.size(); ++i) {
        const std::int64_t number = range.first + static_cast<std::int64_t>(i);
        if (states[i] != svd_converged) {
          throw computation_error(
              fmt::format("sweep: the rank of head {} of sample {} at length {} was not found", number % settings.heads,
                          unit.first_sample + number / settings.heads, unit.length),
              {number});
        }
        sweep_row row{unit.kind, unit.length, unit.first_sample + number / settings.heads, number % settings.heads};
        row.rank = ranks[i];
        row.null_dim = unit.length - ranks[i];
        row.null_dim_ones = unit.length - with_ones[i];
        rows.push_back(row);
      }
    }

    std::optional<sweep_heads<T>> heads;
    view<T, 3> basis;  // (count, S, k + 1)
    view<T, 2> s;
    view<std::int64_t, 1> rank, rank_with_ones;
    view<std::int32_t, 1> status;
    std::span<std::byte> scratchpad;
  };

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
