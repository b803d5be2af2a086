/// Computes the attribution of units of texts on the device of this process.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "lib/cli/hta/hta_texts.hpp"

namespace nullscope::cli {

template <class T>
class hta_computer {
 public:
  hta_computer(const text_source& source, const std::vector<input_text>& texts, const attribution_options& options,
               const sycl::device& device)
      : texts_(texts), options_(options), ctx_(device), model_(load_transformer<T>(ctx_, source.folder())) {}

  /// One line per text. Random tangents are numbered by text: they do not depend on who shares the unit. Calls progress
  /// with the share of the unit that is complete.
  std::string compute(const hta_unit& unit, const std::function<void(double)>& progress) {
    attribution_options options = options_;
    options.progress = progress;
    for (const std::size_t i : unit) options.numbers.push_back(static_cast<std::int64_t>(i));
    const token_batch batch = batch_of(unit);
    std::vector<attribution> all = hidden_token_attribution(ctx_, model_, batch, options);
    constexpr std::size_t large = 1 << 22;  // numbers: beside those of a long text there is no room for the workspace
    if (all.front().norm.size() > large) ctx_.release_workspace();
    std::string result;
    for (attribution& of : all) {
      append_attribution(result, of);
      of = {};
    }
    return result;
  }

  /// Throws invalid_argument if the memory is too small for one of the units: for the one with the most tokens.
  void check(const std::vector<hta_unit>& units) {
    using shape = std::tuple<std::size_t, std::size_t>;  // tokens with padding, texts
    std::map<shape, const hta_unit*, std::greater<>> shapes;
    for (const hta_unit& unit : units) {
      shapes.try_emplace({unit.size() * texts_[unit.back()].tokens.ids.size(), unit.size()}, &unit);
    }
    for (const auto& [shape, unit] : shapes) check_attribution(ctx_, model_, batch_of(*unit), options_);
  }

  /// Flops per second of a product of the size that attribution has.
  double rate() { return options_.rounded_products ? rate_of<bfloat16>() : rate_of<T>(); }

 private:
  token_batch batch_of(const hta_unit& unit) {
    std::vector<token_batch::sequence> sequences;
    for (const std::size_t i : unit) sequences.push_back(texts_[i].sequence(model_.config()));
    return token_batch(ctx_, model_.config(), sequences);
  }

  template <class In>
  double rate_of() {
    constexpr std::int64_t side = 1024;
    const std::int64_t d = model_.config().width;
    tensor<In> a(ctx_, {side, d}), b(ctx_, {d, side});
    for (tensor<In>* x : {&a, &b}) x->copy_from(std::vector<In>(static_cast<std::size_t>(x->size()), In(1.0f)));
    using clock = std::chrono::steady_clock;
    using seconds = std::chrono::duration<double>;
    matrix_product(ctx_, a, b);
    seconds best = seconds::max();
    for (const auto start = clock::now(); clock::now() - start < std::chrono::milliseconds(50);) {
      const auto before = clock::now();
      matrix_product(ctx_, a, b);
      best = std::min<seconds>(best, clock::now() - before);
    }
    return 2.0 * side * side * static_cast<double>(d) / best.count();
  }

  const std::vector<input_text>& texts_;
  const attribution_options& options_;
  context ctx_;
  transformer<T> model_;
};

}  // namespace nullscope::cli
