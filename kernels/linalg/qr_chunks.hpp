/// Householder QR of chunks of rows, one work-group per chunk: the leaves and the inner nodes of a TSQR tree.
///
/// A chunk of m rows (m >= n, or the whole matrix) is a chain of eliminations. Its first k = min(m, n) rows are
/// factored in place and become R; then come blocks of rows, small enough to stay in the first-level cache: [R; block]
/// -> [R'; 0]. R is triangular, so the chain has no more flops than Householder on the whole chunk, 2 m n^2. Forming Q
/// costs the same: it starts as the k x k identity (or as the chunk's rows of the parent's Q), and the reflectors are
/// applied in reverse, block by block.
///
/// Columns are scaled to about 1 by powers of two when they are loaded, and R is scaled back when it is stored, so that
/// squares of entries near 1e30 or 1e-30 are safe. A column that is zero or depends on the others does not harm the
/// orthogonality of Q.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/group/sub_group_size.hpp"
#include "kernels/linalg/qr_reflect.hpp"
#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// How the memory of a chunk is laid out, in elements; the host sizes it, the kernel uses it.
template <int W>
struct qr_layout {
  std::int64_t columns;     // n
  std::int64_t steps;       // k = min(m, n): how many reflectors a block has
  std::int64_t chunk_rows;  // the largest chunk
  std::int64_t block_rows;  // a multiple of W; 0 if there are no rows after the first k
  bool uses_local_memory;   // otherwise the work space is part of the slot

  static constexpr std::int64_t padded(std::int64_t count) { return (count + W - 1) / W * W; }
  constexpr std::int64_t stride() const { return padded(columns); }
  constexpr std::int64_t blocks(std::int64_t rows) const {
    return block_rows > 0 ? (rows - steps + block_rows - 1) / block_rows : 0;
  }

  // A slot of the workspace: the head rows, tau, the reflectors of the head rows, those of the blocks, the work space.
  constexpr std::int64_t taus() const { return steps * stride(); }
  constexpr std::int64_t head_reflectors() const { return taus() + padded((1 + blocks(chunk_rows)) * steps); }
  constexpr std::int64_t block_reflectors() const { return head_reflectors() + steps * padded(steps); }
  constexpr std::int64_t work(bool keeps_reflectors) const {
    return keeps_reflectors ? block_reflectors() + blocks(chunk_rows) * steps * block_rows : head_reflectors();
  }
  constexpr std::int64_t slot(bool keeps_reflectors) const {
    return (work(keeps_reflectors) + (uses_local_memory ? 0 : local()) + 15) / 16 * 16;
  }

  // The work space, local memory if it fits: a block, v and x, w and g, the scale, the mask.
  constexpr std::int64_t vector_rows() const { return padded(steps > block_rows ? steps : block_rows); }
  constexpr std::int64_t local() const { return block_rows * stride() + 2 * vector_rows() + 3 * stride() + 2 * W; }
};

/// a (B,m,n) -> r (B,chunks*k,n) and q (B,m,k). One launch does both if each matrix is one chunk; otherwise `factors`
/// comes first, then the QR of the stacked r with Q in `parent` (B,chunks*k,k), then `forms`.
template <class T, int W>
struct qr_chunks {
  static constexpr const char* source = __FILE__;
  static constexpr int sub_group_size = W > 1 ? 0 : narrow_sub_group;

  view<const T, 3> a;
  view<T, 3> q, r;
  view<const T, 3> parent;  // null: the identity
  T* slots;
  qr_layout<W> layout;
  std::int64_t chunks, tasks;  // per matrix; in the batch
  bool factors, forms;
  bool keeps_reflectors;  // Q is wanted
  bool slot_per_task;     // otherwise one slot per work-group, which its tasks use one after the other

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const std::int64_t group = static_cast<std::int64_t>(item.get_group(0));
    const std::int64_t groups = static_cast<std::int64_t>(item.get_group_range(0));
    for (std::int64_t task = group; task < tasks; task += groups) {
      const std::int64_t matrix = task / chunks, chunk = task % chunks;
      const std::int64_t rows = a.extent[1] / chunks + (chunk < a.extent[1] % chunks ? 1 : 0);
      const std::int64_t begin =
          chunk * (a.extent[1] / chunks) + (chunk < a.extent[1] % chunks ? chunk : a.extent[1] % chunks);
      T* slot = slots + (slot_per_task ? task : group) * layout.slot(keeps_reflectors);
      T* block = layout.uses_local_memory ? reinterpret_cast<T*>(local) : slot + layout.work(keeps_reflectors);
      T* scale = block + layout.local() - 2 * W - layout.stride();
      const reflectors of_chunk = make_reflectors(item, block);
      if (factors) factor_chunk(of_chunk, slice(a, 1, begin, rows), matrix, chunk, slot, block, scale);
      if (forms) form_chunk(of_chunk, slice(q, 1, begin, rows), matrix, chunk, slot, block);
      of_chunk.members.barrier();
    }
  }

 private:
  using reflectors = qr_reflectors<T, W>;

  reflectors make_reflectors(const sycl::nd_item<1>& item, T* work) const {
    const typename reflectors::items members(item);
    T* const v = work + layout.block_rows * layout.stride();
    T* const x = v + layout.vector_rows();
    T* const w = x + layout.vector_rows();
    T* const mask = work + layout.local() - 2 * W;
    for (std::int64_t i = members.rank(); i < 2 * W; i += members.size()) mask[i] = i < W ? T(0) : T(1);
    return {members, v, x, w, w + layout.stride(), mask};
  }

  /// Rows of a chunk that are eliminated together, and where their reflectors are kept.
  struct part {
    bool is_head;  // the first rows, which become R; otherwise a block
    std::int64_t row, count, reflector_stride;
    T *reflectors, *taus;
  };

  /// Part 0 is the head; the blocks follow.
  part part_of(std::int64_t index, std::int64_t rows, T* slot) const {
    const std::int64_t steps = layout.steps, block = layout.block_rows;
    T* taus = slot + layout.taus() + index * steps;
    if (index == 0) return {true, 0, steps, layout.padded(steps), slot + layout.head_reflectors(), taus};
    const std::int64_t row = steps + (index - 1) * block;
    T* reflectors = slot + layout.block_reflectors() + (index - 1) * steps * block;
    return {false, row, rows - row < block ? rows - row : block, block, reflectors, taus};
  }

  void factor_chunk(const reflectors& of_chunk, view<const T, 3> from, std::int64_t matrix, std::int64_t chunk, T* slot,
                    T* block, T* scale) const {
    const std::int64_t steps = layout.steps, stride = layout.stride(), rows = from.extent[1];
    find_scale(of_chunk, from, matrix, scale);
    for (std::int64_t index = 0; index <= layout.blocks(rows); ++index) {
      const part p = part_of(index, rows, slot);
      load_rows(of_chunk, from, matrix, p.row, p.count, scale, p.is_head ? slot : block);
      of_chunk.members.barrier();
      of_chunk.factor(slot, stride, steps, p.is_head ? nullptr : block, p.count,
                      keeps_reflectors ? p.reflectors : nullptr, p.reflector_stride, p.taus);
    }
    for (std::int64_t j = 0; j < steps; ++j) {
      for (std::int64_t column = of_chunk.members.rank(); column < layout.columns; column += of_chunk.members.size()) {
        r(matrix, chunk * steps + j, column) = column < j ? T(0) : slot[j * stride + column] / scale[column];
      }
    }
    of_chunk.members.barrier();
  }

  void form_chunk(const reflectors& of_chunk, view<T, 3> to, std::int64_t matrix, std::int64_t chunk, T* slot,
                  T* block) const {
    const std::int64_t steps = layout.steps, stride = layout.padded(steps), rows = to.extent[1];
    const bool is_root = parent.data == nullptr;
    for (std::int64_t j = 0; j < steps; ++j) {
      for (std::int64_t column = of_chunk.members.rank(); column < stride; column += of_chunk.members.size()) {
        T start = column == j ? T(1) : T(0);
        if (!is_root) start = column < steps ? parent(matrix, chunk * steps + j, column) : T(0);
        slot[j * stride + column] = start;
      }
    }
    for (std::int64_t index = layout.blocks(rows); index >= 0; --index) {
      const part p = part_of(index, rows, slot);
      for (std::int64_t i = 0; i < (p.is_head ? 0 : p.count); ++i) {
        of_chunk.for_owned(0, stride,
                           [&](std::int64_t column) { store(block + i * stride + column, pack<T, W>(T(0))); });
      }
      of_chunk.apply(slot, stride, steps, p.is_head ? nullptr : block, p.count, p.reflectors, p.reflector_stride,
                     p.taus, is_root);
      store_rows(of_chunk, p.is_head ? slot : block, to, matrix, p.row, p.count);
    }
  }

  /// scale[c] = a power of two that brings the largest entry of column c into [1, 2); 1 for zero columns. Several packs
  /// at a time, so that memory is read in the order of its rows.
  void find_scale(const reflectors& of_chunk, const view<const T, 3>& from, std::int64_t matrix, T* scale) const {
    constexpr int tile = W == 1 ? 1 : reflectors::tile_packs;
    std::int64_t column = 0;
    for (; column + tile * W <= layout.stride(); column += tile * W)
      find_scale_of<tile>(of_chunk, from, matrix, column, scale);
    for (; column < layout.stride(); column += W) find_scale_of<1>(of_chunk, from, matrix, column, scale);
  }

  template <int Packs>
  void find_scale_of(const reflectors& of_chunk, const view<const T, 3>& from, std::int64_t matrix, std::int64_t column,
                     T* scale) const {
    if (!of_chunk.owns(column)) return;
    pack<T, W> largest_of[Packs];
    for (int p = 0; p < Packs; ++p) largest_of[p] = pack<T, W>(T(0));
    for (std::int64_t i = 0; i < from.extent[1]; ++i) {
      for (int p = 0; p < Packs; ++p) {
        largest_of[p] = max(largest_of[p], abs(load_columns(from, matrix, i, column + p * W)));
      }
    }
    for (int p = 0; p < Packs; ++p) {
      for (int lane = 0; lane < W; ++lane) scale[column + p * W + lane] = to_about_one(largest_of[p][lane]);
    }
  }

  static T to_about_one(T x) {
    using integer = detail::integer_of<T>;
    constexpr int digits = std::numeric_limits<T>::digits - 1;
    constexpr integer specials =
        2 * std::numeric_limits<T>::max_exponent - 1;  // the exponent field of infinity and NaN
    const integer exponent = (std::bit_cast<integer>(x) >> digits) & specials;
    if (x == 0 || exponent == specials) return 1;
    const integer inverse = specials - 1 - exponent;
    const integer largest_of = specials - 2;  // so that the reciprocal is a normal number too
    return std::bit_cast<T>((inverse < 1 ? 1 : inverse > largest_of ? largest_of : inverse) << digits);
  }

  /// W columns of a row; zero beyond the last column.
  pack<T, W> load_columns(const view<const T, 3>& from, std::int64_t matrix, std::int64_t row,
                          std::int64_t column) const {
    const T* first = from.data + matrix * from.stride[0] + row * from.stride[1] + column * from.stride[2];
    const std::int64_t count = layout.columns - column;
    if (from.stride[2] == 1) return count >= W ? load<W>(first) : load_tail<W>(first, count, T(0));
    pack<T, W> result(T(0));
    for (int lane = 0; lane < W; ++lane) {
      if (lane < count) result.set(lane, first[lane * from.stride[2]]);
    }
    return result;
  }

  /// to (count, stride) = rows [row, row + count) of the matrix, scaled.
  void load_rows(const reflectors& of_chunk, const view<const T, 3>& from, std::int64_t matrix, std::int64_t row,
                 std::int64_t count, const T* scale, T* to) const {
    const std::int64_t stride = layout.stride();
    for (std::int64_t i = 0; i < count; ++i) {
      of_chunk.for_owned(0, stride, [&](std::int64_t column) {
        store(to + i * stride + column, load_columns(from, matrix, row + i, column) * load<W>(scale + column));
      });
    }
  }

  /// Rows [row, row + count) of q = from (count, stride).
  void store_rows(const reflectors& of_chunk, const T* from, const view<T, 3>& to, std::int64_t matrix,
                  std::int64_t row, std::int64_t count) const {
    const std::int64_t stride = layout.padded(layout.steps);
    for (std::int64_t i = 0; i < count; ++i) {
      of_chunk.for_owned(0, stride, [&](std::int64_t column) {
        const std::int64_t lanes = layout.steps - column < W ? layout.steps - column : W;
        T* first = &to(matrix, row + i, column);
        const pack<T, W> x = load<W>(from + i * stride + column);
        if (lanes == W && to.stride[2] == 1) {
          store(first, x);
        } else {
          for (int lane = 0; lane < W; ++lane) {
            if (lane < lanes) first[lane * to.stride[2]] = x[lane];
          }
        }
      });
    }
  }
};

}  // namespace nullscope::kernels
