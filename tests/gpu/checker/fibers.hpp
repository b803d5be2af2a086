/// Functions that run in turns on one thread, each on a stack of its own.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace nullscope::races {

class fibers {
 public:
  /// Each fiber runs body(its number), again and again: it starts anew when it is resumed after the end.
  fibers(std::size_t count, std::function<void(std::size_t)> body);
  ~fibers();
  fibers(const fibers&) = delete;
  fibers& operator=(const fibers&) = delete;

  std::size_t size() const { return fibers_.size(); }

  /// Lets a fiber run until it pauses. Returns whether its body has ended.
  bool resume(std::size_t fiber);

  /// Called by the fiber that runs.
  void pause();

  /// Whether the address is in a stack.
  bool holds(std::uintptr_t at) const { return at - begin_ < bytes_; }

 private:
  struct fiber {
    ucontext_t start;
    jmp_buf here;
    bool is_started = false, has_ended = false;
  };

  static void enter(unsigned high, unsigned low);
  [[noreturn]] void repeat();

  static constexpr std::size_t stack_bytes = 256 << 10;
  std::function<void(std::size_t)> body_;
  std::vector<fiber> fibers_;
  std::size_t running_ = 0;
  jmp_buf scheduler_;
  std::uintptr_t begin_;
  std::size_t bytes_;
};

}  // namespace nullscope::races
