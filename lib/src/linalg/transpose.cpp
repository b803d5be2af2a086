#include "lib/src/linalg/transpose.hpp"

#include <algorithm>
#include <nullscope/core/bfloat16.hpp>

#include "kernels/linalg/transpose.hpp"
#include "kernels/linalg/transpose_strips.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope::detail {
namespace {

/// Halves `width`, down to `least`, until `groups()` of that width keep all compute units busy.
template <class Groups>
void narrow(const context& ctx, std::int64_t& width, std::int64_t least, Groups groups) {
  const std::int64_t enough = 4 * ctx.device().compute_units;
  while (groups() < enough && width > least) width /= 2;
}

template <class T>
using strips_kernel = kernels::transpose_strips<T, 32 / sizeof(T)>;

/// For elements of up to four bytes, where the rows of out begin at cache lines. (For double, whole blocks are faster.)
template <class T>
void launch_strips(operation& op, const view<const T, 3>& x, const view<T, 3>& out) {
  using kernel_type = strips_kernel<T>;
  kernel_type kernel{x, out, 64 * kernel_type::tile_columns};
  narrow(op.ctx(), kernel.strip_columns, kernel_type::tile_columns, [&] { return kernel.strips(); });
  op.launch(groups_of(kernel.strips(), 1), kernel_type::local_bytes, kernel);
}

template <int W, int Items, bool Streams, class T>
void launch_tiles(operation& op, const view<const T, 3>& x, const view<T, 3>& out) {
  using kernel_type = kernels::transpose_tiles<T, W, Items, Streams>;
  kernel_type kernel{x, out, kernel_type::local_side, kernel_type::local_side};
  const auto groups = [&] { return x.extent[0] * kernel.tiles_down() * kernel.tiles_across(); };
  if constexpr (W > 1) {
    constexpr std::int64_t large_tiles_from = 64 << 20;  // bytes
    kernel.tile_rows = Streams && streamable_bytes(out) >= large_tiles_from ? 512 : 128;
    kernel.tile_columns = 512;
    narrow(op.ctx(), kernel.tile_columns, 64, groups);
  }
  op.launch(groups_of(groups(), Items), kernel_type::local_bytes, kernel);
}

/// In blocks of W x W elements in registers, which can be written past the caches if they are as wide as a cache line.
template <int W, class T>
void launch_blocks(operation& op, const view<const T, 3>& x, const view<T, 3>& out, bool streams) {
  if constexpr (W * sizeof(T) == 64) {
    if (streams) return launch_tiles<W, 1, true>(op, x, out);
  }
  launch_tiles<W, 1, false>(op, x, out);
}

}  // namespace

template <class T>
void transpose_dense(operation& op, const view<const T, 3>& x, const view<T, 3>& out) {
  // Ordinary stores that jump from page to page are so slow that it pays sooner to go past the caches.
  constexpr std::int64_t eagerness = 4;
  const lane_layout& layout = op.ctx().layout();
  dispatch_vectors(layout.long_vector_bytes, [&]<int Bytes>() {
    if constexpr (Bytes == 0) {
      launch_tiles<1, 256, false>(op, x, out);
    } else {
      const row_shape shape = choose_row_shape(layout, out.extent[2], true, streamable_bytes(out), eagerness);
      if constexpr (sizeof(T) < 8) {
        const bool fits = static_cast<std::int64_t>(strips_kernel<T>::local_bytes) <= layout.local_bytes;
        if (shape.streams && shape.vector_bytes == 32 && fits) return launch_strips(op, x, out);
      }
      constexpr int lanes = std::min(16, Bytes / static_cast<int>(sizeof(T)));  // more would not fit the registers
      launch_blocks<lanes>(op, x, out, shape.streams);
    }
  });
}

template void transpose_dense(operation&, const view<const float, 3>&, const view<float, 3>&);
template void transpose_dense(operation&, const view<const double, 3>&, const view<double, 3>&);
template void transpose_dense(operation&, const view<const bfloat16, 3>&, const view<bfloat16, 3>&);

}  // namespace nullscope::detail
