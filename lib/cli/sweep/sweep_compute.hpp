/// Computes the units of a sweep on a device.
#pragma once

#include <memory>
#include <sycl/sycl.hpp>
#include <vector>

#include "lib/cli/sweep/sweep_rows.hpp"
#include "lib/cli/sweep/sweep_settings.hpp"
#include "lib/cli/sweep/sweep_texts.hpp"

namespace nullscope::cli {

class sweep_computer {
 public:
  virtual ~sweep_computer() = default;

  /// The rows of a unit: a function of the settings, the unit and the device alone.
  virtual std::vector<sweep_row> compute(const sweep_unit& unit) = 0;

  /// Bytes of device memory that the unit takes. Throws invalid_argument if one head alone is above the budget.
  virtual std::int64_t memory_of(const sweep_unit& unit) = 0;
};

/// `texts` are those of a sweep over a model, otherwise null; they are not used after this call.
std::unique_ptr<sweep_computer> make_sweep_computer(const sweep_settings& settings, const sweep_texts* texts,
                                                    const sycl::device& device);

}  // namespace nullscope::cli
