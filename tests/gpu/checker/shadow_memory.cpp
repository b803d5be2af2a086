#include "tests/gpu/checker/shadow_memory.hpp"

namespace nullscope::races {

shadow_memory::word& shadow_memory::word_of(std::uintptr_t number) {
  const std::uintptr_t page_number = number / page_words;
  cached_page& cached = cache_[page_number % cache_.size()];
  if (cached.number != page_number) {
    std::unique_ptr<page>& content = pages_[page_number];
    if (content == nullptr) content = std::make_unique<page>();
    cached = {page_number, content.get()};
  }
  return (*cached.content)[number % page_words];
}

std::array<byte_history, shadow_memory::word_bytes>& shadow_memory::bytes_of(std::uintptr_t number, word& of) {
  std::array<byte_history, word_bytes>& parts = split_[number];
  if (!of.is_split) parts.fill(of.whole);
  of.is_split = true;
  return parts;
}

bool shadow_memory::has_written(std::uintptr_t at, std::size_t bytes, const access_history& history) {
  bool is_written = true;
  for_histories(at, bytes, [&](const byte_history& one, std::uintptr_t number) {
    const auto atomic = atomics_.find(number);
    is_written &= one.write.when.interval >= history.first_of_group ||
                  (atomic != atomics_.end() && atomic->second.writes.has_any_since(history.first_of_group));
  });
  return is_written;
}

void shadow_memory::end_launch() {
  constexpr std::size_t most_pages = 4096;
  atomics_.clear();
  if (pages_.size() < most_pages) return;
  pages_.clear();
  split_.clear();
  cache_.fill({});
}

}  // namespace nullscope::races
