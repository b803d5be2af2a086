/// out = operation(x) and out = operation(x, y), element by element.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"
#include "kernels/simd/pack_gelu.hpp"

namespace nullscope::kernels {

// The operations: from packs to a pack.

struct identity {
  template <class Pack>
  Pack operator()(Pack x) const {
    return x;
  }
};

template <class T>
struct scale_by {
  T alpha;
  template <class Pack>
  Pack operator()(Pack x) const {
    return Pack(alpha) * x;
  }
};

template <class T>
struct apply_exp {
  exp_numbers<T> numbers;
  template <class Pack>
  Pack operator()(Pack x) const {
    return exp(x, numbers);
  }
};

struct apply_relu {
  template <class Pack>
  Pack operator()(Pack x) const {
    return max(Pack(0), x);  // in this order NaN stays NaN
  }
};

template <class T>
struct apply_gelu {
  gelu_numbers<T> numbers;
  template <class Pack>
  Pack operator()(Pack x) const {
    return gelu(x, numbers);
  }
};

template <class T>
struct apply_gelu_tanh {
  exp_of_nonpositive_numbers<T> numbers;
  template <class Pack>
  Pack operator()(Pack x) const {
    return gelu_tanh(x, numbers);
  }
};

template <class T>
struct weighted_sum {
  T alpha, beta;
  template <class Pack>
  Pack operator()(Pack x, Pack y) const {
    return fma(Pack(alpha), x, Pack(beta) * y);
  }
};

struct product {
  template <class Pack>
  Pack operator()(Pack x, Pack y) const {
    return x * y;
  }
};

/// How many packs an operation takes at a time on a CPU. Functions take one: their coefficients need all registers.
template <class Operation>
inline constexpr int packs_per_round = 4;
template <class T>
inline constexpr int packs_per_round<apply_exp<T>> = 1;
template <class T>
inline constexpr int packs_per_round<apply_gelu<T>> = 1;
template <class T>
inline constexpr int packs_per_round<apply_gelu_tanh<T>> = 1;

/// The part of a view (batch, rows, columns) that one work-group handles: `rows` rows by `columns` columns. Work-groups
/// are numbered along a row of tiles first.
struct tile_shape {
  std::int64_t rows, columns;
};

struct tile {
  row_range rows;
  std::int64_t first_column, columns;

  template <class View>
  tile(const View& x, tile_shape shape, std::int64_t group)
      : tile(x, shape, group, (x.extent[2] + shape.columns - 1) / shape.columns) {}

 private:
  template <class View>
  tile(const View& x, tile_shape shape, std::int64_t group, std::int64_t tiles_per_row)
      : rows(x, group / tiles_per_row, shape.rows),
        first_column(group % tiles_per_row * shape.columns),
        columns(sycl::min(shape.columns, x.extent[2] - first_column)) {}
};

/// How many elements ahead of its loads a streaming kernel prefetches, in each part of the row, with AVX-512. (With
/// packs of 256 bits prefetching is slower.)
template <class T>
inline constexpr std::int64_t fetched_ahead = 2048 / static_cast<std::int64_t>(sizeof(T));

/// out (batch, rows, columns) = operation(x), converted to the type of out. If Streams, out is written past the caches.
template <class Operation, class In, class Out, int W, int Items, bool Streams>
struct map_one {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int parts = sizeof(In) > sizeof(Out) ? places_written<In, W> : places_written<Out, W>;

  view<const In, 3> x;
  view<Out, 3> out;
  Operation operation;
  tile_shape shape;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    for (tile part(out, shape, members.number()); !part.rows.empty(); part.rows.advance(1)) {
      const auto from = row_of<W>(x, part.rows.current()).from(part.first_column);
      const auto to = row_of<W, Streams>(out, part.rows.current()).from(part.first_column);
      walk_in_parts<W, parts, W == 1 ? 4 : packs_per_round<Operation>>(
          members, part.columns, [&](std::int64_t c, auto lanes) {
            if constexpr (Streams && parts > 1) from.fetch(c, fetched_ahead<In>, lanes);
            to.store(c, convert<number_of<Out>>(operation(from.load(c, lanes))), lanes);
          });
    }
  }
};

/// out (batch, rows, columns) = operation(x, y).
template <class Operation, class T, int W, int Items, bool Streams>
struct map_two {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int parts = places_written<T, W>;

  view<const T, 3> x, y;
  view<T, 3> out;
  Operation operation;
  tile_shape shape;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    for (tile part(out, shape, members.number()); !part.rows.empty(); part.rows.advance(1)) {
      const auto from_x = row_of<W>(x, part.rows.current()).from(part.first_column);
      const auto from_y = row_of<W>(y, part.rows.current()).from(part.first_column);
      const auto to = row_of<W, Streams>(out, part.rows.current()).from(part.first_column);
      walk_in_parts<W, parts, 4>(members, part.columns, [&](std::int64_t c, auto lanes) {
        to.store(c, operation(from_x.load(c, lanes), from_y.load(c, lanes)), lanes);
      });
    }
  }
};

}  // namespace nullscope::kernels
