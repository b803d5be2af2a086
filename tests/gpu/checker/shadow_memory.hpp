/// Who touched which byte last: what decides whether an access is a race.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tests/gpu/checker/call_paths.hpp"

namespace nullscope::races {

/// What runs now. Intervals lie between two barriers of a work-group and are counted on and on, so that no two
/// work-groups share one; work-groups run one after the other.
struct moment {
  std::uint32_t interval = 0;      ///< of the work-group
  std::uint32_t sub_interval = 0;  ///< between two barriers of the sub-group
  std::uint16_t item = 0, sub_group = 0;
};

/// An access that was made.
struct access {
  moment when;
  code_place where;
};

struct access_history {
  std::uint32_t first_of_launch = 1, first_of_group = 1;  ///< their first intervals
};

/// Accesses of work-items that have no order among each other, reduced to two: whatever has an order with these two has
/// one with all of them.
class unordered_accesses {
 public:
  void add(const access& one, const access_history& now);

  /// One that has no order with `one`, or null.
  const access* find_unordered(const access& one, const access_history& now) const;

  bool has_any_since(std::uint32_t interval) const {
    return of_[0].when.interval >= interval || of_[1].when.interval >= interval;
  }

 private:
  std::array<access, 2> of_ = {};
};

/// Plain accesses to one byte, or to four that are always touched together.
struct byte_history {
  access write = {};
  unordered_accesses reads = {};
};

/// The histories of global or of local memory.
class shadow_memory {
 public:
  enum class kind { read, write, atomic_read, atomic_write };

  /// Notes an access to `bytes` bytes from `at` on. Calls found(earlier access, whether it wrote) for each byte or word
  /// with an access that has no order with this one.
  template <class Found>
  void touch(std::uintptr_t at, std::size_t bytes, kind how, const access& now, const access_history& history,
             Found found);

  /// Whether this work-group has written all of the bytes.
  bool has_written(std::uintptr_t at, std::size_t bytes, const access_history& history);

  /// Forgets everything, if that has become much; what atomic_ref did, in any case.
  void end_launch();

 private:
  static constexpr std::uintptr_t word_bytes = 4, page_words = 1024;

  struct word {
    byte_history whole;
    bool is_split = false;  // into histories of single bytes, because a part was touched
  };
  using page = std::array<word, page_words>;
  struct atomic_history {
    unordered_accesses reads, writes;
  };

  word& word_of(std::uintptr_t number);
  std::array<byte_history, word_bytes>& bytes_of(std::uintptr_t number, word& of);

  /// Calls body(history, number of the word) for each history of these bytes.
  template <class Body>
  void for_histories(std::uintptr_t at, std::size_t bytes, Body body);

  std::unordered_map<std::uintptr_t, std::unique_ptr<page>> pages_;
  struct cached_page {
    std::uintptr_t number = ~std::uintptr_t{0};
    page* content = nullptr;
  };
  std::array<cached_page, 64> cache_ = {};
  std::unordered_map<std::uintptr_t, std::array<byte_history, word_bytes>> split_;
  std::unordered_map<std::uintptr_t, atomic_history> atomics_;  // by word
};

/// False if nothing but luck decides which of the two accesses comes first. `before` came first in this run.
inline bool is_ordered(const moment& before, const moment& now, const access_history& history) {
  if (before.interval < history.first_of_launch) return true;
  if (before.interval < history.first_of_group) return false;  // of another work-group
  if (before.interval != now.interval || before.item == now.item) return true;
  return before.sub_group == now.sub_group && before.sub_interval != now.sub_interval;
}

inline const access* unordered_accesses::find_unordered(const access& one, const access_history& now) const {
  for (const access& before : of_) {
    if (!is_ordered(before.when, one.when, now)) return &before;
  }
  return nullptr;
}

inline void unordered_accesses::add(const access& one, const access_history& now) {
  access& first = of_[0];
  access& second = of_[1];
  if (is_ordered(first.when, one.when, now)) {  // what has no order with the old one has none with the new one
    first = one;
  } else if (is_ordered(second.when, one.when, now)) {
    second = one;
  } else if (first.when.interval == second.when.interval && first.when.sub_group == second.when.sub_group &&
             first.when.interval == one.when.interval) {
    second = one;  // one of another sub-group: a barrier of the first sub-group gives both an order, but not this one
  }
}

template <class Body>
void shadow_memory::for_histories(std::uintptr_t at, std::size_t bytes, Body body) {
  const std::uintptr_t end = at + bytes;
  for (std::uintptr_t number = at / word_bytes; number * word_bytes < end; ++number) {
    const std::uintptr_t begin = number * word_bytes;
    word& of = word_of(number);
    const bool is_whole = at <= begin && begin + word_bytes <= end;
    if (is_whole && !of.is_split) {
      body(of.whole, number);
      continue;
    }
    std::array<byte_history, word_bytes>& parts = bytes_of(number, of);
    for (std::uintptr_t i = 0; i < word_bytes; ++i) {
      if (at <= begin + i && begin + i < end) body(parts[i], number);
    }
  }
}

template <class Found>
void shadow_memory::touch(std::uintptr_t at, std::size_t bytes, kind how, const access& now,
                          const access_history& history, Found found) {
  const bool writes = how == kind::write || how == kind::atomic_write;
  const bool is_atomic = how == kind::atomic_read || how == kind::atomic_write;
  for_histories(at, bytes, [&](byte_history& one, std::uintptr_t number) {
    if (!is_ordered(one.write.when, now.when, history)) found(one.write, true);
    if (writes) {
      if (const access* const reader = one.reads.find_unordered(now, history)) found(*reader, false);
    }
    if (how == kind::write) one.write = now;
    if (how == kind::read) one.reads.add(now, history);
    if (how == kind::atomic_read) atomics_[number].reads.add(now, history);
    if (how == kind::atomic_write) atomics_[number].writes.add(now, history);
    const auto atomic = is_atomic || atomics_.empty() ? atomics_.end() : atomics_.find(number);
    if (atomic == atomics_.end()) return;
    if (const access* const writer = atomic->second.writes.find_unordered(now, history)) found(*writer, true);
    if (!writes) return;
    if (const access* const reader = atomic->second.reads.find_unordered(now, history)) found(*reader, false);
  });
}

}  // namespace nullscope::races
