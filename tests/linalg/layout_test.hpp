/// Tests that run in several layouts, those of other devices too.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {

/// A test on every device whose context takes one layout after the other.
class layout_test : public device_test {
 protected:
  lane_layout vectors(std::int64_t bytes) const { return lane_layout::vectors(ctx_.device(), bytes); }

  /// Results of any size are written past the caches where that is possible.
  lane_layout streaming(std::int64_t bytes) const {
    lane_layout result = vectors(bytes);
    result.streams_from = 0;
    return result;
  }

  /// Groups of this size for rows of any length.
  lane_layout work_items(std::int64_t items) const {
    lane_layout result = lane_layout::work_items(ctx_.device(), items);
    result.short_row = 0;
    return result;
  }

  void use_layout(const lane_layout& layout) { ctx_ = context(queue_, layout); }

  /// Calls check() in each layout that this build has, then returns to the device's own.
  template <class Check>
  void with_layouts(std::initializer_list<lane_layout> layouts, Check check) {
    for (const lane_layout& layout : compiled(layouts)) {
      SCOPED_TRACE(name_of(layout));
      use_layout(layout);
      check();
    }
    use_layout(lane_layout::of(ctx_.device()));
  }
};

}  // namespace nullscope::test
