#include <fmt/format.h>

#include <bit>
#include <nullscope/device.hpp>
#include <nullscope/errors.hpp>
#include <nullscope/launch.hpp>
#include <utility>

namespace nullscope::detail {

std::size_t allocated_local_bytes(const sycl::queue& queue, std::size_t local_bytes) {
  const device_properties& device = properties(queue.get_device());
  if (std::cmp_greater(local_bytes, device.usable_local_bytes())) {
    throw unsupported_device(fmt::format("launch: a kernel asks for {} bytes of local memory, {} offers {}",
                                         local_bytes, device.name, device.usable_local_bytes()));
  }
  const std::size_t bytes = local_bytes + local_alignment;
#ifdef __ADAPTIVECPP__
  // It compiles a kernel again for every size. A CPU, whose local memory is memory like any other, sees few of them.
  if (device.kind == device_kind::cpu) return std::bit_ceil(bytes);
#endif
  return bytes;
}

}  // namespace nullscope::detail

#ifdef NULLSCOPE_SINGLE_SOURCE

namespace nullscope {
void add_kernel_headers(const std::vector<kernel_header>&) {}
}  // namespace nullscope

#else

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace nullscope {

std::vector<kernel_header> library_kernel_headers();  // written by the build, from kernels/

namespace {

namespace compiler = sycl::ext::oneapi::experimental;

/// Where the embedded headers stand for the run-time compiler: a folder of theirs alone. In the current folder, which
/// would be the default, a file `version` or `new` of the user would be taken for the header of C++.
constexpr const char* header_folder = "/nullscope-embedded-headers";

/// Two queues share a compiled kernel if they share context and device.
struct cache_key {
  const detail::kernel_description* kernel;
  sycl::context context;
  sycl::device device;

  bool operator==(const cache_key&) const = default;
};

struct cache_key_hash {
  std::size_t operator()(const cache_key& key) const {
    return std::hash<const void*>{}(key.kernel) ^ (std::hash<sycl::context>{}(key.context) * 31) ^
           (std::hash<sycl::device>{}(key.device) * 131);
  }
};

struct compiler_state {
  std::mutex mutex;
  std::map<std::string, std::string> headers;
  std::unordered_map<cache_key, std::shared_future<sycl::kernel>, cache_key_hash> kernels;

  compiler_state() {
    for (auto& [name, text] : library_kernel_headers()) headers[name] = text;
  }
};

/// Never destroyed: kernels may outlive the runtime that would release them at exit.
compiler_state& state() {
  static auto* instance = new compiler_state;
  return *instance;
}

/// The text that the run-time compiler sees: the kernel's header, and one entry point for exactly this instantiation.
std::string entry_point(const detail::kernel_description& kernel, const sycl::device& device) {
  std::int64_t size = kernel.sub_group_size;
  if (kernel.one_work_item) {  // the compiler vectorises across work-items all the same: let it be as little as can be
    const std::vector<std::int64_t>& sizes = properties(device).sub_group_sizes;
    if (!sizes.empty()) size = *std::min_element(sizes.begin(), sizes.end());
  }
  const std::string sub_group =
      size > 0 ? fmt::format("SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((ext::experimental::sub_group_size<{}>))\n", size) : "";
  return fmt::format(
      "#include <sycl/sycl.hpp>\n"
      "namespace ext = sycl::ext::oneapi;\n"
      "#include <{0}>\n"
      "using kernel_type = {1};\n"
      "extern \"C\" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((ext::experimental::nd_range_kernel<{2}>))\n"
      "{3}"
      "void entry(kernel_type kernel, sycl::local_accessor<std::byte, 1> local) {{\n"
      "  std::byte* memory = &local[0];\n"
      "  memory += -reinterpret_cast<std::uintptr_t>(memory) & {4};\n"
      "  kernel(ext::this_work_item::get_nd_item<{2}>(), memory);\n"
      "}}\n",
      kernel.source, kernel.type_name, kernel.dimensions, sub_group, detail::local_alignment - 1);
}

sycl::kernel compile(const cache_key& key, const std::map<std::string, std::string>& headers) {
  // Embedded headers stand before the runtime's own. A range may have more than 2^31 work-items.
  std::vector<std::string> options{"-std=c++20", fmt::format("-I{}", header_folder), "-fno-sycl-id-queries-fit-in-int"};
#ifdef __x86_64__
  if (key.device.is_cpu()) {  // its instructions may be used
    options.push_back("-DNULLSCOPE_X86_DEVICE");
    if (__builtin_cpu_supports("avx")) options.push_back("-DNULLSCOPE_AVX_DEVICE");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
      options.push_back("-DNULLSCOPE_AVX512_DEVICE");
    }
  }
#endif
  std::string log;
  try {
    compiler::include_files includes;
    for (const auto& [name, text] : headers) includes.add(fmt::format("{}/{}", header_folder, name), text);
    auto source = compiler::create_kernel_bundle_from_source(key.context, compiler::source_language::sycl,
                                                             entry_point(*key.kernel, key.device),
                                                             compiler::properties{includes});
    auto executable = compiler::build(source, {key.device},
                                      compiler::properties{compiler::save_log{&log}, compiler::build_options{options}});
    return executable.ext_oneapi_get_kernel("entry");
  } catch (const sycl::exception& failure) {
    throw compilation_error(fmt::format("kernel {} of {} does not compile for {}: {}\n{}", key.kernel->type_name,
                                        key.kernel->source, key.device.get_info<sycl::info::device::name>(),
                                        failure.what(), log));
  }
}

}  // namespace

void add_kernel_headers(const std::vector<kernel_header>& headers) {
  const std::lock_guard lock(state().mutex);
  for (const auto& [name, text] : headers) state().headers[name] = text;
}

namespace detail {

sycl::kernel compiled_kernel(const sycl::queue& queue, const kernel_description& kernel) {
  const cache_key key{&kernel, queue.get_context(), queue.get_device()};
  std::promise<sycl::kernel> promise;
  std::map<std::string, std::string> headers;
  {
    std::unique_lock lock(state().mutex);
    const auto [entry, is_new] = state().kernels.try_emplace(key);
    if (!is_new) {
      const std::shared_future<sycl::kernel> future = entry->second;
      lock.unlock();
      return future.get();
    }
    entry->second = promise.get_future().share();
    headers = state().headers;
  }
  try {
    sycl::kernel code = compile(key, headers);
    promise.set_value(code);
    return code;
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(state().mutex);
    state().kernels.erase(key);  // those who wait get the error; who comes later tries again
    throw;
  }
}

void compile_kernels(const sycl::queue& queue, const std::vector<const kernel_description*>& kernels) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    for (std::size_t i = next++; i < kernels.size(); i = next++) {
      try {
        compiled_kernel(queue, *kernels[i]);
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        failure = std::current_exception();
      }
    }
  };
  const std::size_t threads = std::min<std::size_t>(kernels.size(), std::max(1u, std::thread::hardware_concurrency()));
  {
    std::vector<std::jthread> pool;
    for (std::size_t i = 1; i < threads; ++i) pool.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace detail
}  // namespace nullscope

#endif
