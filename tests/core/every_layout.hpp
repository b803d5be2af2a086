/// For operations that go row by row: the same check in vectors of both widths and in groups of work-items.
#pragma once

#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {

class every_layout_test : public device_test {
 protected:
  /// Calls check.operator()<T>(context) for float and double on every layout.
  template <class Check>
  void on_every_layout(Check check) {
    const device_properties& device = properties(GetParam());
    for (const lane_layout& layout : compiled({lane_layout::vectors(device, 64), lane_layout::vectors(device, 32),
                                               lane_layout::work_items(device, 32)})) {
      SCOPED_TRACE(name_of(layout));
      context ctx(queue_, layout);
      check.template operator()<float>(ctx);
      if (has_fp64()) check.template operator()<double>(ctx);
    }
  }
};

}  // namespace nullscope::test
