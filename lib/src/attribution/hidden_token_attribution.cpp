#include <nullscope/attribution/hidden_token_attribution.hpp>

#include <algorithm>
#include <cmath>
#include <nullscope/linalg/rows.hpp>
#include <optional>

#include "lib/src/attribution/attribution_run.hpp"
#include "lib/src/attribution/contributions.hpp"
#include "lib/src/attribution/spectral_norms.hpp"

namespace nullscope {
namespace {

/// Copies to the host as a step of the operation; `to` must live until it is complete.
template <class T>
void to_host(operation& op, const view<T, 2>& from, std::vector<T>& to) {
  to.resize(static_cast<std::size_t>(from.size()));
  op.run([=, host = to.data()](sycl::queue& queue, const events& dependencies) {
    return queue.copy(static_cast<const T*>(from.data), host, static_cast<std::size_t>(from.size()), dependencies);
  });
}

/// Results of all sequences of a batch while tangents arrive.
template <class T>
class collected_norms {
 public:
  collected_norms(const token_batch& batch, const attribution_options& options, std::int64_t samples,
                  std::int64_t width)
      : lengths_(batch.lengths()), padded_(batch.tokens()), options_(options), samples_(samples), width_(width) {
    for (const std::int64_t length : lengths_) {
      attribution one;
      one.tokens = length;
      one.layers = options.layers;
      const auto size = options.layers.size() * static_cast<std::size_t>(length * length);
      sums_.push_back({std::vector<double>(size), std::vector<double>(has_errors() ? size : 0)});
      all_.push_back(one);
    }
  }

  /// values (batch, rows, slots) of a layer: row r is token first_row + r, slot t direction t + first_slot.
  void add(std::size_t layer, std::int64_t first_row, std::int64_t first_slot, std::int64_t per_token,
           const std::vector<T>& values) {
    const std::int64_t rows = padded_ - first_row;
    const auto slots = static_cast<std::int64_t>(values.size() / lengths_.size()) / rows;
    for (std::size_t b = 0; b < lengths_.size(); ++b) {
      for (std::int64_t j = first_row; j < lengths_[b]; ++j) {
        const T* row = values.data() + (static_cast<std::int64_t>(b) * rows + j - first_row) * slots;
        for (std::int64_t t = 0; t < slots; ++t) {
          const std::int64_t i = (first_slot + t) / per_token;
          if (i >= lengths_[b]) break;
          const double value = static_cast<double>(row[t]);
          const double square = options_.norm == attribution_norm::sum ? value * value : value;
          const std::size_t at = place(b, layer, j, i);
          sums_[b].sum[at] += square;
          if (has_errors()) sums_[b].squares[at] += square * square;
        }
      }
    }
  }

  /// Spectral norms (batch, rows) of the blocks with input token i.
  void set(std::size_t layer, std::int64_t first_row, std::int64_t i, const detail::spectral_results& norms) {
    for (std::size_t b = 0; b < lengths_.size(); ++b) {
      if (i >= lengths_[b]) continue;
      for (std::int64_t j = first_row; j < lengths_[b]; ++j) {
        const auto at = b * static_cast<std::size_t>(padded_ - first_row) + static_cast<std::size_t>(j - first_row);
        sums_[b].sum[place(b, layer, j, i)] = norms.sigma[at] * norms.sigma[at];
        all_[b].residual = std::max(all_[b].residual, norms.residual[at]);
      }
    }
  }

  std::vector<attribution> finished() {
    for (std::size_t b = 0; b < all_.size(); ++b) {
      detail::fill_contributions(std::move(sums_[b]), samples_, width_, all_[b]);
    }
    return std::move(all_);
  }

 private:
  bool has_errors() const { return detail::has_standard_errors(samples_, width_); }

  std::size_t place(std::size_t b, std::size_t layer, std::int64_t j, std::int64_t i) const {
    const auto s = static_cast<std::size_t>(lengths_[b]);
    return (layer * s + static_cast<std::size_t>(j)) * s + static_cast<std::size_t>(i);
  }

  const std::vector<std::int64_t>& lengths_;
  std::int64_t padded_;
  const attribution_options& options_;
  std::int64_t samples_, width_;
  std::vector<detail::tangent_sums> sums_;
  std::vector<attribution> all_;
};

template <class T>
std::vector<attribution> run(context& ctx, const transformer<T>& model, const token_batch& batch,
                             const attribution_options& given) {
  std::optional<detail::attribution_run<T>> work(std::in_place, ctx, model, batch, given);
  const attribution_options options = work->options();
  const bool is_spectral = options.norm == attribution_norm::spectral;
  const auto reduction = options.norm == attribution_norm::sum ? row_reduction::sum : row_reduction::sum_of_squares;
  const std::int64_t slots = work->slots(), at_once = work->slots_at_once(is_spectral), per_token = work->per_token();
  collected_norms<T> norms(batch, options, per_token, model.config().width);
  std::vector<std::vector<T>> values(options.layers.size());
  std::vector<detail::spectral_buffers<T>> spectral(options.layers.size());
  for (std::int64_t first = 0; first < slots; first += at_once) {
    const std::int64_t count = std::min(at_once, slots - first);
    std::int64_t first_row = 0;
    work->sweep(first, count,
                [&](operation& op, std::size_t layer, std::int64_t row, const view<T, 4>& tangents) {
                  first_row = row;
                  if (is_spectral) {
                    detail::find_spectral_norms(op, tangents, per_token, options.power_iterations, spectral[layer]);
                    return;
                  }
                  const view<T, 3> rows = merge(tangents, 0);
                  const view<T, 2> reduced = op.take_array<T>(rows.extent[0], rows.extent[1]);
                  row_reduce(ctx, rows, reduced, reduction);
                  to_host(op, reduced, values[layer]);
                })
        .wait_and_throw();
    for (std::size_t layer = 0; layer < options.layers.size(); ++layer) {
      if (!is_spectral) {
        norms.add(layer, first_row, first, per_token, values[layer]);
        continue;
      }
      const std::vector<detail::spectral_results> found = detail::spectral_norms_of(spectral[layer]);
      for (std::size_t i = 0; i < found.size(); ++i) {
        norms.set(layer, first_row, first / per_token + static_cast<std::int64_t>(i), found[i]);
      }
    }
    if (options.progress) {
      options.progress(static_cast<double>(first + count) / static_cast<double>(slots));
    }
  }
  work.reset();  // contributions of long texts take as much memory as the norms
  return norms.finished();
}

template <class T>
void check_memory(context& ctx, const transformer<T>& model, const token_batch& batch,
                  const attribution_options& options) {
  detail::attribution_run<T> plan(ctx, model, batch, options, detail::run_purpose::plan);
  plan.slots_at_once(plan.options().norm == attribution_norm::spectral);
}

}  // namespace

std::vector<attribution> hidden_token_attribution(context& ctx, const transformer<float>& model,
                                                  const token_batch& batch, const attribution_options& options) {
  return run(ctx, model, batch, options);
}
std::vector<attribution> hidden_token_attribution(context& ctx, const transformer<double>& model,
                                                  const token_batch& batch, const attribution_options& options) {
  return run(ctx, model, batch, options);
}

void check_attribution(context& ctx, const transformer<float>& model, const token_batch& batch,
                       const attribution_options& options) {
  check_memory(ctx, model, batch, options);
}
void check_attribution(context& ctx, const transformer<double>& model, const token_batch& batch,
                       const attribution_options& options) {
  check_memory(ctx, model, batch, options);
}

double attribution_flops(const transformer_config& config, std::int64_t tokens, const attribution_options& options) {
  const double d = static_cast<double>(config.width), hidden = static_cast<double>(config.feed_forward);
  const double s = static_cast<double>(tokens), v = static_cast<double>(config.value_width());
  const double per_token = options.samples == 0 ? d : static_cast<double>(options.samples);
  const double tangents = s * per_token * (config.causal ? 0.5 : 1.0);
  const bool is_merged =
      options.merging == jacobian_merging::always ||
      (options.merging == jacobian_merging::automatic && detail::merging_pays(config, s * per_token));
  const auto first = static_cast<double>(std::max<std::int64_t>(options.from, 0));
  const double last = static_cast<double>(options.layers.empty() ? config.layers : options.layers.back());
  const double projection = 2 * d * (2 * static_cast<double>(config.query_width()) + v);
  const double attention = 4 * s * (static_cast<double>(config.query_width()) + v);
  const double rest = 2 * d * v + (is_merged ? 2 * d * d : 4 * d * hidden);
  const double layers = last - first;
  return tangents * s * (layers * rest + (layers - 1) * (projection + attention)) +
         (is_merged ? layers * s * 2 * d * d * hidden : 0);
}

}  // namespace nullscope
