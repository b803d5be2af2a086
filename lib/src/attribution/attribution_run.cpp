#include "lib/src/attribution/attribution_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nullscope/attention/attention.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/qr.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/linalg/rows.hpp>
#include <numeric>

#include "lib/src/attribution/identity.hpp"
#include "lib/src/core/ranges.hpp"

namespace nullscope::detail {
namespace {

constexpr const char* name = "hidden_token_attribution";

attribution_options checked(const transformer_config& config, std::int64_t batch, bool is_float,
                            attribution_options options) {
  const auto fail = [](const std::string& what) { throw invalid_argument(fmt::format("{}: {}", name, what)); };
  if (config.layers < 1) fail("the model has no layers");
  if (options.from < -1 || options.from >= config.layers) {
    fail(fmt::format("from is {}; it must be -1 or a hidden state from 0 to {}", options.from, config.layers - 1));
  }
  const std::int64_t least = std::max<std::int64_t>(options.from, 0) + 1;
  if (options.layers.empty()) {
    for (std::int64_t l = least; l <= config.layers; ++l) options.layers.push_back(l);
  }
  std::int64_t previous = least - 1;
  for (const std::int64_t layer : options.layers) {
    if (layer <= previous || layer > config.layers) {
      fail(fmt::format("layers must be ascending, from {} to {}; got {}", least, config.layers, layer));
    }
    previous = layer;
  }
  if (options.samples < 0 || options.samples > config.width) {
    fail(fmt::format("samples is {}; it must be from 0, for all, to the width {}", options.samples, config.width));
  }
  if (options.norm == attribution_norm::spectral && options.samples != 0) {
    fail("the spectral norm cannot be estimated from samples");
  }
  if (options.numbers.empty()) {
    options.numbers.resize(static_cast<std::size_t>(batch));
    std::iota(options.numbers.begin(), options.numbers.end(), std::int64_t{0});
  }
  if (std::cmp_not_equal(options.numbers.size(), batch)) {
    fail(fmt::format("{} numbers for {} sequences", options.numbers.size(), batch));
  }
  if (options.rounded_products && !is_float) fail("rounded_products are for models of float");
  if (options.power_iterations < 1) fail("power_iterations must be positive");
  return options;
}

/// The table of relative positions (heads, 2 tokens - 1); empty if the model has none.
template <class T>
tensor<T> relative_table(context& ctx, const transformer<T>& model, std::int64_t tokens) {
  const transformer_config& config = model.config();
  if (config.relative_buckets == 0) return {};
  tensor<T> table(ctx, {config.heads, 2 * tokens - 1});
  relative_bias(ctx, model.matrix("relative_bias"), table, {config.relative_distance}).wait_and_throw();
  return table;
}

}  // namespace

bool merging_pays(const transformer_config& config, double tangents) {
  // Products per tangent and token: up and down, or one d x d matrix. Forming it takes down diag(slope) up, and
  // elementwise work.
  constexpr double overhead = 1.2;
  const double d = static_cast<double>(config.width), hidden = static_cast<double>(config.feed_forward);
  return tangents * (4 * d * hidden - 2 * d * d) > overhead * 2 * d * d * hidden;
}

template <class T>
attribution_run<T>::attribution_run(context& ctx, const transformer<T>& model, const token_batch& batch,
                                    const attribution_options& options, run_purpose purpose)
    : ctx_(ctx),
      model_(model),
      batch_(batch),
      options_(checked(model.config(), batch.size(), std::is_same_v<T, float>, options)),
      per_token_(options.samples == 0 ? model.config().width : options.samples),
      record_(ctx, model.config(), batch.size(), batch.tokens(), keep::backward),
      bias_(relative_table(ctx, model, batch.tokens())),
      layers_(ctx, model, batch, record_, bias_, options.rounded_products) {
  if (purpose == run_purpose::compute) forward(ctx, model, batch, {}, {.record = &record_}).wait_and_throw();
  draw_directions(purpose);
  choose_merging(purpose);
}

template <class T>
void attribution_run<T>::draw_directions(run_purpose purpose) {
  const std::int64_t d = model_.config().width, k = per_token_, b = batch_.size(), s = batch_.tokens();
  directions_ = options_.samples == 0 ? tensor<T>(ctx_, {1, 1, d, d}) : tensor<T>(ctx_, {b, s, k, d});
  if (purpose == run_purpose::plan) return;
  operation op(ctx_, name);
  if (options_.samples == 0) {
    copy(ctx_, view<const T, 2>(take_identity<T>(op, d)), view<T, 3>(contiguous(directions_.data(), d, d)));
  } else {
    const view<T, 3> normal = op.take_array<T>(b * s, k, d), r = op.take_array<T>(b * s, k, k);
    for (std::int64_t i = 0; i < b; ++i) {  // what a token gets does not depend on the padding
      fill_normal(ctx_, contiguous(normal.data + i * s * k * d, s * k * d),
                  {options_.seed, static_cast<std::uint64_t>(options_.numbers[static_cast<std::size_t>(i)])});
    }
    qr(ctx_, transposed(normal), {.q = transposed(contiguous(directions_.data(), b * s, k, d)), .r = r});
  }
  op.submit_and_wait();
}

template <class T>
void attribution_run<T>::choose_merging(run_purpose purpose) {
  const transformer_config& config = model_.config();
  if (options_.merging == jacobian_merging::never) return;
  if (options_.merging == jacobian_merging::automatic && !merging_pays(config, static_cast<double>(slots()))) return;
  const std::int64_t rows = batch_.size() * batch_.tokens(), d = config.width;
  const bool is_rounded = options_.rounded_products;
  const auto bytes = rows * d * d * static_cast<std::int64_t>(is_rounded ? sizeof(bfloat16) : sizeof(T));  // of a layer
  // Half of what is left is for tangents.
  const std::int64_t left = (options_.memory - record_.bytes()) / 2, first = std::max<std::int64_t>(options_.from, 0);
  std::int64_t count = options_.layers.back() - first;
  if (options_.merging == jacobian_merging::automatic) count = std::clamp<std::int64_t>(left / bytes, 0, count);
  if (count == 0) return;
  if (is_rounded) {
    rounded_jacobians_ = tensor<bfloat16>(ctx_, {count, rows, d, d});
  } else {
    jacobians_ = tensor<T>(ctx_, {count, rows, d, d});
  }
  std::vector<layer_jacobians<T>> views(static_cast<std::size_t>(config.layers));
  for (std::int64_t i = 0; i < count; ++i) {  // the last layers: all tangents are dense there
    layer_jacobians<T>& of_layer = views[static_cast<std::size_t>(options_.layers.back() - 1 - i)];
    const auto part = [&](auto& all) { return contiguous(all.data() + i * rows * d * d, rows, d, d); };
    if (is_rounded) {
      of_layer.rounded = part(rounded_jacobians_);
    } else {
      of_layer.values = part(jacobians_);
    }
  }
  if (purpose == run_purpose::plan) {
    required_workspace(ctx_, [&](context&) { layers_.merge(views); });  // it then knows of them, and computes nothing
    return;
  }
  layers_.merge(views);
  ctx_.queue().wait_and_throw();
}

template <class T>
entering_tangents<T> attribution_run<T>::take_entering(operation& op, std::int64_t first, std::int64_t count) {
  const std::int64_t b = batch_.size(), d = model_.config().width;
  entering_tangents<T> entering{op.take_array<T>(b, count, d), {}, nullptr};
  const auto tokens = std::make_shared<std::vector<std::int64_t>>();
  for (std::int64_t slot = first; slot < first + count;) {
    const std::int64_t token = slot / per_token_, direction = slot % per_token_;
    const std::int64_t part = std::min(per_token_ - direction, first + count - slot);
    entering.tokens.push_back({token, slot - first, part});
    tokens->insert(tokens->end(), static_cast<std::size_t>(part), token);
    const bool is_exact = options_.samples == 0;
    const view<const T, 3> from{directions_.data() + ((is_exact ? 0 : token * per_token_) + direction) * d,
                                {b, part, d},
                                {is_exact ? 0 : batch_.tokens() * per_token_ * d, d, 1}};
    copy(ctx_, from, slice(entering.tangents, 1, slot - first, part));
    slot += part;
  }
  std::int64_t* device = op.take<std::int64_t>(count);
  op.run([=](sycl::queue& queue, const events& dependencies) {
    sycl::event done = queue.copy(tokens->data(), device, tokens->size(), dependencies);
    done.wait();  // the numbers on the host go with this step
    return done;
  });
  entering.token_of_slot = device;
  return entering;
}

template <class T>
std::int64_t attribution_run<T>::bytes_of(std::int64_t slots) {
  const auto pipeline = [&](context&) { sweep(0, slots, [](auto&&...) {}); };
  // Beside the tangents: squared lengths, or the vectors of power iterations.
  const bool is_spectral = options_.norm == attribution_norm::spectral;
  const std::int64_t values = batch_.size() * batch_.tokens() * (is_spectral ? 4 * slots : slots);
  const std::int64_t numbers = directions_.size() + jacobians_.size() + bias_.size() + values;
  return required_workspace(ctx_, pipeline) + record_.bytes() + numbers * static_cast<std::int64_t>(sizeof(T)) +
         rounded_jacobians_.size() * static_cast<std::int64_t>(sizeof(bfloat16));
}

template <class T>
std::int64_t attribution_run<T>::slots_at_once(bool whole_tokens) {
  // More tangents at a time make no product faster; fewer leave more of them in the caches.
  constexpr std::int64_t enough_slots = 256, enough_elements = std::int64_t{1} << 22;
  const std::int64_t unit = whole_tokens ? per_token_ : 1;
  const std::int64_t elements = batch_.size() * batch_.tokens() * model_.config().width;  // of a slot
  const std::int64_t enough = std::max({per_token_, enough_slots, enough_elements / elements});
  const std::int64_t least = bytes_of(unit);
  if (least > options_.memory) {
    throw invalid_argument(fmt::format("{}: a budget of {} bytes is too small for {}; the least is {}", name,
                                       options_.memory,
                                       whole_tokens ? "the tangents of one token" : "one tangent per sequence", least));
  }
  std::int64_t low = 1, high = std::max<std::int64_t>(1, std::min(slots(), enough) / unit);
  while (low < high) {  // the most that fit
    const std::int64_t middle = (low + high + 1) / 2;
    if (bytes_of(middle * unit) <= options_.memory) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  // Equal parts, and whole tokens where there is room for one.
  std::int64_t most = low * unit;
  if (most >= per_token_) most = most / per_token_ * per_token_;
  const std::int64_t parts = ceil_div(slots(), most), even = ceil_div(slots(), parts);
  return most >= per_token_ ? std::min(most, ceil_div(even, per_token_) * per_token_) : even;
}

template class attribution_run<float>;
template class attribution_run<double>;

}  // namespace nullscope::detail
