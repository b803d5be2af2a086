/// A hash table for the inner loops of tokenizers: one array, so that a lookup costs one cache miss, not three.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace nullscope::detail {

/// Values by 64-bit keys, which need not be well mixed. A key may have several values.
template <class Value>
class flat_map {
 public:
  flat_map() : slots_(2) {}

  void insert(std::uint64_t key, Value value) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    ++count_;
    place(key, std::move(value));
  }

  /// The value of the key that `accept` takes, or null.
  template <class Accept>
  const Value* find(std::uint64_t key, Accept accept) const {
    for (std::size_t i = first_slot(key);; i = (i + 1) & (slots_.size() - 1)) {
      const slot& s = slots_[i];
      if (!s.value) return nullptr;
      if (s.key == key && accept(*s.value)) return &*s.value;
    }
  }

 private:
  struct slot {
    std::uint64_t key = 0;
    std::optional<Value> value;
  };

  /// The number of slots is a power of two, and at most half of them are in use.
  std::size_t first_slot(std::uint64_t key) const {
    const std::uint64_t mixed = key * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(mixed ^ mixed >> 32) & (slots_.size() - 1);
  }

  void place(std::uint64_t key, Value&& value) {
    std::size_t i = first_slot(key);
    while (slots_[i].value) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = {key, std::move(value)};
  }

  void grow() {
    std::vector<slot> old(2 * slots_.size());
    std::swap(old, slots_);
    for (slot& s : old) {
      if (s.value) place(s.key, std::move(*s.value));
    }
  }

  std::vector<slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace nullscope::detail
