#include <fmt/format.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/svd.hpp>
#include <nullscope/studies/sweep.hpp>

#include "lib/src/attention/row_block.hpp"
#include "lib/src/studies/sweep/chunk.hpp"
#include "lib/src/studies/sweep/model_heads.hpp"
#include "lib/src/studies/sweep/random_heads.hpp"
#include "lib/src/studies/sweep/rows.hpp"

namespace nullscope {
namespace {

double in_mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

template <class T>
class computer : public sweep_computer {
 public:
  computer(context ctx, const sweep_settings& settings)
      : settings_(settings), ctx_(std::move(ctx)), source_(std::make_unique<random_heads<T>>(settings_)) {}

  computer(context ctx, const sweep_settings& settings, const transformer<T>& model, const sweep_texts& texts)
      : settings_(settings),
        ctx_(std::move(ctx)),
        source_(std::make_unique<model_heads<T>>(ctx_, settings_, model, texts)) {}

  const sweep_settings& settings() const override { return settings_; }

  std::int64_t memory_of(const sweep_unit& unit) override {
    return bytes_of(unit, chunk_size(unit)) + source_->bytes();
  }

  std::vector<sweep_row> compute(const sweep_unit& unit) override {
    const std::int64_t size = chunk_size(unit), end = unit.first + unit.count;
    const std::int64_t bytes = bytes_of(unit, size);
    if (memory_.size() < bytes) {
      ctx_.use_workspace({});
      memory_ = {};  // before the larger one, so that both are never allocated at once
      memory_ = tensor<std::byte>(ctx_, {bytes});
      ctx_.use_workspace(memory_.span());
    }
    std::vector<sweep_row> rows;
    for (std::int64_t first = unit.first; first < end; first += size) {
      const head_range range{first, std::min(size, end - first)};
      chunk_results<T> results;
      sweep_chunk<T>(settings_, *source_, unit, range).compute(ctx_, results).wait_and_throw();
      append_rows(unit, range, results, rows);
    }
    return rows;
  }

 private:
  /// Bytes of device memory for chunks of `size` heads; the last one may have fewer, which may take more.
  std::int64_t bytes_of(const sweep_unit& unit, std::int64_t size) {
    return required_workspace(ctx_, [&](context& ctx) {
      for (const std::int64_t count : {size, unit.count % size}) {
        chunk_results<T> results;
        if (count > 0) sweep_chunk<T>(settings_, *source_, unit, {unit.first, count}).compute(ctx, results);
      }
    });
  }

  /// As many heads at once as the budget allows, found by halving; one if heads may be divided.
  std::int64_t chunk_size(const sweep_unit& unit) {
    const bool one_by_one = settings_.is_divisible(unit.kind, unit.length);
    for (std::int64_t size = one_by_one ? 1 : unit.count;; size = (size + 1) / 2) {
      const std::int64_t bytes = bytes_of(unit, size) + source_->bytes();
      if (bytes <= settings_.memory) return size;
      if (size > 1) continue;
      throw invalid_argument(fmt::format("sweep: one head at length {} ({}) takes {:.1f} MiB; the budget is {:.1f} MiB",
                                         unit.length, to_string(unit.kind), in_mib(bytes), in_mib(settings_.memory)));
    }
  }

  /// Of the blocks of the moments (rows, 3) of a head.
  static std::vector<attention_sums> sums_of(std::span<const T> moments, std::int64_t rows) {
    std::vector<attention_sums> sums;
    for (std::int64_t first = 0; first < rows; first += detail::attention_row_block) {
      const std::int64_t count = std::min(detail::attention_row_block, rows - first);
      sums.push_back(
          sum_rows(moments.subspan(static_cast<std::size_t>(3 * first), static_cast<std::size_t>(3 * count))));
    }
    return sums;
  }

  void append_rows(const sweep_unit& unit, const head_range& range, const chunk_results<T>& results,
                   std::vector<sweep_row>& rows) const {
    const auto& [status, rank, with_ones, moments, queries, raw, alternative] = results;
    for (std::size_t i = 0; i < status.size(); ++i) {
      const std::int64_t number = range.first + static_cast<std::int64_t>(i);
      sweep_row row = row_of(settings_, unit, number);
      if (status[i] != svd_converged || rank[i] < 0) {
        const std::string layer = row.layer > 0 ? fmt::format(" of layer {}", row.layer) : "";
        throw computation_error(fmt::format("sweep: the rank of head {}{} of sample {} at length {} was not found",
                                            row.head, layer, row.sample, row.length),
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
      if (!moments.empty())
        row.sums = sums_of(std::span(moments).subspan(i * 3 * static_cast<std::size_t>(unit.rows)), unit.rows);
      if (!raw.empty()) row.raw_logit_rank = raw[i];
      if (!raw.empty()) row.alternative_logit_rank = alternative[i];
      rows.push_back(row);
    }
  }

  sweep_settings settings_;
  tensor<std::byte> memory_;  // the workspace of the context: never more than the budget
  context ctx_;
  std::unique_ptr<head_source<T>> source_;
};

template <class T>
std::unique_ptr<sweep_computer> make_model_computer(context ctx, sweep_settings settings, const transformer<T>& model,
                                                    const sweep_texts& texts) {
  if (!settings.model || settings.model->samples.empty()) {
    throw invalid_argument("sweep: the settings were not completed for a model and its texts");
  }
  settings.is_double = std::is_same_v<T, double>;
  return std::make_unique<computer<T>>(std::move(ctx), settings, model, texts);
}

}  // namespace

std::unique_ptr<sweep_computer> make_sweep_computer(context ctx, const sweep_settings& settings) {
  if (settings.is_double) return std::make_unique<computer<double>>(std::move(ctx), settings);
  return std::make_unique<computer<float>>(std::move(ctx), settings);
}

std::unique_ptr<sweep_computer> make_sweep_computer(context ctx, const sweep_settings& settings,
                                                    const transformer<float>& model, const sweep_texts& texts) {
  return make_model_computer(std::move(ctx), settings, model, texts);
}

std::unique_ptr<sweep_computer> make_sweep_computer(context ctx, const sweep_settings& settings,
                                                    const transformer<double>& model, const sweep_texts& texts) {
  return make_model_computer(std::move(ctx), settings, model, texts);
}

std::vector<sweep_row> sweep(sweep_computer& computer, const std::function<void(double share)>& progress) {
  const sweep_settings& settings = computer.settings();
  const std::vector<sweep_unit> units = units_of(settings);
  double total = 0, done = 0;
  for (const sweep_unit& unit : units) total += cost_of(settings, unit);
  std::vector<sweep_row> parts;
  for (const sweep_unit& unit : units) {
    const std::vector<sweep_row> found = computer.compute(unit);
    parts.insert(parts.end(), found.begin(), found.end());
    done += cost_of(settings, unit);
    if (progress) progress(done / total);
  }
  return finished_rows(settings, parts);
}

}  // namespace nullscope
