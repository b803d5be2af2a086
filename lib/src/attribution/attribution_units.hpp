/// Attribution of many texts: units of texts that are computed together, and results as text for a journal or another
/// process.
#pragma once

#include <cstdint>
#include <functional>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope {

/// Texts that are computed together: places in the list.
using attribution_unit = std::vector<std::size_t>;

/// tokens[i] is the number of tokens of text i. The units depend on them and on the tangents per token alone: short
/// texts share the device, long ones are alone.
std::vector<attribution_unit> attribution_units(std::span<const std::int64_t> tokens, std::int64_t tangents_per_token);

/// Computes units. Context, model and texts must outlive it.
template <class T>
class attribution_computer {
 public:
  attribution_computer(context& ctx, const transformer<T>& model, std::span<const token_batch::sequence> texts,
                       const attribution_options& options)
      : ctx_(ctx), model_(model), texts_(texts), options_(options) {}

  /// Of the texts of the unit, in its order. Random tangents are numbered by text: they do not depend on who shares the
  /// unit. Calls progress with the share of the unit that is complete.
  std::vector<attribution> compute(const attribution_unit& unit, const std::function<void(double)>& progress);

  /// Throws invalid_argument if the memory is too small for one of the units: for the one with the most tokens.
  void check(std::span<const attribution_unit> units);

  /// Flops per second of a product of the size that attribution has: measured, which takes 50 ms.
  double rate();

 private:
  token_batch batch_of(const attribution_unit& unit);
  template <class In>
  double rate_of();

  context& ctx_;
  const transformer<T>& model_;
  std::span<const token_batch::sequence> texts_;
  attribution_options options_;
};

/// The numbers of an attribution in single precision, as a line of text, and back.
void append_attribution(std::string& text, const attribution& of);
attribution decode_attribution(std::string_view text, std::int64_t tokens, const std::vector<std::int64_t>& layers);

}  // namespace nullscope
