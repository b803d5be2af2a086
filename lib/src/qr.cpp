#include <algorithm>
#include <nullscope/launch.hpp>
#include <nullscope/qr.hpp>

#include "checks.hpp"
#include "qr_chunks.hpp"
#include "qr_plan.hpp"
#include "scratchpad.hpp"
#include "team_shape.hpp"

namespace nullscope {
namespace detail {
namespace {

/// One level of the tree: what the leaves do, and how many there are.
template <class T, int W>
struct qr_level {
  kernels::qr_layout<W> layout;
  std::int64_t batch, chunks, tasks, groups;
  bool with_q, slot_per_task;
};

/// What a level has in the scratchpad.
template <class T>
struct qr_memory {
  T* slots;                   // where its work-groups, or its tasks, keep reflectors
  view<T, 3> stack, stack_q;  // (B,chunks*n,n), where there are several chunks: their R, and the Q of that
};

template <class T, int W>
qr_memory<T> cut(const qr_level<T, W>& level, scratchpad_parts& parts) {
  qr_memory<T> memory{};
  memory.slots = parts.take<T>((level.slot_per_task ? level.tasks : level.groups) * level.layout.slot(level.with_q));
  if (level.chunks == 1) return memory;
  const std::int64_t columns = level.layout.columns, rows = level.chunks * columns;
  memory.stack = parts.take_array<T>(level.batch, rows, columns);
  if (level.with_q) memory.stack_q = parts.take_array<T>(level.batch, rows, columns);
  return memory;
}

/// A chunk more costs flops: Q is then formed from dense rows of the parent (4 m n^2 instead of 2 m n^2). It pays if it
/// keeps more work-groups busy.
std::int64_t count_chunks(const qr_choices& choices, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  if (batch == 0 || columns == 0) return 1;
  const std::int64_t most = rows / std::max<std::int64_t>(4 * columns, 256);
  if (choices.chunks > 0) return std::clamp<std::int64_t>(choices.chunks, 1, std::max<std::int64_t>(rows / columns, 1));
  const std::int64_t rounds = ceil_div(batch, choices.parallel);
  if (most < 2 || 4 * rounds * choices.parallel <= 6 * batch) return 1;
  return std::min(most, ceil_div(4 * choices.parallel, batch));
}

template <class T, int W>
qr_level<T, W> make_level(const sycl::queue& queue, const qr_choices& choices, std::int64_t batch, std::int64_t rows,
                          std::int64_t columns, bool with_q) {
  constexpr std::int64_t block_bytes = 32768;  // two thirds of a first-level cache; twice as much is 1.5 times slower
  qr_level<T, W> level{};
  level.batch = batch;
  level.with_q = with_q;
  level.chunks = count_chunks(choices, batch, rows, columns);
  level.tasks = batch * level.chunks;
  level.slot_per_task = with_q && level.chunks > 1;
  level.groups = std::min(level.tasks, 4 * choices.parallel);
  kernels::qr_layout<W>& layout = level.layout;
  layout.columns = columns;
  layout.steps = std::min(rows, columns);
  layout.chunk_rows = ceil_div(rows, level.chunks);
  if (layout.chunk_rows > layout.steps && layout.steps > 0) {
    const std::int64_t fitting = block_bytes / (layout.stride() * static_cast<std::int64_t>(sizeof(T)));
    const std::int64_t wanted =
        choices.block_rows > 0 ? choices.block_rows : std::clamp<std::int64_t>(fitting, 16, 512);
    layout.block_rows = layout.padded(std::min(wanted, layout.chunk_rows - layout.steps));
  }
  layout.uses_local_memory =
      layout.local() * static_cast<std::int64_t>(sizeof(T)) <= properties(queue.get_device()).usable_local_bytes();
  return level;
}

/// Bytes of this level and of those above it.
template <class T, int W>
std::int64_t levels_bytes(const sycl::queue& queue, qr_choices choices, std::int64_t batch, std::int64_t rows,
                          std::int64_t columns, bool with_q) {
  scratchpad_parts parts;
  for (;; choices.chunks /= 2) {
    const auto level = make_level<T, W>(queue, choices, batch, rows, columns, with_q);
    cut(level, parts);
    if (level.chunks == 1) return parts.bytes();
    rows = level.chunks * columns;
  }
}

template <class T, int W>
sycl::event run_level(sycl::queue& queue, qr_choices choices, const view<const T, 3>& a, const view<T, 3>& q,
                      const view<T, 3>& r, bool with_q, scratchpad_parts& parts,
                      const std::vector<sycl::event>& dependencies) {
  const std::int64_t batch = a.extent[0], rows = a.extent[1], columns = a.extent[2];
  const auto level = make_level<T, W>(queue, choices, batch, rows, columns, with_q);
  const qr_memory<T> memory = cut(level, parts);
  const std::size_t local_bytes =
      level.layout.uses_local_memory ? static_cast<std::size_t>(level.layout.local()) * sizeof(T) : 0;
  const std::int64_t group_size = W > 1 ? 1 : std::clamp<std::int64_t>(ceil_div(columns, 32) * 32, 32, 128);
  const sycl::nd_range<1> range = groups_of(level.groups, group_size);
  kernels::qr_chunks<T, W> kernel{};
  kernel.a = a;
  kernel.q = q;
  kernel.scratchpad = memory.slots;
  kernel.layout = level.layout;
  kernel.chunks = level.chunks;
  kernel.tasks = level.tasks;
  kernel.keeps_reflectors = with_q;
  kernel.slot_per_task = level.slot_per_task;
  kernel.factors = true;
  kernel.forms = with_q && level.chunks == 1;
  if (level.chunks == 1) {
    kernel.r = r;
    return launch(queue, range, local_bytes, kernel, dependencies);
  }
  // a (B,m,n) -> stacked R (B,chunks*n,n) -> its Q (B,chunks*n,n) and R (B,n,n) -> q (B,m,n)
  kernel.r = memory.stack;
  const sycl::event factored = launch(queue, range, local_bytes, kernel, dependencies);
  choices.chunks /= 2;
  const sycl::event reduced =
      run_level<T, W>(queue, choices, memory.stack, memory.stack_q, r, with_q, parts, {factored});
  if (!with_q) return reduced;
  kernel.parent = memory.stack_q;
  kernel.factors = false;
  kernel.forms = true;
  return launch(queue, range, local_bytes, kernel, {reduced});
}

template <class T>
inline constexpr int cpu_lanes = 64 / sizeof(T);

}  // namespace

qr_choices default_qr_choices(const sycl::queue& queue) {
  const device_properties& device = properties(queue.get_device());
  const bool team = device.kind != device_kind::cpu;
  return {team, device.compute_units * (team ? 4 : 1)};
}

template <class T>
std::int64_t qr_scratchpad_size(const sycl::queue& queue, const qr_choices& choices, std::int64_t batch,
                                std::int64_t rows, std::int64_t columns, bool with_q) {
  return choices.team ? levels_bytes<T, 1>(queue, choices, batch, rows, columns, with_q)
                      : levels_bytes<T, cpu_lanes<T>>(queue, choices, batch, rows, columns, with_q);
}

template <class T>
sycl::event qr(sycl::queue& queue, const qr_choices& choices, const view<const T, 3>& a, const view<T, 3>& q,
               const view<T, 3>& r, std::byte* scratchpad, const std::vector<sycl::event>& dependencies) {
  const bool with_q = q.data != nullptr;
  scratchpad_parts parts(scratchpad);
  return choices.team ? run_level<T, 1>(queue, choices, a, q, r, with_q, parts, dependencies)
                      : run_level<T, cpu_lanes<T>>(queue, choices, a, q, r, with_q, parts, dependencies);
}

}  // namespace detail

template <class T>
std::int64_t qr_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                                bool with_q) {
  check::not_negative("qr_scratchpad_size", {batch, rows, columns});
  return detail::qr_scratchpad_size<T>(queue, detail::default_qr_choices(queue), batch, rows, columns, with_q);
}

template <class T>
sycl::event qr(sycl::queue& queue, std::type_identity_t<view<const T, 3>> a, view<T, 3> q, view<T, 3> r,
               std::span<std::byte> scratchpad, const std::vector<sycl::event>& dependencies) {
  check::device_type<T>("qr", queue);
  check::input("qr", "a", a);
  check::output("qr", "q", q);
  check::output("qr", "r", r);
  const std::int64_t steps = std::min(a.extent[1], a.extent[2]);
  const bool with_q = q.data != nullptr || q.extent[0] != 0 || q.extent[1] != 0 || q.extent[2] != 0;
  if (with_q) {
    check::same_extent("qr", "q", q, 0, "a", a, 0);
    check::same_extent("qr", "q", q, 1, "a", a, 1);
    if (q.extent[2] != steps) check::fail("qr", "q", q, fmt::format("needs {} columns, min(m, n) of a", steps));
  }
  check::same_extent("qr", "r", r, 0, "a", a, 0);
  check::same_extent("qr", "r", r, 2, "a", a, 2);
  if (r.extent[1] != steps) check::fail("qr", "r", r, fmt::format("needs {} rows, min(m, n) of a", steps));
  check::scratchpad("qr", scratchpad, qr_scratchpad_size<T>(queue, a.extent[0], a.extent[1], a.extent[2], with_q));
  if (a.empty()) return join(queue, dependencies);
  return detail::qr<T>(queue, detail::default_qr_choices(queue), a, q, r, scratchpad.data(), dependencies);
}

template std::int64_t qr_scratchpad_size<float>(const sycl::queue&, std::int64_t, std::int64_t, std::int64_t, bool);
template std::int64_t qr_scratchpad_size<double>(const sycl::queue&, std::int64_t, std::int64_t, std::int64_t, bool);
template sycl::event qr<float>(sycl::queue&, view<const float, 3>, view<float, 3>, view<float, 3>, std::span<std::byte>,
                               const std::vector<sycl::event>&);
template sycl::event qr<double>(sycl::queue&, view<const double, 3>, view<double, 3>, view<double, 3>,
                                std::span<std::byte>, const std::vector<sycl::event>&);

namespace detail {
template std::int64_t qr_scratchpad_size<float>(const sycl::queue&, const qr_choices&, std::int64_t, std::int64_t,
                                                std::int64_t, bool);
template std::int64_t qr_scratchpad_size<double>(const sycl::queue&, const qr_choices&, std::int64_t, std::int64_t,
                                                 std::int64_t, bool);
template sycl::event qr<float>(sycl::queue&, const qr_choices&, const view<const float, 3>&, const view<float, 3>&,
                               const view<float, 3>&, std::byte*, const std::vector<sycl::event>&);
template sycl::event qr<double>(sycl::queue&, const qr_choices&, const view<const double, 3>&, const view<double, 3>&,
                                const view<double, 3>&, std::byte*, const std::vector<sycl::event>&);
}  // namespace detail

}  // namespace nullscope
