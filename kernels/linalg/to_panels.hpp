/// Copies matrices into panels of columns, in the order in which a matrix product reads them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/linalg/stage.hpp"

namespace nullscope::kernels {

/// x (batch, heads, rows, columns) with any strides -> panels (batch * heads, ceil(columns / PanelColumns), rows,
/// PanelColumns), with zeros beyond the last column. A work-group copies `rows_per_group` rows of one panel.
template <class In, class T, int W, int Items, int PanelColumns>
struct to_panels {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int rows_per_group = 256, panel_columns = PanelColumns;
  using number = T;

  view<const In, 4> x;
  T* panels;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    copy(item.get_group(0), static_cast<int>(item.get_local_id(0)));
  }

  std::int64_t panels_of_matrix() const { return (x.extent[3] + PanelColumns - 1) / PanelColumns; }
  std::int64_t chunks_of_panel() const { return (x.extent[2] + rows_per_group - 1) / rows_per_group; }
  std::int64_t groups_of_matrix() const { return panels_of_matrix() * chunks_of_panel(); }

  /// The part of work-group number `group`, for one of its work-items.
  void copy(std::int64_t group, int lane) const {
    const std::int64_t rows = x.extent[2], columns = x.extent[3];
    const std::int64_t panel_count = panels_of_matrix(), chunk_count = chunks_of_panel();
    const std::int64_t row0 = group % chunk_count * rows_per_group;
    const std::int64_t panel = group / chunk_count % panel_count;
    const std::int64_t matrix = group / chunk_count / panel_count;
    const std::int64_t column0 = panel * PanelColumns;
    const In* data = x.data + matrix / x.extent[1] * x.stride[0] + matrix % x.extent[1] * x.stride[1] +
                     row0 * x.stride[2] + column0 * x.stride[3];
    const int count = static_cast<int>(std::min<std::int64_t>(rows_per_group, rows - row0));
    T* to = panels + ((matrix * panel_count + panel) * rows + row0) * PanelColumns;
    stage<W, Items, 1>(block<In>{data, x.stride[2], x.stride[3], count, columns - column0}, count, PanelColumns, to,
                       PanelColumns, lane, 0);
  }
};

}  // namespace nullscope::kernels
