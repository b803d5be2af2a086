/// Computes the attribution of units of texts on a device of this process.
#pragma once

#include <functional>
#include <nullscope/model/model_folder.hpp>
#include <string>
#include <vector>

#include "lib/cli/common/text_input.hpp"
#include "lib/src/attribution/attribution_units.hpp"

namespace nullscope::cli {

template <class T>
class hta_computer {
 public:
  hta_computer(const text_source& source, std::span<const token_batch::sequence> texts,
               const attribution_options& options, const sycl::device& device)
      : ctx_(device), model_(load_transformer<T>(ctx_, source.folder())), computer_(ctx_, model_, texts, options) {}
  hta_computer(const hta_computer&) = delete;  // computer_ refers to ctx_ and model_
  hta_computer& operator=(const hta_computer&) = delete;

  /// One line per text.
  std::string compute(const attribution_unit& unit, const std::function<void(double)>& progress) {
    std::vector<attribution> all = computer_.compute(unit, progress);
    std::string result;
    for (attribution& of : all) {
      append_attribution(result, of);
      of = {};  // a long text leaves no room for both
    }
    return result;
  }

  void check(std::span<const attribution_unit> units) { computer_.check(units); }
  double rate() { return computer_.rate(); }

 private:
  context ctx_;
  transformer<T> model_;
  attribution_computer<T> computer_;
};

}  // namespace nullscope::cli
