#include "tests/gpu/checker/fibers.hpp"

#include <sys/mman.h>

#include <new>

namespace nullscope::races {

fibers::fibers(std::size_t count, std::function<void(std::size_t)> body)
    : body_(std::move(body)), fibers_(count), bytes_(count * stack_bytes) {
  void* const stacks =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) throw std::bad_alloc();
  begin_ = reinterpret_cast<std::uintptr_t>(stacks);
  const std::uintptr_t self = reinterpret_cast<std::uintptr_t>(this);
  for (std::size_t i = 0; i < count; ++i) {
    ucontext_t& start = fibers_[i].start;
    getcontext(&start);
    start.uc_stack.ss_sp = reinterpret_cast<void*>(begin_ + i * stack_bytes);
    start.uc_stack.ss_size = stack_bytes;
    start.uc_link = nullptr;
    makecontext(&start, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
  }
}

fibers::~fibers() { munmap(reinterpret_cast<void*>(begin_), bytes_); }

/// makecontext passes numbers of 32 bits.
void fibers::enter(unsigned high, unsigned low) {
  const std::uintptr_t self = (static_cast<std::uintptr_t>(high) << 32) | low;
  reinterpret_cast<fibers*>(self)->repeat();
}

void fibers::repeat() {
  for (;;) {
    const std::size_t self = running_;
    body_(self);
    fibers_[self].has_ended = true;
    pause();
  }
}

// A jump does not ask the system for the mask of signals, as swapcontext does: it is many times as fast.

bool fibers::resume(std::size_t i) {
  running_ = i;
  fibers_[i].has_ended = false;
  if (_setjmp(scheduler_) == 0) {
    if (fibers_[i].is_started) _longjmp(fibers_[i].here, 1);
    fibers_[i].is_started = true;
    setcontext(&fibers_[i].start);
  }
  return fibers_[running_].has_ended;
}

void fibers::pause() {
  if (_setjmp(fibers_[running_].here) == 0) _longjmp(scheduler_, 1);
}

}  // namespace nullscope::races
