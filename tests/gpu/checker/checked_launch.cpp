#include "tests/gpu/checker/checked_launch.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <stdexcept>

namespace nullscope::races {

local_block::local_block() {
  void* const memory = mmap(nullptr, 3 * part_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  begin_ = reinterpret_cast<std::uintptr_t>(memory);
}

local_block::~local_block() { munmap(reinterpret_cast<void*>(begin_), 3 * part_bytes); }

std::byte* local_block::renew(std::size_t bytes) {
  if (bytes > part_bytes) throw std::length_error("the checker has less local memory than the launch asks for");
  std::byte* const memory = reinterpret_cast<std::byte*>(begin_ + part_bytes);
  std::memset(memory, 0xff, std::max(used_, bytes));
  used_ = bytes;
  return memory;
}

checked_launch::checked_launch(checker_memory& memory, const checked_kernel& kernel, const std::byte* functor,
                               const launch_shape& shape, const settings& how)
    : memory_(memory),
      kernel_(kernel),
      functor_(functor),
      shape_(shape),
      how_(how),
      sub_group_size_(static_cast<std::size_t>(kernel.sub_group_size > 0 ? kernel.sub_group_size : how.sub_group_size)),
      order_(how.order),
      items_(shape.items) {
  if (shape.items > checker_memory::most_items) throw std::length_error("the checker has fewer work-items");
  for (auto& slots : slots_) slots.resize(shape.items * slot_bytes);
}

std::vector<fault> checked_launch::run() {
  history_.first_of_launch = memory_.interval + 1;
  std::vector<std::size_t> groups(shape_.groups);
  std::iota(groups.begin(), groups.end(), std::size_t{0});
  if (how_.order != 0) std::shuffle(groups.begin(), groups.end(), order_);
  for (const std::size_t group : groups) {
    if (!run_group(group)) break;
  }
  memory_.global.end_launch();
  memory_.local.end_launch();
  return std::move(faults_);
}

/// False if a barrier cannot be passed.
bool checked_launch::run_group(std::size_t group) {
  group_ = group;
  history_.first_of_group = ++memory_.interval;
  groups_of_intervals_.emplace_back(history_.first_of_group, group);
  sub_intervals_.assign(sub_groups(), ++memory_.sub_interval);
  local_ = memory_.block.renew(shape_.local_bytes);
  std::fill(items_.begin(), items_.end(), work_item{});
  std::vector<std::size_t> turns(shape_.items);
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  for (;;) {
    if (how_.order != 0) std::shuffle(turns.begin(), turns.end(), order_);
    for (const std::size_t item : turns) {
      if (items_[item].now != state::ready) continue;
      item_ = item;
      if (memory_.turns.resume(item)) items_[item].now = state::has_ended;
    }
    const auto has_ended = [](const work_item& one) { return one.now == state::has_ended; };
    if (std::all_of(items_.begin(), items_.end(), has_ended)) return true;
    if (!release_waiting()) {
      add_divergence();
      return false;
    }
  }
}

void checked_launch::body(std::size_t item) {
  kernel_.call(functor_, {item, shape_.items, group_, shape_.groups, sub_group_size_}, local_);
}

std::pair<std::size_t, std::size_t> checked_launch::items_of(scope of, std::size_t number) const {
  if (of == scope::work_group) return {0, shape_.items};
  return {number * sub_group_size_, std::min((number + 1) * sub_group_size_, shape_.items)};
}

/// Lets go on whoever waits for nobody any more. False if all wait.
bool checked_launch::release_waiting() {
  bool is_any = false;
  for (std::size_t i = 0; i < sub_groups(); ++i) is_any |= release(scope::sub_group, i);
  return is_any || release(scope::work_group, 0);
}

bool checked_launch::release(scope of, std::size_t number) {
  const auto [begin, end] = items_of(of, number);
  const work_item& first = items_[begin];
  for (std::size_t i = begin; i < end; ++i) {
    if (items_[i].now != state::waits || items_[i].waits_in != of || !is_same_place(items_[i], first)) return false;
  }
  const bool is_barrier = first.waits_for == nullptr;
  for (std::size_t i = begin; i < end; ++i) items_[i].now = state::ready;
  if (!is_barrier) return true;
  if (of == scope::work_group) ++memory_.interval;
  sub_intervals_[number] = ++memory_.sub_interval;
  return true;
}

/// The compiler may have copied the code of a barrier: then its lines are the same.
bool checked_launch::is_same_place(const work_item& a, const work_item& b) {
  if (a.waits_for != b.waits_for) return false;
  return a.waits_at == b.waits_at || memory_.calls.lines_of(a.waits_at) == memory_.calls.lines_of(b.waits_at);
}

bool checked_launch::is_left_out(const code_place& place) {
  if (how_.without_barriers.empty() && how_.passed_lines == nullptr) return false;
  const auto [found, is_new] = left_out_.try_emplace(place, false);
  if (!is_new) return found->second;
  const std::vector<std::string>& lines = memory_.calls.lines_of(place);
  if (how_.passed_lines != nullptr) how_.passed_lines->insert(lines.begin(), lines.end());
  for (const std::string& line : how_.without_barriers) {
    found->second |= std::find(lines.begin(), lines.end(), line) != lines.end();
  }
  return found->second;
}

void checked_launch::wait(scope of, const char* what, const code_place& place) {
  work_item& self = running();
  self.now = state::waits;
  self.waits_in = of;
  self.waits_for = what;
  self.waits_at = place;
  memory_.turns.pause();
}

void checked_launch::meet(scope of, const void* returns_to) {
  const code_place place = memory_.calls.place_of(returns_to, running().call);
  if (!is_left_out(place)) wait(of, nullptr, place);
}

/// Two sets of slots take turns: when a set is written again, all have made the exchange between, and so have read it.
const std::byte* checked_launch::exchange(scope of, const char* what, const void* mine, std::size_t bytes,
                                          const void* returns_to) {
  const std::size_t by_scope = of == scope::work_group ? 1 : 0;
  std::byte* const slots = slots_[2 * by_scope + running().exchanges[by_scope]++ % 2].data();
  std::memcpy(slots + item_ * slot_bytes, mine, bytes);
  wait(of, what, memory_.calls.place_of(returns_to, running().call));
  return slots + items_of(of, item_ / sub_group_size_).first * slot_bytes;
}

access checked_launch::here(const void* returns_to) {
  const std::size_t sub_group = item_ / sub_group_size_;
  return {{memory_.interval, sub_intervals_[sub_group], static_cast<std::uint16_t>(item_),
           static_cast<std::uint16_t>(sub_group)},
          memory_.calls.place_of(returns_to, running().call)};
}

void checked_launch::touch(const void* address, std::size_t bytes, shadow_memory::kind how, const void* returns_to) {
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t from_functor = at - reinterpret_cast<std::uintptr_t>(functor_);
  if (memory_.turns.holds(at) || from_functor < kernel_.bytes || bytes == 0) return;  // private, or constant
  const bool writes = how == shadow_memory::kind::write || how == shadow_memory::kind::atomic_write;
  const bool is_local = memory_.block.is_near(at);
  const access now = here(returns_to);
  const auto work_item_here = [&] { return name_of(now.when) + (writes ? " writes " : " reads "); };
  if (is_local && !memory_.block.is_inside(at, bytes)) {
    add_fault(fault_kind::outside_of_local_memory, now.where, {},
              work_item_here() + std::to_string(bytes) + " bytes at offset " +
                  std::to_string(memory_.block.offset(at)) + " of " + std::to_string(memory_.block.used()) +
                  " bytes of local memory, at " + memory_.calls.text_of(now.where));
    return;
  }
  shadow_memory& memory = is_local ? memory_.local : memory_.global;
  if (is_local && !writes && !memory.has_written(at, bytes, history_)) {
    add_fault(fault_kind::unwritten_local_memory, now.where, {},
              work_item_here() + "local memory at offset " + std::to_string(memory_.block.offset(at)) +
                  " that its work-group has not written, at " + memory_.calls.text_of(now.where));
  }
  access_history history = history_;
  if (is_local) history.first_of_launch = history.first_of_group;  // each work-group has its own
  memory.touch(at, bytes, how, now, history,
               [&](const access& before, bool wrote) { add_race(now, writes, before, wrote, bytes, is_local); });
}

std::string checked_launch::name_of(const moment& when) const {
  const auto next = std::upper_bound(groups_of_intervals_.begin(), groups_of_intervals_.end(),
                                     std::pair(when.interval, ~std::size_t{0}));
  return "work-item " + std::to_string(when.item) + " of work-group " + std::to_string((next - 1)->second);
}

void checked_launch::add_fault(fault_kind kind, const code_place& here, const code_place& other,
                               const std::string& text) {
  constexpr std::size_t most = 20;
  if (!seen_.emplace(kind, here, other).second || faults_.size() >= most) return;
  faults_.push_back({kind, std::string(kernel_.name) + ": " + text});
}

void checked_launch::add_race(const access& now, bool writes, const access& before, bool wrote, std::size_t bytes,
                              bool is_local) {
  if (seen_.contains({fault_kind::race, now.where, before.where})) return;
  add_fault(fault_kind::race, now.where, before.where,
            name_of(before.when) + (wrote ? " writes at " : " reads at ") + memory_.calls.text_of(before.where) + "; " +
                name_of(now.when) + (writes ? " writes " : " reads ") + std::to_string(bytes) + " bytes of " +
                (is_local ? "local" : "global") + " memory there at " + memory_.calls.text_of(now.where) +
                "; no barrier is between them");
}

void checked_launch::add_divergence() {
  std::map<std::string, std::vector<std::size_t>> items_at;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const work_item& one = items_[i];
    const std::string what = one.waits_for == nullptr ? "a barrier" : one.waits_for;
    const std::string of = one.waits_in == scope::sub_group ? " of the sub-group" : "";
    items_at[one.now == state::has_ended ? "have ended"
                                         : "wait in " + what + of + " at " + memory_.calls.text_of(one.waits_at)]
        .push_back(i);
  }
  std::string text = "the work-items of work-group " + std::to_string(group_) + " do not meet";
  for (const auto& [where, items] : items_at) {
    text += "; " + std::to_string(items.size()) + " of them, the first is " + std::to_string(items[0]) + ", " + where;
  }
  add_fault(fault_kind::divergence, {}, {}, text);
}

}  // namespace nullscope::races
