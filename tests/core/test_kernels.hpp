/// Kernels that the tests of the launch layer run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

namespace nullscope::test {

/// out[i] = i + Offset, or its negative.
template <int Offset, bool Negate>
struct iota {
  static constexpr const char* source = __FILE__;

  int* out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const int value = static_cast<int>(item.get_global_id(0)) + Offset;
    out[item.get_global_id(0)] = Negate ? -value : value;
  }
};

template <class T>
struct twice {
  static T apply(T x) { return x + x; }
};

template <template <class> class Function, class T>
struct compose {
  static T apply(T x) { return Function<T>::apply(Function<T>::apply(x)); }
};

/// x[i] = Function(x[i]): a name with nested templates.
template <class Function, class T>
struct transform {
  static constexpr const char* source = __FILE__;

  T* x;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    T& element = x[item.get_global_id(0)];
    element = Function::apply(element);
  }
};

/// Sums its own members: a functor of 4 * Words + 16 bytes.
template <int Words>
struct sum_of_members {
  static constexpr const char* source = __FILE__;

  std::int64_t* out;
  char tag;
  std::int32_t word[Words];

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    std::int64_t sum = tag;
    for (int i = 0; i < Words; ++i) sum += word[i] * (i + 1);
    out[item.get_global_id(0)] = sum;
  }
};

/// Each work-group reverses its block of x through local memory, and notes how its local memory is aligned.
struct reverse_blocks {
  static constexpr const char* source = __FILE__;

  const int* x;
  int* out;
  std::uint64_t* misalignment;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    int* block = reinterpret_cast<int*>(local);
    const std::size_t size = item.get_local_range(0);
    const std::size_t i = item.get_local_id(0);
    block[i] = x[item.get_global_id(0)];
    sycl::group_barrier(item.get_group());
    out[item.get_global_id(0)] = block[size - 1 - i];
    if (i == 0) misalignment[item.get_group(0)] = reinterpret_cast<std::uintptr_t>(local) % 64;
  }
};

/// Notes the size of the sub-groups that it runs in.
template <int Size>
struct note_sub_group_size {
  static constexpr const char* source = __FILE__;
  static constexpr int sub_group_size = Size;

  int* out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    out[item.get_global_id(0)] = static_cast<int>(item.get_sub_group().get_max_local_range()[0]);
  }
};

/// out[i] = i + 100.
struct number_cells {
  static constexpr const char* source = __FILE__;

  int* out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::size_t i = item.get_global_linear_id();
    out[i] = static_cast<int>(i) + 100;
  }
};

/// The last work-item of its range notes which one it is.
struct note_last_id {
  static constexpr const char* source = __FILE__;

  std::int64_t* out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    // Not get_global_id, get_global_range: AdaptiveCpp computes these in 32 bits.
    const std::size_t id = item.get_global_linear_id(), size = item.get_group_range(0) * item.get_local_range(0);
    if (id + 1 == size) *out = static_cast<std::int64_t>(id);
  }
};

/// out[i] = first + i
struct count_from {
  static constexpr const char* source = __FILE__;

  int* out;
  int first;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    out[item.get_global_id(0)] = first + static_cast<int>(item.get_global_id(0));
  }
};

/// out[i] = x[i]
struct copy_numbers {
  static constexpr const char* source = __FILE__;

  const int* x;
  int* out;

  void operator()(sycl::nd_item<1> item, std::byte*) const { out[item.get_global_id(0)] = x[item.get_global_id(0)]; }
};

/// x[i] = 3 x[i] + 1, slowly: what comes after it must wait.
struct slow_increment {
  static constexpr const char* source = __FILE__;

  int* x;
  int rounds;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    unsigned noise = static_cast<unsigned>(item.get_global_id(0));
    for (int i = 0; i < rounds; ++i) noise = noise * 1664525u + 1013904223u;
    x[item.get_global_id(0)] = x[item.get_global_id(0)] * 3 + 1 + static_cast<int>(noise == 1u && rounds < 0);
  }
};

}  // namespace nullscope::test
