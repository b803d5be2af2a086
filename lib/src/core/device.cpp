#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <mutex>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/kernel.hpp>
#include <optional>
#include <unordered_map>

#include "lib/src/core/compute_units.hpp"

namespace nullscope {
namespace {

namespace info = sycl::info::device;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

std::optional<std::size_t> parse_index(std::string_view text) {
  std::size_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

device_kind kind_of(const sycl::device& device) {
  if (device.is_cpu()) return device_kind::cpu;
  return device.is_gpu() ? device_kind::gpu : device_kind::accelerator;
}

std::vector<matrix_tile> bf16_tiles([[maybe_unused]] const sycl::device& device) {
  std::vector<matrix_tile> tiles;
#ifdef SYCL_EXT_ONEAPI_MATRIX
  namespace ext = sycl::ext::oneapi::experimental;
  using ext::matrix::matrix_type;
  // The aspect ext_intel_matrix is not asked: tensor cores and matrix cores do not have it, though they are listed.
  std::vector<ext::matrix::combination> combinations;
  try {
    combinations = device.get_info<ext::info::device::matrix_combinations>();
  } catch (const sycl::exception&) {  // from an older runtime, for an architecture that it does not know
    return tiles;
  }
  for (const ext::matrix::combination& c : combinations) {
    if (c.atype != matrix_type::bf16 || c.btype != matrix_type::bf16 || c.dtype != matrix_type::fp32) continue;
    const auto signed_size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    tiles.push_back({signed_size(c.msize), signed_size(c.nsize), signed_size(c.ksize), signed_size(c.max_msize),
                     signed_size(c.max_nsize), signed_size(c.max_ksize)});
  }
#endif
  return tiles;
}

/// The size of a CPU's vector registers.
std::int64_t vector_bytes_of([[maybe_unused]] const sycl::device& device) {
#if defined(__ADAPTIVECPP__) && defined(__x86_64__)
  // It says one float for every CPU. Its kernels run on the host's CPU, which can be asked itself.
  if (__builtin_cpu_supports("avx512f")) return 64;
  return __builtin_cpu_supports("avx2") ? 32 : 16;
#else
  return std::int64_t{device.get_info<info::native_vector_width_float>()} * 4;
#endif
}

/// A runtime may say "no limit" by the largest unsigned number.
std::int64_t signed_bytes(std::uint64_t bytes) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, std::numeric_limits<std::int64_t>::max()));
}

/// Intel's drivers report the vector engines of a GPU, of which a core has several.
std::int64_t compute_units_of(const sycl::device& device) {
  const std::int64_t reported = device.get_info<info::max_compute_units>();
#ifdef SYCL_EXT_INTEL_DEVICE_INFO
  if (device.has(sycl::aspect::ext_intel_gpu_eu_count_per_subslice)) {
    return detail::cores_of(reported, device.get_info<sycl::ext::intel::info::device::gpu_eu_count_per_subslice>());
  }
#endif
  return reported;
}

device_properties ask(const sycl::device& device) {
  device_properties result{};
  result.name = device.get_info<info::name>();
  result.vendor = device.get_info<info::vendor>();
  result.driver = device.get_info<info::driver_version>();
  result.backend = device.get_platform().get_info<sycl::info::platform::name>();
  result.kind = kind_of(device);
  result.fp64 = device.has(sycl::aspect::fp64);
  result.fp16 = device.has(sycl::aspect::fp16);
  result.bf16_tiles = bf16_tiles(device);
  for (const std::size_t size : device.get_info<info::sub_group_sizes>()) {
    result.sub_group_sizes.push_back(static_cast<std::int64_t>(size));
  }
  if (result.kind == device_kind::cpu) result.vector_bytes = vector_bytes_of(device);
  result.compute_units = compute_units_of(device);
  result.max_work_group_size = static_cast<std::int64_t>(device.get_info<info::max_work_group_size>());
  result.local_memory_bytes = signed_bytes(device.get_info<info::local_mem_size>());
  if (result.local_memory_bytes > std::int64_t{1} << 30) {  // a CPU that names no limit: what its caches keep
    result.local_memory_bytes = std::int64_t{256} << 10;
  }
  result.global_memory_bytes = signed_bytes(device.get_info<info::global_mem_size>());
  if (result.kind == device_kind::cpu) {  // some name no limit here, too
    const std::int64_t of_host = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
    result.global_memory_bytes = std::min(result.global_memory_bytes, of_host);
  }
  result.max_allocation_bytes =
      std::min(signed_bytes(device.get_info<info::max_mem_alloc_size>()), result.global_memory_bytes);
  return result;
}

[[noreturn]] void no_such_device(std::string_view text, const std::vector<sycl::device>& all) {
  if (all.empty()) throw unsupported_device("no SYCL device is visible (is ONEAPI_DEVICE_SELECTOR set?)");
  std::string list;
  for (std::size_t i = 0; i < all.size(); ++i) {
    list += fmt::format("{}{} {} ({})", i ? ", " : "", i, all[i].get_info<info::name>(), to_string(kind_of(all[i])));
  }
  throw unsupported_device(fmt::format("no device fits \"{}\"; there are: {}", text, list));
}

}  // namespace

std::int64_t device_properties::usable_local_bytes() const {
  return std::max<std::int64_t>(0, local_memory_bytes - static_cast<std::int64_t>(detail::local_alignment));
}

std::string_view to_string(device_kind kind) {
  switch (kind) {
    case device_kind::cpu: return "cpu";
    case device_kind::gpu: return "gpu";
    case device_kind::accelerator: return "accelerator";
  }
  return "unknown";
}

std::vector<sycl::device> devices() {
  prepare_process();
  try {
    return sycl::device::get_devices();
  } catch (const sycl::exception& failure) {  // a selector that is malformed, or no platform at all
    throw unsupported_device(fmt::format("the SYCL runtime lists no devices: {}", failure.what()));
  }
}

sycl::device select_device(std::string_view text) {
  const std::vector<sycl::device> all = devices();
  if (text.empty()) {
    if (all.empty()) no_such_device(text, all);
    return sycl::device(sycl::default_selector_v);
  }
  if (const auto index = parse_index(text)) {
    if (*index >= all.size()) no_such_device(text, all);
    return all[*index];
  }
  const std::size_t colon = text.find(':');
  const std::string kind = lower(text.substr(0, colon));
  if (kind == "cpu" || kind == "gpu" || kind == "accelerator") {
    auto skip = colon == std::string_view::npos ? std::optional<std::size_t>(0) : parse_index(text.substr(colon + 1));
    if (!skip) no_such_device(text, all);
    for (const auto& device : all) {
      if (to_string(kind_of(device)) == kind && (*skip)-- == 0) return device;
    }
    no_such_device(text, all);
  }
  for (const auto& device : all) {
    if (lower(device.get_info<info::name>()).find(lower(text)) != std::string::npos) return device;
  }
  no_such_device(text, all);
}

const device_properties& properties(const sycl::device& device) {
  static std::mutex mutex;
  static auto* known = new std::unordered_map<sycl::device, device_properties>;  // outlives the runtime, on purpose
  const std::lock_guard lock(mutex);
  const auto entry = known->find(device);
  return entry != known->end() ? entry->second : known->emplace(device, ask(device)).first->second;
}

}  // namespace nullscope
