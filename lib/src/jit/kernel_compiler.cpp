/// Compiles kernels at run time, each once for a context and device, and keeps them on disk. Only a kernel's first
/// launch comes here; after that a context has it.
#include <fmt/format.h>

#include <nullscope/core/errors.hpp>
#include <nullscope/core/operation.hpp>

#include "lib/src/core/context_state.hpp"

#ifdef NULLSCOPE_SINGLE_SOURCE

namespace nullscope {
void add_kernel_headers(const std::vector<kernel_header>&) {}
void detail::compile_kernels(const sycl::queue&, const std::vector<const kernel_description*>&) {}
}  // namespace nullscope

#else

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "lib/src/jit/kernel_cache.hpp"
#include "lib/src/jit/kernel_source.hpp"
#include "lib/src/jit/sha256.hpp"

namespace nullscope {

std::vector<kernel_header> library_kernel_headers();  // written by the build, from kernels/

namespace {

namespace compiler = sycl::ext::oneapi::experimental;
using executable_bundle = sycl::kernel_bundle<sycl::bundle_state::executable>;

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
  const detail::kernel_cache on_disk;
  std::mutex mutex;                                      // of what follows
  std::shared_ptr<const detail::known_headers> headers;  // never changed, only replaced: callers keep the one they got
  std::unordered_map<cache_key, std::shared_future<sycl::kernel>, cache_key_hash> kernels;

  compiler_state() {
    detail::known_headers known;
    for (auto& [name, text] : library_kernel_headers()) known.of_library[name] = text;
    headers = std::make_shared<const detail::known_headers>(std::move(known));
  }
};

/// Never destroyed: kernels may outlive the runtime that would release them at exit.
compiler_state& state() {
  static auto* instance = new compiler_state;
  return *instance;
}

/// A kernel that this call provides, and the promise that other threads wait for.
struct request {
  cache_key key;
  std::promise<sycl::kernel> promise;
  std::shared_future<sycl::kernel> future;
  std::optional<detail::kernel_source> source = {};
};

/// A call that provides kernels for one context and device.
class provider {
 public:
  provider(std::vector<request>& requests, const detail::known_headers& headers)
      : context_(requests[0].key.context), device_(requests[0].key.device), target_(device_) {
    for (request& one : requests) {
      try {
        one.source = detail::source_of(*one.key.kernel, headers, target_);
        missing_.push_back(&one);
      } catch (...) {
        refuse(one);
      }
    }
  }

  /// Keeps the promises of kernels that are on disk.
  void load() {
    std::vector<std::string> keys;
    for (const request* one : missing_) keys.push_back(one->source->key);
    for (detail::kernel_cache::group& group : state().on_disk.find(keys)) {
      try {
        auto bundle = compiler::get_kernel_bundle<sycl::bundle_state::executable>(
            context_, {device_}, sycl::span<char>(group.content.data(), group.content.size()));
        for (const std::size_t member : group.members) {
          missing_[member]->promise.set_value(bundle.ext_oneapi_get_kernel(missing_[member]->source->entry));
          missing_[member]->source.reset();  // done
        }
      } catch (const sycl::exception&) {  // of another version, or damaged: as if it were not there
        for (const std::size_t member : group.members) state().on_disk.remove(keys[member]);
      }
    }
    std::erase_if(missing_, [](const request* one) { return !one->source; });
  }

  /// Compiles the others: one part per thread, of at most so many kernels that a compiler's memory stays small.
  void compile() {
    constexpr std::size_t most = 16;
    const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
    const std::size_t part = std::clamp<std::size_t>((missing_.size() + threads - 1) / threads, 1, most);
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t begin = part * next++; begin < missing_.size(); begin = part * next++) {
        fulfil(std::span(missing_).subspan(begin, std::min(part, missing_.size() - begin)));
      }
    };
    std::vector<std::jthread> others;
    try {
      for (std::size_t i = 1; i < threads && i * part < missing_.size(); ++i) others.emplace_back(work);
    } catch (const std::system_error&) {  // no more threads can be started: those that are there do the work
    }
    work();
  }

  /// Callers that wait get the current exception; a later call retries.
  static void refuse(request& one) {
    {
      const std::lock_guard lock(state().mutex);
      state().kernels.erase(one.key);
    }
    one.promise.set_exception(std::current_exception());
  }

 private:
  /// Keeps the promises of the requests. If they do not compile together, each is tried alone: the error then names
  /// the one that fails.
  void fulfil(std::span<request* const> requests) const {
    try {
      executable_bundle bundle = build(requests);
      std::vector<sycl::kernel> kernels;
      for (const request* one : requests) kernels.push_back(bundle.ext_oneapi_get_kernel(one->source->entry));
      keep(requests, bundle);
      for (std::size_t i = 0; i < requests.size(); ++i) requests[i]->promise.set_value(kernels[i]);
    } catch (...) {
      if (requests.size() > 1) {
        for (std::size_t i = 0; i < requests.size(); ++i) fulfil(requests.subspan(i, 1));
      } else {
        refuse(*requests[0]);
      }
    }
  }

  /// Puts the kernels on disk, for other processes.
  static void keep(std::span<request* const> requests, const executable_bundle& bundle) {
    if (!state().on_disk.is_on()) return;
    std::vector<std::string> keys;
    for (const request* one : requests) keys.push_back(one->source->key);
    try {
      state().on_disk.store(keys, bundle.ext_oneapi_get_content());
    } catch (const sycl::exception&) {  // a device whose code the runtime cannot write down: it is compiled every time
    }
  }

  /// Compiles the kernels as one source: most of the time of a compilation goes into what all of them share.
  executable_bundle build(std::span<request* const> requests) const {
    std::vector<const detail::kernel_source*> sources;
    for (const request* one : requests) sources.push_back(&*one->source);
    const detail::header_map headers = detail::headers_of(sources);
    compiler::include_files includes;
    for (const auto& [path, text] : headers) includes.add(path, text);
    std::vector<std::string> options = target_.options;
    if (state().on_disk.is_on()) options.push_back("--persistent-auto-pch=" + preamble_folder(headers).string());
    std::string log;
    try {
      auto source = compiler::create_kernel_bundle_from_source(
          context_, compiler::source_language::sycl, detail::text_of(sources), compiler::properties{includes});
      return compiler::build(source, {device_},
                             compiler::properties{compiler::save_log{&log}, compiler::build_options{options}});
    } catch (const sycl::exception& failure) {
      const detail::kernel_description& first = *requests[0]->key.kernel;
      throw compilation_error(fmt::format("kernel {} of {} does not compile for {}: {}\n{}", first.type_name,
                                          first.source, device_.get_info<sycl::info::device::name>(), failure.what(),
                                          log));
    }
  }

  /// Where the compiler keeps what it made of the headers that every source begins with. It does not notice when they
  /// change, so the folder's name says which they are.
  std::filesystem::path preamble_folder(const detail::header_map& headers) const {
    detail::sha256 digest;
    digest.add(std::as_bytes(std::span(target_.compiler_identity)));
    digest.add(std::as_bytes(std::span(headers.at(detail::first_header_path()))));
    return state().on_disk.folder() / ("headers-" + digest.finish().substr(0, 16));
  }

  sycl::context context_;
  sycl::device device_;
  detail::kernel_target target_;
  std::vector<request*> missing_;
};

/// What stands for each kernel: a future that is there, or a new one, with a request that this call must answer.
/// Returns the headers as they are now.
std::shared_ptr<const detail::known_headers> find_or_request(
    const sycl::queue& queue, const std::vector<const detail::kernel_description*>& kernels,
    std::vector<std::shared_future<sycl::kernel> >& futures, std::vector<request>& requests) {
  const std::lock_guard lock(state().mutex);
  for (const detail::kernel_description* kernel : kernels) {
    const cache_key key{kernel, queue.get_context(), queue.get_device()};
    auto entry = state().kernels.find(key);
    if (entry == state().kernels.end()) {
      request& one = requests.emplace_back(key);
      one.future = one.promise.get_future().share();
      entry = state().kernels.emplace(key, one.future).first;
    }
    futures.push_back(entry->second);
  }
  return state().headers;
}

bool is_kept(const request& one) {
  return one.future.valid() && one.future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

void add_kernel_headers(const std::vector<kernel_header>& headers) {
  const std::lock_guard lock(state().mutex);
  detail::known_headers known = *state().headers;
  for (const auto& [name, text] : headers) {
    if (known.of_users.emplace(name, text).first->second == text) continue;
    throw invalid_argument(fmt::format("add_kernel_headers: {} is known already, with another text", name));
  }
  state().headers = std::make_shared<const detail::known_headers>(std::move(known));
}

namespace detail {

std::vector<sycl::kernel> compiled_kernels(const sycl::queue& queue,
                                           const std::vector<const kernel_description*>& kernels) {
  std::vector<std::shared_future<sycl::kernel> > futures;
  std::vector<request> requests;
  try {
    const std::shared_ptr<const known_headers> headers = find_or_request(queue, kernels, futures, requests);
    if (!requests.empty()) {
      provider provides(requests, *headers);
      provides.load();
      provides.compile();
    }
  } catch (...) {  // such as a lack of memory: no promise is left open
    for (request& one : requests) {
      if (!is_kept(one)) provider::refuse(one);
    }
    throw;
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
