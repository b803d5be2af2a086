/// Small kernels for the test of the checker: each has one fault, or looks as if it had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

namespace nullscope::races::self_test {

constexpr int items = 64;  // of every work-group

/// A rotation by one place, through local memory.
template <bool HasBarrier>
struct rotate {
  static constexpr const char* source = __FILE__;
  float* out;  // (groups, items)

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    float* const shared = reinterpret_cast<float*>(local);
    const std::size_t rank = item.get_local_id(0);
    shared[rank] = static_cast<float>(rank);
    if constexpr (HasBarrier) sycl::group_barrier(item.get_group());
    out[item.get_global_linear_id()] = shared[(rank + 1) % items];
  }
};

/// Each work-group writes its own element, or all the same one.
template <bool IsShared>
struct write_of_groups {
  static constexpr const char* source = __FILE__;
  int* out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    if (item.get_local_id(0) == 0) out[IsShared ? 0 : item.get_group(0)] = static_cast<int>(item.get_group(0));
  }
};

/// The first work-group reads what the second one writes.
struct read_of_another_group {
  static constexpr const char* source = __FILE__;
  int *in, *out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    if (item.get_local_id(0) != 0) return;
    if (item.get_group(0) == 0) out[0] = in[0];
    if (item.get_group(0) == 1) in[0] = 1;
  }
};

/// Neighbouring bytes of one word.
struct neighbouring_bytes {
  static constexpr const char* source = __FILE__;
  std::uint8_t* out;

  void operator()(sycl::nd_item<1> item, std::byte*) const { out[item.get_local_id(0)] = 1; }
};

/// A byte of a word that others write as a whole.
struct byte_of_a_word {
  static constexpr const char* source = __FILE__;
  std::uint32_t* out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    if (item.get_local_id(0) == 0) out[0] = 1;
    if (item.get_local_id(0) == 5) reinterpret_cast<std::uint8_t*>(out)[2] = 1;
  }
};

/// A counter: by atomic_ref, and then read without it, with a barrier or not.
template <bool HasBarrier>
struct count_atomically {
  static constexpr const char* source = __FILE__;
  int *counter, *out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    sycl::atomic_ref<int, sycl::memory_order::relaxed, sycl::memory_scope::work_group>(*counter).fetch_add(1);
    if constexpr (HasBarrier) sycl::group_barrier(item.get_group());
    if (item.get_local_id(0) == 0) *out = *counter;
  }
};

enum class meeting { half_has_ended, other_barrier, sub_group_has_ended };

template <meeting How>
struct barrier_in_a_branch {
  static constexpr const char* source = __FILE__;
  int* out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const bool is_low = item.get_local_id(0) < items / 2;
    if constexpr (How == meeting::half_has_ended) {
      if (is_low) return;
      sycl::group_barrier(item.get_group());
    } else if constexpr (How == meeting::other_barrier) {
      if (is_low) {
        sycl::group_barrier(item.get_group());
        out[item.get_local_id(0)] = 1;
      } else {
        sycl::group_barrier(item.get_group());  // of the others
        out[item.get_local_id(0)] = 2;
      }
    } else {
      if (item.get_sub_group().get_local_linear_id() == 0) return;
      out[item.get_local_id(0)] = sycl::reduce_over_group(item.get_sub_group(), 1, sycl::plus<>());
    }
  }
};

/// Reads or writes `by` bytes beyond the end of local memory.
template <bool Writes>
struct beyond_local_memory {
  static constexpr const char* source = __FILE__;
  std::int64_t at;
  std::uint8_t* out;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    if (item.get_local_id(0) != 7) return;
    if constexpr (Writes) {
      local[at] = std::byte{1};
    } else {
      *out = static_cast<std::uint8_t>(local[at]);
    }
  }
};

/// Reads local memory that only some work-items have written.
struct read_before_written {
  static constexpr const char* source = __FILE__;
  float* out;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    float* const shared = reinterpret_cast<float*>(local);
    if (item.get_local_id(0) < items / 2) shared[item.get_local_id(0)] = 1;
    sycl::group_barrier(item.get_group());
    if (item.get_local_id(0) == 0) *out = shared[items / 2];
  }
};

/// Reads what the work-item at rank ^ distance wrote, after a barrier of the sub-group.
struct exchange_in_sub_group {
  static constexpr const char* source = __FILE__;
  std::size_t distance;
  float* out;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    float* const shared = reinterpret_cast<float*>(local);
    const std::size_t rank = item.get_local_id(0);
    shared[rank] = static_cast<float>(rank);
    sycl::group_barrier(item.get_sub_group());
    out[rank] = shared[rank ^ distance];
  }
};

/// Two sub-groups read what a third one writes after barriers of its own.
struct write_after_reads {
  static constexpr const char* source = __FILE__;
  float *in, *out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::size_t rank = item.get_local_id(0);
    if (rank < 8) out[rank] = *in;
    if (rank == 16) out[rank] = *in;
    sycl::group_barrier(item.get_sub_group());
    if (rank == 1) *in = 1;
  }
};

/// Collectives of the sub-group, one after the other: out (results, items).
struct collectives {
  static constexpr const char* source = __FILE__;
  int* out;
  enum result { sum, largest, inclusive, exclusive, broadcast, left, right, exchanged, any, selected, results };

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const sycl::sub_group group = item.get_sub_group();
    const int rank = static_cast<int>(item.get_local_id(0));
    const auto keep = [&](result what, int x) { out[what * items + rank] = x; };
    keep(sum, sycl::reduce_over_group(group, rank, sycl::plus<>()));
    keep(largest, sycl::reduce_over_group(group, rank, sycl::maximum<>()));
    keep(inclusive, sycl::inclusive_scan_over_group(group, rank, sycl::plus<>()));
    keep(exclusive, sycl::exclusive_scan_over_group(group, rank, sycl::plus<>()));
    keep(broadcast, sycl::group_broadcast(group, rank, 3));
    keep(left, sycl::shift_group_left(group, rank, 1));
    keep(right, sycl::shift_group_right(group, rank, 2));
    keep(exchanged, sycl::permute_group_by_xor(group, rank, 4));
    keep(any, sycl::any_of_group(group, rank == 9) ? 1 : 0);
    keep(selected, sycl::select_from_group(group, rank, 7 - rank % 8));
  }
};

/// The order in which work-items run, by groups.
struct note_order {
  static constexpr const char* source = __FILE__;
  int *count, *out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const int place =
        sycl::atomic_ref<int, sycl::memory_order::relaxed, sycl::memory_scope::device>(*count).fetch_add(1);
    out[place] = static_cast<int>(item.get_global_linear_id());
  }
};

}  // namespace nullscope::races::self_test
