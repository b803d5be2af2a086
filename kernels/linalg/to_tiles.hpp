/// Copies the factors of a product into the order in which a matrix engine reads them: tile after tile, each dense,
/// with zeros beyond the edges. The product itself then has no strides, transposes or edges of a and b to handle, and
/// rows that are a power of two apart do not compete for the same cache lines.
///
/// Both factors are (batch, outer, k) here: a as it is, b transposed. A panel is two tiles of `outer`; tile t of panel
/// p at step s of k starts at element ((p * steps + s) * 2 + t) * tile size, so that a panel is one stream along k.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// The order of the elements of a tile.
enum class tile_order {
  outer_k,  ///< [outer][k]: a, row-major
  k_outer,  ///< [k][outer]: b, row-major
  pairs,    ///< [k / 2][outer][2]: b as Intel's engines take it, two rows interleaved
};

/// A square of 32-bit words, each a pair of neighbours along k; one vector per row.
using tile_words = typename detail::lanes_of<std::uint32_t, 16>::type[16];

/// Exchanges the off-diagonal blocks of S x S words in all squares of 2 S x 2 S.
template <int S, class Words>
void exchange_blocks(Words& words) {
  const auto exchange = []<int... L>(auto& upper, auto& lower, std::integer_sequence<int, L...>) {
    const auto first = __builtin_shufflevector(upper, lower, ((L & S) ? 16 + L - S : L)...);
    lower = __builtin_shufflevector(upper, lower, ((L & S) ? 16 + L : L + S)...);
    upper = first;
  };
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    if ((i & S) == 0) exchange(words[i], words[i + S], std::make_integer_sequence<int, 16>{});
  }
}

template <class Words>
void transpose_words(Words& words) {
  exchange_blocks<1>(words);
  exchange_blocks<2>(words);
  exchange_blocks<4>(words);
  exchange_blocks<8>(words);
}

/// One factor, and how its tiles are distributed: one work-group copies one unit of panels x steps.
struct tile_operand {
  view<const bfloat16, 3> from;  // (batch, outer, k)
  bfloat16* to;
  std::int64_t panels, steps;  // of one matrix
  std::int64_t unit_panels, unit_steps;
  bool alternates = false;  // the two tiles of a panel hold its even and odd rows instead of its halves
  std::int64_t units() const { return from.extent[0] * panel_units() * step_units(); }
  std::int64_t panel_units() const { return (panels + unit_panels - 1) / unit_panels; }
  std::int64_t step_units() const { return (steps + unit_steps - 1) / unit_steps; }
};

/// Copies a (tiles of OuterA x K) and b (tiles of OuterB x K) in one launch, one work-group per unit, those of a first.
/// W = 16: one work-item, which moves whole tiles in vector registers where it can. W = 1: the work-items share the
/// elements of a tile.
template <int OuterA, tile_order OrderA, int OuterB, tile_order OrderB, int K, int W>
struct to_tiles {
  static constexpr const char* source = __FILE__;

  tile_operand a, b;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t unit = static_cast<std::int64_t>(item.get_group(0));
    if (unit < a.units()) {
      copy_unit<OuterA, OrderA>(item, a, unit);
    } else {
      copy_unit<OuterB, OrderB>(item, b, unit - a.units());
    }
  }

 private:
  template <int Outer, tile_order Order>
  static void copy_unit(sycl::nd_item<1> item, const tile_operand& x, std::int64_t unit) {
    const std::int64_t panel_unit = unit % x.panel_units(), rest = unit / x.panel_units();
    const std::int64_t step_unit = rest % x.step_units(), batch = rest / x.step_units();
    const std::int64_t first_panel = panel_unit * x.unit_panels, first_step = step_unit * x.unit_steps;
    const std::int64_t panels = smaller(x.unit_panels, x.panels - first_panel);
    const std::int64_t steps = smaller(x.unit_steps, x.steps - first_step);
    // memory is read front to back, as far as tiles allow
    const bool is_along_k = x.from.stride[2] == 1;
    const std::int64_t fast = is_along_k ? steps : panels;
    for (std::int64_t i = 0; i < panels * steps; ++i) {
      const std::int64_t panel = first_panel + (is_along_k ? i / fast : i % fast);
      const std::int64_t step = first_step + (is_along_k ? i % fast : i / fast);
      for (int t = 0; t < 2; ++t) copy_tile<Outer, Order>(item, x, batch, panel, step, t);
    }
  }

  template <int Outer, tile_order Order>
  static void copy_tile(sycl::nd_item<1> item, const tile_operand& x, std::int64_t batch, std::int64_t panel,
                        std::int64_t step, int t) {
    constexpr int size = Outer * K;
    const std::int64_t every = x.alternates ? 2 : 1;
    const std::int64_t outer = 2 * panel * Outer + (x.alternates ? t : t * Outer), k = step * K;
    const std::int64_t outer_left = (x.from.extent[1] - outer + every - 1) / every, k_left = x.from.extent[2] - k;
    const std::int64_t outer_stride = every * x.from.stride[1], k_stride = x.from.stride[2];
    const bfloat16* from = x.from.data + batch * x.from.stride[0] + outer * x.from.stride[1] + k * k_stride;
    bfloat16* to = x.to + ((batch * x.panels + panel) * x.steps + step) * 2 * size + t * size;
    if constexpr (W == 16 && Outer == 16 && K == 32 && Order != tile_order::k_outer) {
      if (outer_left >= Outer && k_left >= K && (outer_stride == 1 || k_stride == 1)) {
        return copy_whole<Order>(from, outer_stride, k_stride, to);
      }
    }
    for (int e = static_cast<int>(item.get_local_id(0)); e < size; e += static_cast<int>(item.get_local_range(0))) {
      const int i = Order == tile_order::outer_k ? e / K : Order == tile_order::k_outer ? e % Outer : e / 2 % Outer;
      const int j = Order == tile_order::outer_k   ? e % K
                    : Order == tile_order::k_outer ? e / Outer
                                                   : e / (2 * Outer) * 2 + e % 2;
      const bool is_inside = i < outer_left && j < k_left;
      to[e].bits = is_inside ? from[i * outer_stride + j * k_stride].bits : std::uint16_t(0);
    }
  }

  /// A tile of 16 x 32 without edges. Neighbours along k are loaded as words [outer][k / 2], neighbours along `outer`
  /// are interleaved into words [k / 2][outer]; if the order needs the other one, the words are transposed in
  /// registers.
  template <tile_order Order>
  static void copy_whole(const bfloat16* from, std::int64_t outer_stride, std::int64_t k_stride, bfloat16* to) {
    tile_words words;
    if (k_stride == 1) {
#pragma unroll
      for (int i = 0; i < 16; ++i) __builtin_memcpy(&words[i], from + i * outer_stride, sizeof(words[i]));
      if constexpr (Order == tile_order::pairs) transpose_words(words);
    } else {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        typename detail::lanes_of<std::uint16_t, 16>::type even, odd;
        __builtin_memcpy(&even, from + 2 * i * k_stride, sizeof(even));
        __builtin_memcpy(&odd, from + (2 * i + 1) * k_stride, sizeof(odd));
        using words_type = std::remove_reference_t<decltype(words[i])>;
        words[i] = __builtin_convertvector(even, words_type) | __builtin_convertvector(odd, words_type) << 16;
      }
      if constexpr (Order == tile_order::outer_k) transpose_words(words);
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) __builtin_memcpy(to + 32 * i, &words[i], sizeof(words[i]));
  }

  static std::int64_t smaller(std::int64_t x, std::int64_t y) { return x < y ? x : y; }
};

}  // namespace nullscope::kernels
