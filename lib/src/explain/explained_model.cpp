#include <nullscope/explain/explanations.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/tensor.hpp>
#include <numeric>
#include <type_traits>

#include "kernels/explain/gradient_path.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

template <class T>
std::vector<double> logits_of(context& ctx, const transformer<T>& model, const explained_options& options,
                              std::span<const token_sequence> sequences) {
  const auto classes = static_cast<std::size_t>(model.config().classes);
  std::vector<std::size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return sequences[i].size(); });
  std::vector<double> result(sequences.size() * classes);
  for (std::size_t first = 0; first < order.size();) {
    std::vector<token_batch::sequence> part;
    std::size_t last = first;
    while (last < order.size() &&
           (last == first ||
            static_cast<std::int64_t>((last + 1 - first) * sequences[order[last]].size()) <= options.batch_tokens)) {
      part.push_back({sequences[order[last++]]});
    }
    const token_batch batch(ctx, model.config(), part);
    tensor<T> logits(ctx, {batch.size(), model.config().classes});
    forward(ctx, model, batch, {.logits = logits}).wait_and_throw();
    const std::vector<T> numbers = logits.to_host();
    for (std::size_t i = first; i < last; ++i) {
      std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>((i - first) * classes), classes,
                  result.begin() + static_cast<std::ptrdiff_t>(order[i] * classes));
    }
    first = last;
  }
  return result;
}

/// The embeddings of the tokens alone, without positions and segments: (S, d).
template <class T>
tensor<T> token_embeddings(context& ctx, const transformer<T>& model, const token_sequence& ids) {
  const view<const T, 2> table = model.matrix("embedding.token");
  const std::int64_t width = model.config().width;
  tensor<T> result(ctx, {static_cast<std::int64_t>(ids.size()), width});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ctx.queue().copy(table.data + ids[i] * table.stride[0], result.data() + static_cast<std::int64_t>(i) * width,
                     static_cast<std::size_t>(width));
  }
  ctx.queue().wait_and_throw();
  return result;
}

template <class T>
gradient_answer gradients_of(context& ctx, const transformer<T>& model, const explained_options& options,
                             const gradient_request& request) {
  const transformer_config& config = model.config();
  const auto tokens = static_cast<std::int64_t>(request.ids.size()), width = config.width;
  if (request.baseline.size() != request.ids.size() ||
      static_cast<std::int64_t>(request.d_logits.size()) != config.classes) {
    throw invalid_argument(fmt::format("gradients: a baseline of {} tokens for {}, and {} classes of {}",
                                       request.baseline.size(), tokens, request.d_logits.size(), config.classes));
  }
  const std::vector<token_batch::sequence> ends{{request.ids}, {request.baseline}};
  const token_batch both(ctx, config, ends);  // checks the ids
  tensor<T> embedded(ctx, {2, tokens, width});
  forward(ctx, model, both, {.embedded = embedded}).wait_and_throw();
  const view<const T, 2> input = select(view<const T, 3>(embedded), 0, 0);
  const view<const T, 2> baseline = select(view<const T, 3>(embedded), 0, 1);
  const tensor<T> embeddings = token_embeddings(ctx, model, request.ids);

  gradient_answer answer;
  const auto points = static_cast<std::int64_t>(request.shares.size());
  const std::int64_t at_once =
      std::clamp<std::int64_t>(options.batch_tokens / tokens, 1, std::max<std::int64_t>(points, 1));
  forward_record<T> record(ctx, config, at_once, tokens, keep::pooled_backward);
  tensor<T> inputs(ctx, {at_once, tokens, width}), gradients(ctx, {at_once, tokens, width});
  tensor<T> figures(ctx, {at_once, tokens, 3}), logits(ctx, {at_once, config.classes});
  for (std::int64_t first = 0; first < points; first += at_once) {
    const std::int64_t count = std::min(at_once, points - first);
    const std::vector<token_batch::sequence> copies(static_cast<std::size_t>(count), {request.ids});
    const token_batch batch(ctx, config, copies);
    std::vector<T> shares, slopes;
    for (std::int64_t p = first; p < first + count; ++p) {
      shares.push_back(static_cast<T>(request.shares[static_cast<std::size_t>(p)]));
      for (const double d : request.d_logits) slopes.push_back(static_cast<T>(d));
    }
    const tensor<T> on_device(ctx, {count}, shares), d_logits(ctx, {count, config.classes}, slopes);
    const view<T, 3> here = slice(view<T, 3>(inputs), 0, 0, count), there = slice(view<T, 3>(gradients), 0, 0, count);
    const view<T, 3> sums = slice(view<T, 3>(figures), 0, 0, count);
    const detail::row_shape shape = detail::choose_row_shape(ctx.layout(), width, true);
    forward_options<T> pass;
    pass.record = &record;
    pass.inputs = here;
    operation op(ctx, "gradients");
    detail::dispatch_rows<T>(shape, [&]<int W, int Items>() {
      detail::launch_groups<Items>(op, count * tokens,
                                   kernels::path_points<T, W, Items>{input, baseline, on_device, here});
    });
    forward(ctx, model, batch, {.logits = slice(view<T, 2>(logits), 0, 0, count)}, pass);
    backward(ctx, model, batch, {.d_logits = d_logits}, {.d_inputs = there}, pass);
    detail::dispatch_rows<T>(shape, [&]<int W, int Items>() {
      detail::launch_groups<Items>(op, count * tokens,
                                   kernels::gradient_figures<T, W, Items>{there, embeddings, input, baseline, sums});
    });
    op.submit_and_wait();
    const std::vector<T> numbers = figures.to_host();
    for (std::size_t i = 0; i < static_cast<std::size_t>(count * tokens); ++i) {
      answer.norm.push_back(static_cast<double>(numbers[3 * i]));
      answer.along_token.push_back(static_cast<double>(numbers[3 * i + 1]));
      answer.along_path.push_back(static_cast<double>(numbers[3 * i + 2]));
    }
  }
  return answer;
}

template <class T>
explained_model explained(context& ctx, const transformer<T>& model, const explained_options& options) {
  if (model.config().classes < 1 || model.config().pairs) {
    throw invalid_argument(model.config().pairs
                               ? "explained_transformer: the model reads pairs of sequences; only one can be explained"
                               : "explained_transformer: the model has no classifier");
  }
  explained_model result;
  result.classes = model.config().classes;
  result.logits = [&ctx, &model, options](std::span<const token_sequence> sequences) {
    return logits_of(ctx, model, options, sequences);
  };
  result.gradients = [&ctx, &model, options](const gradient_request& request) {
    return gradients_of(ctx, model, options, request);
  };
  result.noise = std::is_same_v<T, float> ? 1e-5 : 1e-11;
  return result;
}

}  // namespace

explained_model explained_transformer(context& ctx, const transformer<float>& model, const explained_options& options) {
  return explained(ctx, model, options);
}
explained_model explained_transformer(context& ctx, const transformer<double>& model,
                                      const explained_options& options) {
  return explained(ctx, model, options);
}

double score_of_class(std::span<const double> logits, std::int64_t of_class) {
  const auto c = static_cast<std::size_t>(of_class);
  if (logits.size() == 1) return logits[0];
  if (logits.size() == 2) return logits[c] - logits[1 - c];
  return logits[c] - std::accumulate(logits.begin(), logits.end(), 0.0) / static_cast<double>(logits.size());
}

std::int64_t predicted_class(std::span<const double> logits) {
  return logits.size() == 1 ? 0 : std::ranges::max_element(logits) - logits.begin();
}

double probability_of_class(std::span<const double> logits, std::int64_t of_class) {
  if (logits.size() == 1) return 1 / (1 + std::exp(-logits[0]));
  double total = 0;
  for (const double logit : logits) total += std::exp(logit - logits[static_cast<std::size_t>(of_class)]);
  return 1 / total;
}

}  // namespace nullscope
