#include <nullscope/launch.hpp>
#include <nullscope/simplex.hpp>
#include <nullscope/svd.hpp>

#include "checks.hpp"
#include "logits.hpp"
#include "scratchpad.hpp"
#include "svd_paths.hpp"
#include "team_shape.hpp"

namespace nullscope {
namespace {

template <class T>
struct logit_memory {
  view<T, 3> logits;             // (batch, rows, S)
  view<T, 2> s;                  // (batch, min(rows, S))
  view<std::int32_t, 1> status;  // (batch)
  std::span<std::byte> work;
  std::int64_t bytes;
};

constexpr svd_options values_only{.vectors = svd_vectors::none};

template <class T>
logit_memory<T> cut(const sycl::queue& queue, std::byte* memory, std::int64_t batch, std::int64_t rows,
                    std::int64_t tokens) {
  detail::scratchpad_parts parts(memory);
  logit_memory<T> result{};
  result.logits = parts.take_array<T>(batch, rows, tokens);
  result.s = parts.take_array<T>(batch, std::min(rows, tokens));
  result.status = parts.take_array<std::int32_t>(batch);
  result.work = parts.take_bytes(svd_scratchpad_size<T>(queue, batch, rows, tokens, values_only));
  result.bytes = parts.bytes();
  return result;
}

}  // namespace

template <class T>
std::int64_t logit_rank_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t rows,
                                        std::int64_t tokens) {
  if (batch < 0 || rows < 1 || tokens < 1) {
    throw invalid_argument(
        fmt::format("logit_rank_scratchpad_size: a ({}, {}, {}) has a matrix without elements", batch, rows, tokens));
  }
  return cut<T>(queue, nullptr, batch, rows, tokens).bytes;
}

template <class T>
sycl::event logit_rank(sycl::queue& queue, view<const T, 3> a, view<std::int64_t, 1> rank,
                       std::span<std::byte> scratchpad, double relative_tolerance,
                       const std::vector<sycl::event>& dependencies) {
  constexpr const char* function = "logit_rank";
  check::device_type<T>(function, queue);
  check::input(function, "a", a);
  check::output(function, "rank", rank);
  check::same_extent(function, "rank", rank, 0, "a", a, 0);
  if (relative_tolerance != relative_tolerance) throw invalid_argument("logit_rank: the tolerance is NaN");
  const std::int64_t batch = a.extent[0], rows = a.extent[1], tokens = a.extent[2];
  check::scratchpad(function, scratchpad, logit_rank_scratchpad_size<T>(queue, batch, rows, tokens));
  if (rank.empty()) return join(queue, dependencies);
  const logit_memory<T> memory = cut<T>(queue, scratchpad.data(), batch, rows, tokens);
  constexpr std::int64_t items = 64;
  const sycl::event taken = launch(queue, detail::groups_of(detail::ceil_div(a.size(), items), items), 0,
                                   kernels::logits_of_rows<T>{a, memory.logits}, dependencies);
  const view<const T, 3> logits = memory.logits;
  const sycl::event decomposed =
      svd<T>(queue, logits, memory.s, {}, {}, memory.status, {}, memory.work, values_only, {taken});
  const view<const T, 2> values = memory.s;
  return detail::rank_of_decomposed<T>(queue, values, memory.status, rows, tokens, static_cast<T>(relative_tolerance),
                                       T(0), rank, {decomposed});
}

template std::int64_t logit_rank_scratchpad_size<float>(const sycl::queue&, std::int64_t, std::int64_t, std::int64_t);
template std::int64_t logit_rank_scratchpad_size<double>(const sycl::queue&, std::int64_t, std::int64_t, std::int64_t);
template sycl::event logit_rank<float>(sycl::queue&, view<const float, 3>, view<std::int64_t, 1>, std::span<std::byte>,
                                       double, const std::vector<sycl::event>&);
template sycl::event logit_rank<double>(sycl::queue&, view<const double, 3>, view<std::int64_t, 1>,
                                        std::span<std::byte>, double, const std::vector<sycl::event>&);

}  // namespace nullscope
