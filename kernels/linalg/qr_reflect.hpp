/// Householder reflectors over rows that lie in row-major memory, the lanes along the columns.
///
/// A reflector is I - tau (1; v) (1; v)^T on a head row and `count` rows below it. Applying it to a row needs nothing
/// from other lanes. Each sweep also computes the inner products for the next reflector, so that a reflector costs one
/// pass (a load, two fma and a store per pack) instead of two.
#pragma once

#include <cstdint>
#include <sycl/sycl.hpp>

#include "kernels/group/group.hpp"
#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// The reflectors of one chunk of rows, which a work-group applies together. W > 1: it is one work-item, which owns all
/// columns. W = 1: column c belongs to work-item c modulo their number.
template <class T, int W>
struct qr_reflectors {
  static constexpr int tile_packs = 4;
  using items = group<(W > 1 ? 1 : whole_work_group)>;

  items members;
  T* v;           // (rows) the current reflector
  T* x;           // (rows) the column that the next reflector eliminates, while factoring
  T* w;           // (columns) minus the row vector that the reflector subtracts
  T* g;           // (columns) inner products for the next reflector
  const T* mask;  // W zeros, then W ones

  /// Calls body(i) for the indices that this work-item owns, of [begin, end) in steps of W.
  template <class Body>
  void for_owned(std::int64_t begin, std::int64_t end, Body body) const {
    if constexpr (W == 1) {
      const std::int64_t size = members.size();
      for (std::int64_t i = begin + (members.rank() - begin % size + size) % size; i < end; i += size) body(i);
    } else {
      for (std::int64_t i = begin; i < end; i += W) body(i);
    }
  }

  bool owns(std::int64_t column) const { return W > 1 || column % members.size() == members.rank(); }

  /// P packs of columns: rows += reflector * w, then g = sum over the rows of next[i] * row. With Extract, next[i] is
  /// first taken from the new row: next[i] = row[lead].
  template <int P, bool Extract, class Next>
  static void sweep_tile(T* rows, std::int64_t stride, std::int64_t count, const T* reflector, Next next,
                         std::int64_t lead, const T* w, T* g) {
    constexpr int unroll = W == 1   ? 1
                           : P == 1 ? 4
                                    : 2;  // rows at a time, with separate sums: each fma waits for the one before
    pack<T, W> update[P], sums[unroll][P];
    for (int p = 0; p < P; ++p) {
      update[p] = load<W>(w + p * W);
      for (int u = 0; u < unroll; ++u) sums[u][p] = pack<T, W>(T(0));
    }
    std::int64_t i = 0;
    for (; i + unroll <= count; i += unroll) {
      sweep_rows<P, unroll, Extract>(rows + i * stride, stride, reflector + i, next + i, lead, update, sums);
    }
    for (; i < count; ++i) {
      sweep_rows<P, 1, Extract>(rows + i * stride, stride, reflector + i, next + i, lead, update, sums);
    }
    for (int p = 0; p < P; ++p) {
      for (int u = 1; u < unroll; ++u) sums[0][p] += sums[u][p];
      store(g + p * W, sums[0][p]);
    }
  }

  /// The same for Rows rows: all are updated before the first is read again.
  template <int P, int Rows, bool Extract, class Next, int Sums>
  static void sweep_rows(T* rows, std::int64_t stride, const T* reflector, Next next, std::int64_t lead,
                         const pack<T, W> (&update)[P], pack<T, W> (&sums)[Sums][P]) {
    pack<T, W> updated[Rows][P];
#pragma unroll
    for (int u = 0; u < Rows; ++u) {
      const pack<T, W> factor(reflector[u]);
#pragma unroll
      for (int p = 0; p < P; ++p) updated[u][p] = fma(factor, update[p], load<W>(rows + u * stride + p * W));
    }
#pragma unroll
    for (int u = 0; u < Rows; ++u) {
#pragma unroll
      for (int p = 0; p < P; ++p) store(rows + u * stride + p * W, updated[u][p]);
    }
    if constexpr (Extract) {
#pragma unroll
      for (int u = 0; u < Rows; ++u) next[u] = rows[u * stride + lead];
    }
#pragma unroll
    for (int u = 0; u < Rows; ++u) {
      const pack<T, W> weight(next[u]);
#pragma unroll
      for (int p = 0; p < P; ++p) sums[u][p] = fma(weight, updated[u][p], sums[u][p]);
    }
  }

  /// The tile that starts at column `begin` and holds 1 to tile_packs packs.
  template <bool Extract, class Next>
  void sweep_width(std::int64_t packs, T* rows, std::int64_t stride, std::int64_t count, const T* reflector, Next next,
                   std::int64_t lead, std::int64_t begin) const {
    rows += begin;
    lead -= begin;
    if (packs == 1) sweep_tile<1, Extract>(rows, stride, count, reflector, next, lead, w + begin, g + begin);
    if (packs == 2) sweep_tile<2, Extract>(rows, stride, count, reflector, next, lead, w + begin, g + begin);
    if (packs == 3) sweep_tile<3, Extract>(rows, stride, count, reflector, next, lead, w + begin, g + begin);
    if (packs == 4) sweep_tile<4, Extract>(rows, stride, count, reflector, next, lead, w + begin, g + begin);
  }

  /// Columns [begin, end): rows += reflector * w, g = next^T rows. `begin` and `end` are multiples of W.
  void sweep(T* rows, std::int64_t stride, std::int64_t count, const T* reflector, const T* next, std::int64_t begin,
             std::int64_t end) const {
    if constexpr (W == 1) {
      for_owned(begin, end, [&](std::int64_t column) {
        sweep_tile<1, false>(rows + column, stride, count, reflector, next, 0, w + column, g + column);
      });
    } else {
      for (; begin < end; begin += tile_packs * W) {
        const std::int64_t packs = (end - begin) / W;
        sweep_width<false>(packs < tile_packs ? packs : tile_packs, rows, stride, count, reflector, next, 0, begin);
      }
    }
  }

  /// The same, and x becomes column `lead` of the new rows, of which g holds the inner products.
  void sweep_and_extract(T* rows, std::int64_t stride, std::int64_t count, const T* reflector, std::int64_t lead,
                         std::int64_t end) const {
    const std::int64_t begin = lead / W * W;
    const std::int64_t packs = W == 1 ? 1 : ((end - begin) / W - 1) % tile_packs + 1;  // the full tiles come after
    if (owns(lead)) sweep_width<true>(packs, rows, stride, count, reflector, x, lead, begin);
    members.barrier();
    sweep(rows, stride, count, reflector, x, begin + packs * W, end);
    members.barrier();
  }

  /// Factors [head rows; rows], column after column: head row j is heads + j * stride, and below it are `rows` (count
  /// of them) or, if `rows` is null, the head rows after it. The reflectors and tau are written to `reflectors`
  /// (steps, reflector_stride) and `taus` (steps), unless null. On return the heads hold R.
  void factor(T* heads, std::int64_t stride, std::int64_t steps, T* rows, std::int64_t count, T* reflectors,
              std::int64_t reflector_stride, T* taus) const {
    const bool triangle = rows == nullptr;
    if (triangle) count = steps - 1;
    for_owned(0, stride, [&](std::int64_t i) { store(w + i, pack<T, W>(T(0))); });
    for_owned(0, count, [&](std::int64_t i) { store(v + i, pack<T, W>(T(0))); });
    members.barrier();
    T* below = triangle ? heads + stride : rows;  // what the next reflector eliminates
    const T* reflector = v;                       // the last one, which is still to be applied to it
    // One call per step: device compilers inline every call, and a sweep is long.
    for (std::int64_t j = 0; j < steps; ++j) {
      sweep_and_extract(below, stride, count, reflector, j, stride);
      const T tau = reflect_head(heads + j * stride, j, stride, count);
      if (reflectors != nullptr) {
        for_owned(0, count, [&](std::int64_t i) { store(reflectors + j * reflector_stride + i, load<W>(v + i)); });
        if (members.rank() == 0) taus[j] = tau;
      }
      if (!triangle || j + 1 == steps) continue;
      for_owned((j + 1) / W * W, stride, [&](std::int64_t i) {  // the first row below is the next head
        store(below + i, fma(pack<T, W>(v[0]), load<W>(w + i), load<W>(below + i)));
      });
      --count;
      below += stride;
      reflector = v + 1;
    }
  }

  /// Finds the reflector that maps (head[j]; x) to (beta; 0), as v and tau, and applies it to the head row; w is its
  /// update of the rows below. The columns are scaled to about 1, so squares do not overflow, and underflow only if the
  /// column is far below rounding errors; then it counts as zero.
  T reflect_head(T* head, std::int64_t j, std::int64_t columns, std::int64_t count) const {
    const T tiny = sizeof(T) == 4 ? T(0x1p-90) : static_cast<T>(0x1p-900);
    const T alpha = head[j];
    const T below = count > 0 ? g[j] : T(0);
    T beta = alpha, tau = 0, inverse = 0;
    if (!(below <= tiny)) {  // NaN too, and it stays
      beta = sycl::sqrt(alpha * alpha + below);
      if (alpha > 0) beta = -beta;
      tau = (beta - alpha) / beta;
      inverse = 1 / (alpha - beta);
    }
    members.barrier();  // all have read alpha and g
    for_owned(0, count, [&](std::int64_t i) { store(v + i, load<W>(x + i) * pack<T, W>(inverse)); });
    const std::int64_t begin = (j + 1) / W * W;
    for_owned(begin, columns, [&](std::int64_t i) {
      const pack<T, W> row = load<W>(head + i);
      pack<T, W> update = pack<T, W>(-tau) * fma(pack<T, W>(inverse), load<W>(g + i), row);
      if (i == begin) update *= load<W>(mask + W - (j + 1) % W);  // columns up to j are done
      store(w + i, update);
      store(head + i, row + update);
    });
    if (owns(j)) head[j] = beta;
    members.barrier();
    return tau;
  }

  /// Applies the reflectors of `factor` in reverse order to [heads; rows], which forms Q. With `triangular`, the heads
  /// are upper triangular, the rows zero, and reflector j does not change the columns before j.
  void apply(T* heads, std::int64_t stride, std::int64_t steps, T* rows, std::int64_t count, const T* reflectors,
             std::int64_t reflector_stride, const T* taus, bool triangular) const {
    const bool triangle = rows == nullptr;
    for_owned(0, stride, [&](std::int64_t i) { store(g + i, pack<T, W>(T(0))); });
    for (std::int64_t j = steps - 1; j >= 0; --j) {
      T* head = heads + j * stride;
      const T* reflector = reflectors + j * reflector_stride;
      const T* next = j > 0 ? reflector - reflector_stride : reflector;  // of the reflector after this one
      const std::int64_t below = triangle ? steps - 1 - j : count;
      const std::int64_t begin = triangular ? (j > 0 ? j - 1 : 0) / W * W : 0;
      const pack<T, W> minus_tau(-taus[j]);
      for_owned(begin, stride, [&](std::int64_t i) {
        const pack<T, W> row = load<W>(head + i);
        const pack<T, W> update = minus_tau * (load<W>(g + i) + row);
        store(w + i, update);
        store(head + i, row + update);
      });
      sweep(triangle ? head + stride : rows, stride, below, reflector, triangle ? next + 1 : next, begin, stride);
      if (!triangle || j == 0) continue;
      for_owned(begin, stride, [&](std::int64_t i) {  // this head is the first row below the next one
        store(g + i, fma(pack<T, W>(next[0]), load<W>(head + i), load<W>(g + i)));
      });
    }
  }
};

}  // namespace nullscope::kernels
