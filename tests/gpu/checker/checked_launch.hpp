/// One launch under the checker: takes turns between its work-items, and watches their barriers and accesses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tests/gpu/checker/call_paths.hpp"
#include "tests/gpu/checker/checker.hpp"
#include "tests/gpu/checker/fibers.hpp"
#include "tests/gpu/checker/shadow_memory.hpp"

namespace nullscope::races {

/// Local memory of one work-group, in the middle of memory that nothing else uses.
class local_block {
 public:
  local_block();
  ~local_block();
  local_block(const local_block&) = delete;
  local_block& operator=(const local_block&) = delete;

  /// The work-group's part, filled with bytes that are NaN.
  std::byte* renew(std::size_t bytes);

  bool is_near(std::uintptr_t at) const { return at - begin_ < 3 * part_bytes; }
  bool is_inside(std::uintptr_t at, std::size_t bytes) const {
    return at >= begin_ + part_bytes && at + bytes <= begin_ + part_bytes + used_;
  }
  std::int64_t offset(std::uintptr_t at) const { return static_cast<std::int64_t>(at - begin_ - part_bytes); }
  std::size_t used() const { return used_; }

 private:
  static constexpr std::size_t part_bytes = 1 << 20;
  std::uintptr_t begin_;
  std::size_t used_ = 0;
};

/// What stays from launch to launch.
struct checker_memory {
  static constexpr std::size_t most_items = 1024;

  explicit checker_memory(std::function<void(std::size_t)> body) : turns(most_items, std::move(body)) {}

  fibers turns;
  shadow_memory global, local;
  local_block block;
  call_paths calls;
  std::uint32_t interval = 0, sub_interval = 0;  // the last ones that were used
};

class checked_launch {
 public:
  checked_launch(checker_memory& memory, const checked_kernel& kernel, const std::byte* functor,
                 const launch_shape& shape, const settings& how);

  std::vector<fault> run();

  // Called by the work-item that runs.
  void body(std::size_t item);
  void touch(const void* at, std::size_t bytes, shadow_memory::kind how, const void* returns_to);
  void enter(const void* returns_to) { running().call = memory_.calls.enter(running().call, returns_to); }
  void leave() { running().call = memory_.calls.leave(running().call); }
  void meet(scope of, const void* returns_to);
  const std::byte* exchange(scope of, const char* what, const void* mine, std::size_t bytes, const void* returns_to);

 private:
  enum class state { ready, waits, has_ended };

  struct work_item {
    state now = state::ready;
    scope waits_in = scope::work_group;
    const char* waits_for = nullptr;  // the collective; null: a barrier
    code_place waits_at = {};
    std::uint32_t call = call_paths::outermost;
    std::array<unsigned, 2> exchanges = {};  // by scope
  };

  work_item& running() { return items_[item_]; }
  std::size_t sub_groups() const { return (shape_.items + sub_group_size_ - 1) / sub_group_size_; }
  std::pair<std::size_t, std::size_t> items_of(scope of, std::size_t number) const;

  bool run_group(std::size_t group);
  bool release_waiting();
  bool release(scope of, std::size_t number);
  bool is_same_place(const work_item& a, const work_item& b);
  bool is_left_out(const code_place& place);
  void wait(scope of, const char* what, const code_place& place);
  access here(const void* returns_to);

  void add_fault(fault_kind kind, const code_place& here, const code_place& other, const std::string& text);
  void add_race(const access& now, bool writes, const access& before, bool wrote, std::size_t bytes, bool is_local);
  void add_divergence();
  std::string name_of(const moment& when) const;

  checker_memory& memory_;
  const checked_kernel& kernel_;
  const std::byte* functor_;
  const launch_shape shape_;
  const settings& how_;
  std::size_t sub_group_size_;
  std::mt19937 order_;

  std::size_t group_ = 0, item_ = 0;  // that run
  std::byte* local_ = nullptr;
  std::vector<work_item> items_;
  std::array<std::vector<std::byte>, 4> slots_;  // of exchanges: by scope, two in turns
  access_history history_;
  std::vector<std::pair<std::uint32_t, std::size_t>> groups_of_intervals_;  // first interval, work-group
  std::vector<std::uint32_t> sub_intervals_;                                // of the sub-groups
  std::map<code_place, bool> left_out_;                                     // barriers
  std::set<std::tuple<fault_kind, code_place, code_place>> seen_;
  std::vector<fault> faults_;
};

}  // namespace nullscope::races
