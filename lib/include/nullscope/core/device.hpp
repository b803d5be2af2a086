/// Which devices there are, how to choose one, and what it offers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

enum class device_kind { cpu, gpu, accelerator };

/// A tile (m x k times k x n) that the device's matrix engine multiplies, bf16 in and f32 out. Zero m means any m up to
/// `max_m`, and likewise for n and k.
struct matrix_tile {
  std::int64_t m, n, k;
  std::int64_t max_m, max_n, max_k;
};

/// What a device offers; dispatch decides by this.
struct device_properties {
  std::string name, vendor, driver, backend;
  device_kind kind;
  bool fp64, fp16;
  std::vector<matrix_tile> bf16_tiles;  ///< empty: no matrix engine that can be reached
  std::vector<std::int64_t> sub_group_sizes;
  std::int64_t vector_bytes;   ///< of a CPU's registers: 64 with AVX-512, 32 with AVX2; 0: no CPU
  std::int64_t compute_units;  ///< what runs work-groups: hardware threads of a CPU, multiprocessors, Xe cores
  std::int64_t max_work_group_size;
  std::int64_t local_memory_bytes;
  std::int64_t global_memory_bytes;
  std::int64_t max_allocation_bytes;

  /// A CPU with AVX-512: 32 registers of 64 bytes. Kernels take other CPUs for ones with 16 of 32 bytes.
  bool has_512_bit_vectors() const { return vector_bytes >= 64; }

  /// The most local memory that a kernel can ask `launch` for: all but what may be lost to alignment.
  std::int64_t usable_local_bytes() const;
};

std::string_view to_string(device_kind kind);

/// Sets what the SYCL runtime reads from the environment when it starts, unless it is set already: the OpenCL driver
/// that stands beside it. `devices` and `select_device` call it first. A program that makes its own queues without them
/// calls it before its first SYCL call; one that has threads by then, and reads the environment in them, sets
/// OCL_ICD_FILENAMES itself. Does nothing the second time.
void prepare_process();

/// All devices, in the runtime's order; ONEAPI_DEVICE_SELECTOR, if set, has filtered them.
std::vector<sycl::device> devices();

/// Chooses a device:
///   ""                 a GPU if there is one, otherwise what the runtime prefers
///   "cpu", "gpu"       the first of that kind (or "accelerator"); "gpu:1" the second
///   "2"                by its place in `devices()`
///   anything else      the first whose name contains the text, whatever the case
/// Throws unsupported_device with the list of devices if none fits.
sycl::device select_device(std::string_view text = "");

/// What the device offers. Asked once for each device, then remembered.
const device_properties& properties(const sycl::device& device);

}  // namespace nullscope
