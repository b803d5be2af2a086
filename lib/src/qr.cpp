#include <algorithm>
#include <nullscope/launch.hpp>
#include <nullscope/qr.hpp>

#include "checks.hpp"
#include "qr_chunks.hpp"
#include "qr_plan.hpp"

namespace nullscope {
namespace detail {
namespace {

/// One level of the tree: what the leaves do, how many there are, and where their memory is in the scratchpad.
template <class T, int W>
struct qr_level {
  kernels::qr_layout<W> layout;
  std::int64_t batch, chunks, tasks, groups;
  bool with_q, slot_per_task;

  std::int64_t slots() const { return (slot_per_task ? tasks : groups) * layout.slot(with_q); }
  /// Elements of the stacked R of all chunks, and of the Q of that stack.
  std::int64_t stack() const { return chunks > 1 ? padded(tasks * layout.steps * layout.columns) : 0; }
  static std::int64_t padded(std::int64_t count) { return (count + 15) / 16 * 16; }
};

/// A chunk more costs flops: Q is then formed from dense rows of the parent (4 m n^2 instead of 2 m n^2). It pays if it
/// keeps more work-groups busy.
std::int64_t count_chunks(const qr_choices& choices, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  if (batch == 0 || columns == 0) return 1;
  const std::int64_t most = rows / std::max<std::int64_t>(4 * columns, 256);
  if (choices.chunks > 0) return std::clamp<std::int64_t>(choices.chunks, 1, std::max<std::int64_t>(rows / columns, 1));
  const std::int64_t rounds = (batch + choices.parallel - 1) / choices.parallel;
  if (most < 2 || 4 * rounds * choices.parallel <= 6 * batch) return 1;
  return std::min(most, (4 * choices.parallel + batch - 1) / batch);
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
  layout.chunk_rows = (rows + level.chunks - 1) / level.chunks;
  if (layout.chunk_rows > layout.steps && layout.steps > 0) {
    const std::int64_t fitting = block_bytes / (layout.stride() * static_cast<std::int64_t>(sizeof(T)));
    const std::int64_t wanted =
        choices.block_rows > 0 ? choices.block_rows : std::clamp<std::int64_t>(fitting, 16, 512);
    layout.block_rows = layout.padded(std::min(wanted, layout.chunk_rows - layout.steps));
  }
  layout.uses_local_memory =
      layout.local() * static_cast<std::int64_t>(sizeof(T)) + 256 <= properties(queue.get_device()).local_memory_bytes;
  return level;
}

template <class T, int W>
std::int64_t level_scratchpad_size(const sycl::queue& queue, qr_choices choices, std::int64_t batch, std::int64_t rows,
                                   std::int64_t columns, bool with_q) {
  const auto level = make_level<T, W>(queue, choices, batch, rows, columns, with_q);
  if (level.chunks == 1) return level.slots();
  choices.chunks /= 2;
  return level.slots() + (with_q ? 2 : 1) * level.stack() +
         level_scratchpad_size<T, W>(queue, choices, batch, level.chunks * columns, columns, with_q);
}

template <class T, int W>
sycl::event run_level(sycl::queue& queue, qr_choices choices, const view<const T, 3>& a, const view<T, 3>& q,
                      const view<T, 3>& r, bool with_q, T* scratchpad, const std::vector<sycl::event>& dependencies) {
  const std::int64_t batch = a.extent[0], rows = a.extent[1], columns = a.extent[2];
  const auto level = make_level<T, W>(queue, choices, batch, rows, columns, with_q);
  const std::size_t local_bytes =
      level.layout.uses_local_memory ? static_cast<std::size_t>(level.layout.local()) * sizeof(T) : 0;
  const std::int64_t group_size = W > 1 ? 1 : std::clamp<std::int64_t>((columns + 31) / 32 * 32, 32, 128);
  const sycl::nd_range<1> range(static_cast<std::size_t>(level.groups * group_size),
                                static_cast<std::size_t>(group_size));
  kernels::qr_chunks<T, W> kernel{};
  kernel.a = a;
  kernel.q = q;
  kernel.scratchpad = scratchpad;
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
  T* stack = scratchpad + level.slots();
  kernel.r = contiguous(stack, batch, level.chunks * columns, columns);
  const sycl::event factored = launch(queue, range, local_bytes, kernel, dependencies);
  view<T, 3> stack_q{};
  if (with_q) stack_q = contiguous(stack + level.stack(), batch, level.chunks * columns, columns);
  choices.chunks /= 2;
  const sycl::event reduced = run_level<T, W>(queue, choices, kernel.r, stack_q, r, with_q,
                                              stack + (with_q ? 2 : 1) * level.stack(), {factored});
  if (!with_q) return reduced;
  kernel.parent = stack_q;
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
  return choices.team ? level_scratchpad_size<T, 1>(queue, choices, batch, rows, columns, with_q)
                      : level_scratchpad_size<T, cpu_lanes<T>>(queue, choices, batch, rows, columns, with_q);
}

template <class T>
sycl::event qr(sycl::queue& queue, const qr_choices& choices, const view<const T, 3>& a, const view<T, 3>& q,
               const view<T, 3>& r, T* scratchpad, const std::vector<sycl::event>& dependencies) {
  const bool with_q = q.data != nullptr;
  return choices.team ? run_level<T, 1>(queue, choices, a, q, r, with_q, scratchpad, dependencies)
                      : run_level<T, cpu_lanes<T>>(queue, choices, a, q, r, with_q, scratchpad, dependencies);
}

}  // namespace detail

template <class T>
std::int64_t qr_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                                bool with_q) {
  if (batch < 0 || rows < 0 || columns < 0) {
    throw invalid_argument(
        fmt::format("qr_scratchpad_size: a ({}, {}, {}) has a negative extent", batch, rows, columns));
  }
  return static_cast<std::int64_t>(sizeof(T)) *
         detail::qr_scratchpad_size<T>(queue, detail::default_qr_choices(queue), batch, rows, columns, with_q);
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
  return detail::qr<T>(queue, detail::default_qr_choices(queue), a, q, r, reinterpret_cast<T*>(scratchpad.data()),
                       dependencies);
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
                               const view<float, 3>&, float*, const std::vector<sycl::event>&);
template sycl::event qr<double>(sycl::queue&, const qr_choices&, const view<const double, 3>&, const view<double, 3>&,
                                const view<double, 3>&, double*, const std::vector<sycl::event>&);
}  // namespace detail

}  // namespace nullscope
