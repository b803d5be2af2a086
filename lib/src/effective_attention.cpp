#include <nullscope/effective_attention.hpp>

#include <algorithm>
#include <nullscope/attention.hpp>
#include <nullscope/attention_weights.hpp>
#include <nullscope/gemm.hpp>
#include <nullscope/launch.hpp>

#include "attention_common.hpp"
#include "block_sums.hpp"
#include "checks.hpp"
#include "effective_summary.hpp"
#include "scratchpad.hpp"
#include "team_shape.hpp"

namespace nullscope {
namespace {

constexpr const char* name = "effective_attention";

/// (heads, rows, columns) as attention takes it: (1, heads, rows, columns).
template <class T>
view<T, 4> as_batch(const view<T, 3>& x) {
  return detail::with_rank<4>(x);
}

/// (heads, rows) as a column of each head: (heads, rows, 1).
template <class T>
view<T, 3> as_column(const view<T, 2>& x) {
  return {x.data, {x.extent[0], x.extent[1], 1}, {x.stride[0], x.stride[1], 1}};
}

template <class T>
std::int64_t block_count(std::int64_t rows) {
  return kernels::block_sums<T, 1, 1>::blocks(rows);  // the same for every layout
}

/// The scratchpad. `work` serves the range basis, then the attention, then the column sums.
template <class T>
struct effective_memory {
  view<T, 2> row_squares;                  // (heads, queries): of the rows of A
  view<T, 4> p_sums, u_sums, square_sums;  // (heads, blocks, 2, k or 1): see block_sums
  view<T, 2> p_columns;                    // (heads, k): 1^T P
  std::span<std::byte> work;
  std::int64_t bytes;
};

template <class T>
std::int64_t range_bytes(const sycl::queue& queue, const attention_heads<T>& heads) {
  const view<const T, 3>&v = heads.v, &h = heads.h;
  return heads.has_projection()
             ? range_basis_scratchpad_size<T>(queue, v.extent[0], v.extent[1], v.extent[2], h.extent[2])
             : range_basis_scratchpad_size<T>(queue, v.extent[0], v.extent[1], v.extent[2]);
}

template <class T>
effective_memory<T> cut(const sycl::queue& queue, std::byte* memory, const attention_heads<T>& heads) {
  const std::int64_t count = heads.q.extent[0], queries = heads.q.extent[1], keys = heads.k.extent[1];
  const std::int64_t columns = heads.basis_columns();
  const view<const T, 3> basis = contiguous<const T>(nullptr, count, keys, columns);
  detail::scratchpad_parts parts(memory);
  effective_memory<T> result{};
  result.row_squares = parts.take_array<T>(count, queries);
  result.p_sums = parts.take_array<T>(count, block_count<T>(queries), 2, columns);
  result.u_sums = parts.take_array<T>(count, block_count<T>(keys), 2, columns);
  result.square_sums = parts.take_array<T>(count, block_count<T>(queries), 2, 1);
  result.p_columns = parts.take_array<T>(count, columns);
  result.work = parts.take_bytes(
      std::max({range_bytes(queue, heads), attention_scratchpad_size<T>(queue, as_batch(heads.k), as_batch(basis)),
                attention_received_scratchpad_size<T>(queue, as_batch(heads.q), as_batch(heads.k))}));
  result.bytes = parts.bytes();
  return result;
}

template <class T>
void check_heads(const sycl::queue& queue, const attention_heads<T>& heads) {
  check::device_type<T>(name, queue);
  check::input(name, "q", heads.q);
  check::input(name, "k", heads.k);
  check::input(name, "v", heads.v);
  check::same_extent(name, "q", heads.q, 0, "k", heads.k, 0);
  check::same_extent(name, "q", heads.q, 0, "v", heads.v, 0);
  check::same_extent(name, "q", heads.q, 2, "k", heads.k, 2);
  check::same_extent(name, "k", heads.k, 1, "v", heads.v, 1);
  if (heads.has_projection()) {
    check::input(name, "h", heads.h);
    check::same_extent(name, "q", heads.q, 0, "h", heads.h, 0);
    check::same_extent(name, "v", heads.v, 2, "h", heads.h, 1);
  }
  if (heads.k.extent[1] == 0) check::fail(name, "k", heads.k, "has no keys");
  if (heads.basis_columns() == 0) check::fail(name, "v", heads.v, "or h has no columns");
  detail::check_head_size(name, "q", heads.q);
  if (heads.basis_columns() > detail::largest_head) {
    check::fail(
        name, "v", heads.v,
        fmt::format("and h give a basis of {} columns, more than {}", heads.basis_columns(), detail::largest_head));
  }
  detail::check_local_memory<T>(name, queue, heads.q.extent[2], heads.basis_columns());
}

template <class T>
void check_results(const attention_heads<T>& heads, const effective_attention_results<T>& r) {
  const std::int64_t count = heads.q.extent[0], queries = heads.q.extent[1], keys = heads.k.extent[1];
  const std::int64_t columns = heads.basis_columns();
  const auto has_shape = [&]<class Element, int Rank>(const char* operand, const view<Element, Rank>& x,
                                                      const std::int64_t(&shape)[Rank], bool optional = false) {
    if (optional && x.data == nullptr) return;
    check::output(name, operand, x);
    if (std::equal(shape, shape + Rank, x.extent)) return;
    check::fail(name, operand, x, fmt::format("should be ({})", fmt::join(shape, ", ")));
  };
  has_shape("p", r.p, {count, queries, columns});
  has_shape("u", r.u, {count, keys, columns});
  // Otherwise attention would copy it, and memory for that would be needed.
  if (!detail::has_neighbours(r.u)) check::fail(name, "u", r.u, "has columns that are no neighbours");
  has_shape("s", r.s, {count, columns});
  has_shape("rank", r.rank, {count});
  has_shape("status", r.status, {count});
  has_shape("log_sum_exp", r.log_sum_exp, {count, queries});
  has_shape("summary", r.summary, {count}, true);
  has_shape("received_raw", r.received_raw, {count, keys}, true);
  has_shape("received_effective", r.received_effective, {count, keys}, true);
}

/// Sums and squares of the columns of x, block by block.
template <class T>
sycl::event add_blocks(sycl::queue& queue, const view<const T, 3>& x, const view<T, 4>& sums,
                       const sycl::event& before) {
  const detail::team_shape shape = detail::choose_team_shape(queue, x.extent[2], detail::has_neighbours(x));
  return detail::with_team<sizeof(T)>(shape, [&]<int W, int Items>() {
    using kernel = kernels::block_sums<T, W, Items>;
    return launch(queue, detail::groups_of(x.extent[0] * sums.extent[1], Items), kernels::team<Items>::local_bytes,
                  kernel{x, sums}, {before});
  });
}

template <class T, class Sum>
sycl::event summarise(sycl::queue& queue, const attention_heads<T>& heads, const effective_memory<T>& memory,
                      const effective_attention_results<T>& results, bool causal,
                      const std::vector<sycl::event>& dependencies) {
  static_assert(sizeof(effective_attention_summary<T>) == 4 * sizeof(T), "the kernel sees four numbers a head");
  const std::int64_t count = heads.q.extent[0], queries = heads.q.extent[1], keys = heads.k.extent[1];
  const view<T, 2> summary{reinterpret_cast<T*>(results.summary.data), {count, 4}, {4 * results.summary.stride[0], 1}};
  constexpr int items = 32;
  const kernels::effective_summary<T, Sum, items> kernel{memory.p_sums,
                                                         memory.u_sums,
                                                         memory.square_sums,
                                                         memory.p_columns,
                                                         summary,
                                                         results.rank,
                                                         queries,
                                                         causal ? std::min(queries, keys) : queries,
                                                         keys};
  return launch(queue, detail::groups_of(count, items), kernels::team<items>::local_bytes, kernel, dependencies);
}

attention_options as_attention(const effective_attention_options& options) {
  attention_options result;
  result.scale = options.scale;
  result.causal = options.causal;
  return result;
}

}  // namespace

template <class T>
std::int64_t effective_attention_scratchpad_size(const sycl::queue& queue, const attention_heads<T>& heads) {
  return cut<T>(queue, nullptr, heads).bytes;
}

template <class T>
sycl::event effective_attention(sycl::queue& queue, const attention_heads<T>& heads,
                                const effective_attention_results<T>& results, std::span<std::byte> scratchpad,
                                const effective_attention_options& options,
                                const std::vector<sycl::event>& dependencies) {
  check_heads(queue, heads);
  check_results(heads, results);
  check::scratchpad(name, scratchpad, effective_attention_scratchpad_size<T>(queue, heads));
  if (heads.q.extent[0] == 0) return join(queue, dependencies);
  const effective_memory<T> memory = cut<T>(queue, scratchpad.data(), heads);

  sycl::event event = heads.has_projection()
                          ? range_basis<T>(queue, heads.v, heads.h, results.u, results.s, results.rank, results.status,
                                           memory.work, options.tolerance, dependencies)
                          : range_basis<T>(queue, heads.v, results.u, results.s, results.rank, results.status,
                                           memory.work, options.tolerance, dependencies);
  const view<const T, 3> u = results.u, p = results.p;
  const attention_row_results<T> rows{detail::with_rank<3>(results.log_sum_exp),
                                      detail::with_rank<3>(memory.row_squares)};
  event = attention<T, T>(queue, as_batch(heads.q), as_batch(heads.k), as_batch(u), as_batch(results.p), rows,
                          memory.work, as_attention(options), {event});
  if (results.received_raw.data != nullptr) {
    event = attention_received<T, T>(
        queue, as_batch(heads.q), as_batch(heads.k), detail::with_rank<3>(view<const T, 2>(results.log_sum_exp)),
        detail::with_rank<3>(results.received_raw), memory.work, as_attention(options), {event});
  }
  if (results.summary.data == nullptr && results.received_effective.data == nullptr) return event;

  const view<const T, 3> square_column = as_column(memory.row_squares);
  const std::vector<sycl::event> added{add_blocks(queue, p, memory.p_sums, event),
                                       add_blocks(queue, u, memory.u_sums, event),
                                       add_blocks(queue, square_column, memory.square_sums, event)};
  event = properties(queue.get_device()).fp64
              ? summarise<T, double>(queue, heads, memory, results, options.causal, added)
              : summarise<T, T>(queue, heads, memory, results, options.causal, added);
  if (results.received_effective.data == nullptr) return event;
  // u (heads, keys, k) times (1^T P)^T (heads, k, 1)
  return gemm(queue, T(1), u, view<const T, 3>(as_column(memory.p_columns)), T(0),
              as_column(results.received_effective), {}, {event});
}

template <class T>
sycl::event attention_part(sycl::queue& queue, attention_matrix matrix, const attention_factors<T>& factors,
                           std::int64_t first_query, std::int64_t first_key, view<T, 3> out,
                           const effective_attention_options& options, const std::vector<sycl::event>& dependencies) {
  constexpr const char* function = "attention_part";
  const auto& [q, k, log_sum_exp, p, u] = factors;
  check::device_type<T>(function, queue);
  check::input(function, "p", p);
  check::input(function, "u", u);
  check::output(function, "out", out);
  check::same_extent(function, "out", out, 0, "q", q, 0);
  for (int d : {0, 1}) check::same_extent(function, "p", p, d, "q", q, d);
  for (int d : {0, 1}) check::same_extent(function, "u", u, d, "k", k, d);
  check::same_extent(function, "p", p, 2, "u", u, 2);
  detail::check_tile(function, out, first_query, first_key, q.extent[1], k.extent[1]);
  if (out.empty()) return join(queue, dependencies);
  std::vector<sycl::event> ready = dependencies;
  if (matrix != attention_matrix::effective) {
    const sycl::event raw =
        attention_weights<T>(queue, as_batch(q), as_batch(k), detail::with_rank<3>(log_sum_exp), as_batch(out),
                             first_query, first_key, as_attention(options), dependencies);
    if (matrix == attention_matrix::raw) return raw;
    ready = {raw};
  }
  const bool is_rest = matrix == attention_matrix::null_part;
  return gemm(queue, is_rest ? T(-1) : T(1), slice(p, 1, first_query, out.extent[1]),
              transposed(slice(u, 1, first_key, out.extent[2])), is_rest ? T(1) : T(0), out, {}, ready);
}

template std::int64_t effective_attention_scratchpad_size(const sycl::queue&, const attention_heads<float>&);
template std::int64_t effective_attention_scratchpad_size(const sycl::queue&, const attention_heads<double>&);
template sycl::event effective_attention(sycl::queue&, const attention_heads<float>&,
                                         const effective_attention_results<float>&, std::span<std::byte>,
                                         const effective_attention_options&, const std::vector<sycl::event>&);
template sycl::event effective_attention(sycl::queue&, const attention_heads<double>&,
                                         const effective_attention_results<double>&, std::span<std::byte>,
                                         const effective_attention_options&, const std::vector<sycl::event>&);
template sycl::event attention_part(sycl::queue&, attention_matrix, const attention_factors<float>&, std::int64_t,
                                    std::int64_t, view<float, 3>, const effective_attention_options&,
                                    const std::vector<sycl::event>&);
template sycl::event attention_part(sycl::queue&, attention_matrix, const attention_factors<double>&, std::int64_t,
                                    std::int64_t, view<double, 3>, const effective_attention_options&,
                                    const std::vector<sycl::event>&);

}  // namespace nullscope
