/// Compiles kernels at run time, each once for a context and device. Only a kernel's first launch comes here; after
/// that a context has it.
#include <fmt/format.h>

#include <nullscope/device.hpp>
#include <nullscope/errors.hpp>
#include <nullscope/launch.hpp>

#include "lib/src/core/context_state.hpp"

#ifdef NULLSCOPE_SINGLE_SOURCE

namespace nullscope {
void add_kernel_headers(const std::vector<kernel_header>&) {}
void detail::compile_kernels(const sycl::queue&, const std::vector<const kernel_description*>&) {}
}  // namespace nullscope

#else

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>

namespace nullscope {

std::vector<kernel_header> library_kernel_headers();  // written by the build, from kernels/

namespace {

namespace compiler = sycl::ext::oneapi::experimental;
using header_map = std::map<std::string, std::string>;  // name -> text

/// Where the embedded headers stand for the run-time compiler: folders of theirs alone. In the current folder, which
/// would be the default, a file `version` or `new` of the user would be taken for the header of C++. The library's own
/// come first and the users' last, so that no header of a user can stand in for one of the library or of C++.
constexpr const char* library_folder = "/nullscope-library-headers";
constexpr const char* user_folder = "/nullscope-user-headers";

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
  header_map library_headers, user_headers;
  std::mutex mutex;  // of what follows, and of user_headers
  std::unordered_map<cache_key, std::shared_future<sycl::kernel>, cache_key_hash> kernels;

  compiler_state() {
    for (auto& [name, text] : library_kernel_headers()) library_headers[name] = text;
  }
};

/// Never destroyed: kernels may outlive the runtime that would release them at exit.
compiler_state& state() {
  static auto* instance = new compiler_state;
  return *instance;
}

/// The known header whose name the path ends with, in whole folders; the longest if there are several.
const std::string* find_header(const header_map& headers, std::string_view path) {
  const std::string* found = nullptr;
  for (const auto& [name, text] : headers) {
    const bool ends_so =
        path.ends_with(name) && (path.size() == name.size() || path[path.size() - name.size() - 1] == '/');
    if (ends_so && (found == nullptr || name.size() > found->size())) found = &name;
  }
  return found;
}

/// Where the kernel's header stands. The library's kernels name theirs from the root of the project: a header of a user
/// whose name is a part of that, or the same, is not meant.
std::string include_path(const detail::kernel_description& kernel, const header_map& user_headers) {
  const std::string* of_library = find_header(state().library_headers, kernel.source);
  const std::string* of_user = find_header(user_headers, kernel.source);
  if (of_library != nullptr &&
      (*of_library == kernel.source || of_user == nullptr || of_user->size() < of_library->size())) {
    return fmt::format("{}/{}", library_folder, *of_library);
  }
  if (of_user != nullptr) return fmt::format("{}/{}", user_folder, *of_user);
  throw compilation_error(
      fmt::format("kernel {}: {} is not known to add_kernel_headers", kernel.type_name, kernel.source));
}

/// The kernel's header, and an entry point for exactly this instantiation: entry_<number>.
std::string entry_point(const detail::kernel_description& kernel, std::size_t number, const std::string& include,
                        const sycl::device& device) {
  std::int64_t size = kernel.sub_group_size;
  if (kernel.one_work_item) {  // the compiler vectorises across work-items all the same: let it be as little as can be
    const std::vector<std::int64_t>& sizes = properties(device).sub_group_sizes;
    if (!sizes.empty()) size = *std::min_element(sizes.begin(), sizes.end());
  }
  const std::string sub_group =
      size > 0 ? fmt::format("SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((ext::experimental::sub_group_size<{}>))\n", size) : "";
  return fmt::format(
      "#include \"{include}\"\n"
      "using kernel_{number} = {type};\n"
      "static_assert(sizeof(kernel_{number}) == {bytes} && alignof(kernel_{number}) == {alignment},\n"
      "              \"the host compiler lays out this kernel differently\");\n"
      "extern \"C\" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((ext::experimental::nd_range_kernel<{dimensions}>))\n"
      "{sub_group}"
      "void entry_{number}(kernel_{number} kernel, sycl::local_accessor<std::byte, 1> local) {{\n"
      "  std::byte* memory = &local[0];\n"
      "  memory += -reinterpret_cast<std::uintptr_t>(memory) & {mask};\n"
      "  kernel(ext::this_work_item::get_nd_item<{dimensions}>(), memory);\n"
      "}}\n",
      fmt::arg("include", include), fmt::arg("number", number), fmt::arg("type", kernel.type_name),
      fmt::arg("bytes", kernel.bytes), fmt::arg("alignment", kernel.alignment),
      fmt::arg("dimensions", kernel.dimensions), fmt::arg("sub_group", sub_group),
      fmt::arg("mask", detail::local_alignment - 1));
}

std::vector<std::string> build_options(const sycl::device& device) {
  // A range may have more than 2^31 work-items.
  std::vector<std::string> options{"-std=c++20", fmt::format("-I{}", library_folder),
                                   fmt::format("-idirafter{}", user_folder), "-fno-sycl-id-queries-fit-in-int"};
#ifdef __x86_64__
  if (device.is_cpu()) {  // its instructions may be used
    options.emplace_back("-DNULLSCOPE_X86_DEVICE");
    if (__builtin_cpu_supports("avx")) options.emplace_back("-DNULLSCOPE_AVX_DEVICE");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
      options.emplace_back("-DNULLSCOPE_AVX512_DEVICE");
    }
  }
#endif
  return options;
}

/// A kernel that this call compiles, and the promise that other threads wait for.
struct request {
  cache_key key;
  std::promise<sycl::kernel> promise;
};

/// Compiles the kernels as one source: most of the time of a compilation goes into the headers that all of them share.
std::vector<sycl::kernel> compile(std::span<request> requests, const header_map& user_headers) {
  const cache_key& first = requests[0].key;
  std::string text = "#include <sycl/sycl.hpp>\nnamespace ext = sycl::ext::oneapi;\n", log;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const detail::kernel_description& kernel = *requests[i].key.kernel;
    text += entry_point(kernel, i, include_path(kernel, user_headers), first.device);
  }
  try {
    compiler::include_files includes;
    for (const auto& [name, content] : state().library_headers) {
      includes.add(fmt::format("{}/{}", library_folder, name), content);
    }
    for (const auto& [name, content] : user_headers) includes.add(fmt::format("{}/{}", user_folder, name), content);
    auto source = compiler::create_kernel_bundle_from_source(first.context, compiler::source_language::sycl, text,
                                                             compiler::properties{includes});
    auto executable = compiler::build(
        source, {first.device},
        compiler::properties{compiler::save_log{&log}, compiler::build_options{build_options(first.device)}});
    std::vector<sycl::kernel> result;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      result.push_back(executable.ext_oneapi_get_kernel(fmt::format("entry_{}", i)));
    }
    return result;
  } catch (const sycl::exception& failure) {
    throw compilation_error(fmt::format("kernel {} of {} does not compile for {}: {}\n{}", first.kernel->type_name,
                                        first.kernel->source, first.device.get_info<sycl::info::device::name>(),
                                        failure.what(), log));
  }
}

/// Keeps the promises of the requests. If they do not compile together, each is tried alone: the error then names the
/// one that fails.
void fulfil(std::span<request> requests, const header_map& user_headers) {
  try {
    const std::vector<sycl::kernel> kernels = compile(requests, user_headers);
    for (std::size_t i = 0; i < requests.size(); ++i) requests[i].promise.set_value(kernels[i]);
  } catch (...) {
    if (requests.size() > 1) {
      for (std::size_t i = 0; i < requests.size(); ++i) fulfil(requests.subspan(i, 1), user_headers);
      return;
    }
    requests[0].promise.set_exception(std::current_exception());
    const std::lock_guard lock(state().mutex);
    state().kernels.erase(requests[0].key);  // callers that wait get the error; a later call retries
  }
}

}  // namespace

void add_kernel_headers(const std::vector<kernel_header>& headers) {
  const std::lock_guard lock(state().mutex);
  header_map known = state().user_headers;
  for (const auto& [name, text] : headers) {
    if (known.emplace(name, text).first->second == text) continue;
    throw invalid_argument(fmt::format("add_kernel_headers: {} is known already, with another text", name));
  }
  state().user_headers = std::move(known);
}

namespace detail {

std::vector<sycl::kernel> compiled_kernels(const sycl::queue& queue,
                                           const std::vector<const kernel_description*>& kernels) {
  std::vector<std::shared_future<sycl::kernel> > futures;
  std::vector<request> requests;
  header_map user_headers;
  {
    const std::lock_guard lock(state().mutex);
    user_headers = state().user_headers;
    for (const kernel_description* kernel : kernels) {
      const cache_key key{kernel, queue.get_context(), queue.get_device()};
      const auto [entry, is_new] = state().kernels.try_emplace(key);
      if (is_new) {
        requests.push_back({key, {}});
        entry->second = requests.back().promise.get_future().share();
      }
      futures.push_back(entry->second);
    }
  }
  // One part per thread, of at most so many kernels that a compiler's memory stays small.
  constexpr std::size_t most = 16;
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t part = std::clamp<std::size_t>((requests.size() + threads - 1) / threads, 1, most);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t begin = part * next++; begin < requests.size(); begin = part * next++) {
      fulfil(std::span(requests).subspan(begin, std::min(part, requests.size() - begin)), user_headers);
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < threads && i * part < requests.size(); ++i) others.emplace_back(work);
    work();
  }
  std::vector<sycl::kernel> result;
  for (const std::shared_future<sycl::kernel>& one : futures) result.push_back(one.get());
  return result;
}

void compile_kernels(const sycl::queue& queue, const std::vector<const kernel_description*>& kernels) {
  compiled_kernels(queue, kernels);
}

}  // namespace detail
}  // namespace nullscope

#endif
