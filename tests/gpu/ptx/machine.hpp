/// Warps that execute the code of a kernel in lock step, and what they share.
#pragma once

#include <bit>
#include <cstring>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "tests/gpu/ptx/code.hpp"

namespace nullscope::ptx {

/// What was executed. Numbers are of warps, as a device issues them, unless they say otherwise.
struct counts {
  std::array<std::uint64_t, static_cast<std::size_t>(kind::count)> executed{};
  std::uint64_t lanes_executed = 0;     ///< of all instructions: 32 per instruction if no lane ever waits
  std::uint64_t shared_wavefronts = 0;  ///< cycles of the banks of shared memory
  std::uint64_t shared_conflicts = 0;   ///< of these, how many more than without conflicts
  std::uint64_t sectors_read = 0, sectors_written = 0;  ///< of 32 bytes in global memory, per instruction
  std::uint64_t bytes_read = 0, bytes_written = 0;      ///< that lanes asked for in global memory

  std::uint64_t of(kind k) const { return executed[static_cast<std::size_t>(k)]; }
  std::uint64_t total() const;
  counts& operator+=(const counts& more);
};

/// The windows of generic addresses behind which shared and local memory stand. Everything else is global.
constexpr std::uint64_t window = std::uint64_t{1} << 56, shared_window = window, local_window = 2 * window;

/// A copy from global to shared memory that has begun and not been waited for.
struct pending_copy {
  std::byte* to;
  const std::byte* from;
  std::size_t copied, bytes;  // the rest is zeros
};

/// A work-group: what its warps share.
struct work_group {
  const kernel_code& code;
  std::span<const std::byte> parameters;
  std::vector<std::byte> shared;
  std::uint32_t number, groups, items;
  counts& counted;
};

/// Special registers, in the order of their rows, which begin a warp's registers.
constexpr std::array<std::string_view, 21> special_names{
    "%tid.x",   "%tid.y",   "%tid.z",       "%ntid.x",      "%ntid.y",      "%ntid.z",      "%ctaid.x",
    "%ctaid.y", "%ctaid.z", "%nctaid.x",    "%nctaid.y",    "%nctaid.z",    "%laneid",      "%warpid",
    "%nwarpid", "%smid",    "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"};
constexpr std::size_t special_bytes = special_names.size() * lanes * sizeof(std::uint32_t);

class warp {
 public:
  warp(work_group& group, std::uint32_t number);

  /// Runs until all lanes have left or wait at a barrier.
  void run();
  bool has_left() const { return alive_ == 0; }
  void pass_barrier();
  /// The instruction at which its lanes wait. Throws failure if they wait at different ones.
  std::uint32_t barrier() const;

  // For handlers.
  template <class T>
  const T* in(const row& r) const {
    return reinterpret_cast<const T*>((r.is_constant ? group_.code.constants.data() : registers_.data()) + r.offset);
  }
  template <class T>
  T* out(const row& r) {
    return reinterpret_cast<T*>(registers_.data() + r.offset);
  }
  mask predicate(const row& r) const { return *in<mask>(r); }
  void set_predicate(const row& r, mask active, mask value) {
    mask& bits = *out<mask>(r);
    bits = (bits & ~active) | (value & active);
  }

  work_group& group() { return group_; }
  mask alive() const { return alive_; }
  std::byte* local(int lane) { return local_.data() + static_cast<std::size_t>(lane) * group_.code.local_bytes; }

  void begin_copy(int lane, const pending_copy& copy) {
    copies_[static_cast<std::size_t>(lane)].back().push_back(copy);
  }
  void close_copies(mask active);
  void finish_copies(mask active, std::size_t still_open);

 private:
  struct path {
    std::uint32_t at;
    mask active;
  };

  bool choose_path();
  void run_path();
  void follow_branch(const instruction& i, mask active);
  bool meets_others(const instruction& i, mask active);
  std::uint32_t next_other() const;
  mask active_of(const instruction& i) const;

  work_group& group_;
  mask alive_, at_barrier_ = 0;
  std::array<std::uint32_t, lanes> barrier_{};
  path now_{};
  std::vector<path> others_, blocked_;
  std::vector<std::byte> registers_, local_;
  std::array<std::vector<std::vector<pending_copy>>, lanes> copies_;  // of a lane, in groups
};

/// A launch: `groups` work-groups of `items` work-items, with `shared_bytes` of shared memory beside the kernel's own.
/// Throws failure, with the instruction.
counts execute(const kernel_code& code, std::span<const std::byte> parameters, std::uint32_t groups,
               std::uint32_t items, std::size_t shared_bytes);

}  // namespace nullscope::ptx
