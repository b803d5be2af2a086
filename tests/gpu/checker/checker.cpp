#include "tests/gpu/checker/checker.hpp"

#include <memory>
#include <optional>

#include "tests/gpu/checker/checked_launch.hpp"

namespace nullscope::races {
namespace {

/// The functions that the compiler calls have no argument that could say which launch runs.
checked_launch* running = nullptr;

std::unique_ptr<checker_memory> new_memory() {
  return std::make_unique<checker_memory>([](std::size_t item) { running->body(item); });
}

template <std::size_t Bytes>
void read(const void* at, const void* returns_to) {
  if (running != nullptr) running->touch(at, Bytes, shadow_memory::kind::read, returns_to);
}
template <std::size_t Bytes>
void write(const void* at, const void* returns_to) {
  if (running != nullptr) running->touch(at, Bytes, shadow_memory::kind::write, returns_to);
}

}  // namespace

std::vector<fault> run(const checked_kernel& kernel, const std::byte* functor, const launch_shape& shape,
                       const settings& how) {
  static std::unique_ptr<checker_memory> memory = new_memory();
  checked_launch launch(*memory, kernel, functor, shape, how);
  running = &launch;
  std::vector<fault> faults = launch.run();
  running = nullptr;
  for (const fault& one : faults) {
    if (one.kind != fault_kind::divergence) continue;
    memory = new_memory();  // its fibers wait for ever
    break;
  }
  return faults;
}

void meet(scope of) { running->meet(of, __builtin_return_address(0)); }

const std::byte* exchange(scope of, const char* what, const void* mine, std::size_t bytes) {
  return running->exchange(of, what, mine, bytes, __builtin_return_address(0));
}

void note_atomic(const void* at, std::size_t bytes, bool writes) {
  running->touch(at, bytes, writes ? shadow_memory::kind::atomic_write : shadow_memory::kind::atomic_read,
                 __builtin_return_address(0));
}

}  // namespace nullscope::races

// What code compiled with -fsanitize=thread calls. The names are the compiler's.
extern "C" {

using nullscope::races::read;
using nullscope::races::running;
using nullscope::races::shadow_memory;
using nullscope::races::write;

void __tsan_init() {}
void __tsan_func_entry(void* returns_to) {
  if (running != nullptr) running->enter(returns_to);
}
void __tsan_func_exit() {
  if (running != nullptr) running->leave();
}

void __tsan_read1(void* at) { read<1>(at, __builtin_return_address(0)); }
void __tsan_read2(void* at) { read<2>(at, __builtin_return_address(0)); }
void __tsan_read4(void* at) { read<4>(at, __builtin_return_address(0)); }
void __tsan_read8(void* at) { read<8>(at, __builtin_return_address(0)); }
void __tsan_read16(void* at) { read<16>(at, __builtin_return_address(0)); }
void __tsan_write1(void* at) { write<1>(at, __builtin_return_address(0)); }
void __tsan_write2(void* at) { write<2>(at, __builtin_return_address(0)); }
void __tsan_write4(void* at) { write<4>(at, __builtin_return_address(0)); }
void __tsan_write8(void* at) { write<8>(at, __builtin_return_address(0)); }
void __tsan_write16(void* at) { write<16>(at, __builtin_return_address(0)); }
void __tsan_unaligned_read2(void* at) { read<2>(at, __builtin_return_address(0)); }
void __tsan_unaligned_read4(void* at) { read<4>(at, __builtin_return_address(0)); }
void __tsan_unaligned_read8(void* at) { read<8>(at, __builtin_return_address(0)); }
void __tsan_unaligned_read16(void* at) { read<16>(at, __builtin_return_address(0)); }
void __tsan_unaligned_write2(void* at) { write<2>(at, __builtin_return_address(0)); }
void __tsan_unaligned_write4(void* at) { write<4>(at, __builtin_return_address(0)); }
void __tsan_unaligned_write8(void* at) { write<8>(at, __builtin_return_address(0)); }
void __tsan_unaligned_write16(void* at) { write<16>(at, __builtin_return_address(0)); }
void __tsan_read_range(void* at, std::size_t bytes) {
  if (running != nullptr) running->touch(at, bytes, shadow_memory::kind::read, __builtin_return_address(0));
}
void __tsan_write_range(void* at, std::size_t bytes) {
  if (running != nullptr) running->touch(at, bytes, shadow_memory::kind::write, __builtin_return_address(0));
}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}

}  // extern "C"
