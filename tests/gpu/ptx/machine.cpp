#include "tests/gpu/ptx/machine.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

namespace nullscope::ptx {
namespace {

constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();

mask bit(int lane) { return mask{1} << lane; }

/// The values of special registers, in the order of their names.
std::array<std::uint32_t, special_names.size()> specials_of(const work_group& group, std::uint32_t warp, int lane) {
  const auto l = static_cast<std::uint32_t>(lane);
  return {warp * lanes + l,
          0,
          0,
          group.items,
          1,
          1,
          group.number,
          0,
          0,
          group.groups,
          1,
          1,
          l,
          warp,
          (group.items + lanes - 1) / lanes,
          0,
          bit(lane),
          (bit(lane) << 1) - 1,
          bit(lane) - 1,
          ~(bit(lane) - 1),
          ~((bit(lane) << 1) - 1)};
}

}  // namespace

std::uint64_t counts::total() const { return std::accumulate(executed.begin(), executed.end(), std::uint64_t{0}); }

counts& counts::operator+=(const counts& more) {
  for (std::size_t i = 0; i < executed.size(); ++i) executed[i] += more.executed[i];
  lanes_executed += more.lanes_executed;
  shared_wavefronts += more.shared_wavefronts;
  shared_conflicts += more.shared_conflicts;
  sectors_read += more.sectors_read;
  sectors_written += more.sectors_written;
  bytes_read += more.bytes_read;
  bytes_written += more.bytes_written;
  return *this;
}

warp::warp(work_group& group, std::uint32_t number)
    : group_(group), registers_(group.code.register_bytes), local_(group.code.local_bytes * lanes, std::byte{0xff}) {
  const std::uint32_t first = number * lanes, items = std::min<std::uint32_t>(lanes, group.items - first);
  alive_ = items == lanes ? all_lanes : bit(static_cast<int>(items)) - 1;
  for (int lane = 0; lane < lanes; ++lane) {
    const auto values = specials_of(group, number, lane);
    auto* const to = reinterpret_cast<std::uint32_t*>(registers_.data());
    for (std::size_t i = 0; i < values.size(); ++i) to[i * lanes + static_cast<std::size_t>(lane)] = values[i];
    copies_[static_cast<std::size_t>(lane)].resize(1);
  }
  others_.push_back({0, alive_});
}

std::uint32_t warp::next_other() const {
  std::uint32_t next = nowhere;
  for (const path& one : others_) next = std::min(next, one.at);
  for (const path& one : blocked_) next = std::min(next, one.at);
  return next;
}

/// Takes the lanes that are furthest behind: so they meet the others where branches join again.
bool warp::choose_path() {
  const auto is_behind = [](const path& x, const path& y) { return x.at < y.at; };
  const auto first = std::min_element(others_.begin(), others_.end(), is_behind);
  if (first == others_.end()) {
    if (blocked_.empty()) return false;
    throw failure("lanes wait for others that never come: " +
                  std::string(group_.code.instructions[blocked_[0].at].text));
  }
  now_ = {first->at, 0};
  for (std::vector<path>* paths : {&others_, &blocked_}) {
    std::erase_if(*paths, [&](const path& one) {
      if (one.at == now_.at) now_.active |= one.active;
      return one.at == now_.at;
    });
  }
  return true;
}

void warp::run() {
  while (choose_path()) run_path();
}

mask warp::active_of(const instruction& i) const {
  if (!i.predicate) return now_.active;
  const mask true_lanes = predicate(i.predicate);
  return now_.active & (i.is_negated ? ~true_lanes : true_lanes);
}

/// Runs the lanes of `now_` until they part, stop, or meet others.
void warp::run_path() {
  const std::vector<instruction>& code = group_.code.instructions;
  counts& counted = group_.counted;
  for (std::uint32_t next = next_other();;) {
    const instruction& i = code[now_.at];
    const mask active = active_of(i);
    if (i.flow == control::together && !meets_others(i, active)) return;
    ++counted.executed[static_cast<std::size_t>(i.counted)];
    counted.lanes_executed += static_cast<std::uint64_t>(std::popcount(active));
    if (i.flow == control::none || i.flow == control::together) {
      if (active != 0) i.run(*this, i, active);
      ++now_.at;
    } else {
      follow_branch(i, active);
      if (now_.active == 0) return;
      next = next_other();
    }
    if (now_.at < next) continue;
    others_.push_back(now_);
    return;
  }
}

/// Whether all lanes that the instruction names are here; otherwise those that are here wait.
bool warp::meets_others(const instruction& i, mask active) {
  const mask named = i.members ? in<mask>(i.members)[std::countr_zero(now_.active)] : all_lanes;
  const mask wanted = named & alive_;
  if ((wanted & ~active) == 0) return true;
  blocked_.push_back(now_);
  return false;
}

void warp::follow_branch(const instruction& i, mask active) {
  const mask stay = now_.active & ~active;
  switch (i.flow) {
    case control::branch:
      if (active != 0) others_.push_back({i.targets[0], active});
      break;
    case control::branch_indexed: {
      const auto* index = in<std::uint32_t>(i.from[0]);
      for (mask rest = active; rest != 0; rest &= rest - 1) {
        const int lane = std::countr_zero(rest);
        others_.push_back({i.targets.at(index[lane]), bit(lane)});
      }
      break;
    }
    case control::leave: alive_ &= ~active; break;
    default:
      at_barrier_ |= active;
      for (int lane = 0; lane < lanes; ++lane) {
        if ((active >> lane & 1) != 0) barrier_[static_cast<std::size_t>(lane)] = now_.at;
      }
  }
  if (i.flow == control::branch && stay == 0 && others_.size() == 1 && blocked_.empty()) {
    now_ = others_.back();  // the usual case: all go on together
    others_.clear();
    return;
  }
  if (stay != 0) others_.push_back({now_.at + 1, stay});
  now_.active = 0;
}

std::uint32_t warp::barrier() const {
  std::uint32_t at = nowhere;
  for (int lane = 0; lane < lanes; ++lane) {
    if ((at_barrier_ >> lane & 1) == 0) continue;
    const std::uint32_t one = barrier_[static_cast<std::size_t>(lane)];
    if (at != nowhere && at != one) throw failure("lanes of a warp wait at different barriers");
    at = one;
  }
  return at;
}

void warp::pass_barrier() {
  if (at_barrier_ == 0) return;
  others_.push_back({barrier() + 1, at_barrier_});
  at_barrier_ = 0;
}

void warp::close_copies(mask active) {
  for (; active != 0; active &= active - 1) copies_[static_cast<std::size_t>(std::countr_zero(active))].emplace_back();
}

/// The last group is the one that is still filled.
void warp::finish_copies(mask active, std::size_t still_open) {
  for (; active != 0; active &= active - 1) {
    auto& groups = copies_[static_cast<std::size_t>(std::countr_zero(active))];
    const std::size_t closed = groups.size() - 1, done = closed > still_open ? closed - still_open : 0;
    for (std::size_t g = 0; g < done; ++g) {
      for (const pending_copy& copy : groups[g]) {
        std::memcpy(copy.to, copy.from, copy.copied);
        std::memset(copy.to + copy.copied, 0, copy.bytes - copy.copied);
      }
    }
    groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(done));
  }
}

namespace {

void run_group(work_group& group) {
  std::vector<std::unique_ptr<warp>> warps;
  for (std::uint32_t w = 0; w * lanes < group.items; ++w) warps.push_back(std::make_unique<warp>(group, w));
  for (bool is_done = false; !is_done;) {
    is_done = true;
    std::uint32_t at = nowhere;
    for (const auto& one : warps) {
      one->run();
      is_done &= one->has_left();
      const std::uint32_t barrier = one->barrier();
      if (barrier == nowhere) continue;
      if (at != nowhere && at != barrier) throw failure("warps wait at different barriers");
      at = barrier;
    }
    for (const auto& one : warps) one->pass_barrier();
  }
}

}  // namespace

counts execute(const kernel_code& code, std::span<const std::byte> parameters, std::uint32_t groups,
               std::uint32_t items, std::size_t shared_bytes) {
  counts counted;
  for (std::uint32_t number = 0; number < groups; ++number) {
    work_group group{code, parameters, {}, number, groups, items, counted};
    group.shared.assign(code.shared_bytes + shared_bytes, std::byte{0xff});  // NaN: nobody may rely on zeros
    run_group(group);
  }
  return counted;
}

}  // namespace nullscope::ptx
