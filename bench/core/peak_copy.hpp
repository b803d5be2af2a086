/// The largest rate at which a device moves memory: a plain copy, the reference for everything that memory bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// out (size) = x (size). Each work-group copies `block` consecutive elements; its work-items take neighbouring packs.
///
/// Streaming stores bypass the caches and do not read what they overwrite: slower within the caches, faster beyond
/// them. They need `out` and `block` aligned to a pack.
template <class T, int W, bool Streaming>
struct peak_copy {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = W > 1;

  const T* x;
  T* out;
  std::int64_t size;
  std::int64_t block;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t lane = static_cast<std::int64_t>(item.get_local_id(0));
    const std::int64_t lanes = static_cast<std::int64_t>(item.get_local_range(0));
    const std::int64_t begin = static_cast<std::int64_t>(item.get_group(0)) * block;
    const std::int64_t end = begin + block < size ? begin + block : size;
    const std::int64_t packed_end = begin + (end - begin) / W * W;
    for (std::int64_t i = begin + lane * W; i < packed_end; i += lanes * W) {
      const pack<T, W> numbers = load<W>(x + i);
      if constexpr (Streaming) {
        stream(out + i, numbers);
      } else {
        store(out + i, numbers);
      }
    }
    for (std::int64_t i = packed_end + lane; i < end; i += lanes) out[i] = x[i];
  }
};

}  // namespace nullscope::kernels
