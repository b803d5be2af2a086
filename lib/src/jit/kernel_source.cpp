#include "lib/src/jit/kernel_source.hpp"

#ifndef NULLSCOPE_SINGLE_SOURCE

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <string_view>

#include "lib/src/core/kernel_arguments.hpp"
#include "lib/src/core/process_setup.hpp"
#include "lib/src/jit/gpu_target.hpp"
#include "lib/src/jit/sha256.hpp"
#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace nullscope::detail {
namespace {

/// Where the embedded headers stand for the run-time compiler: folders of theirs alone. In the current folder, which
/// would be the default, a file `version` or `new` of the user would be taken for the header of C++. The library's own
/// come first and the users' last, so that no header of a user can stand in for one of the library or of C++.
constexpr const char* library_folder = "/nullscope-library-headers";
constexpr const char* user_folder = "/nullscope-user-headers";

/// What every source begins with, among the library's headers: the part of SYCL that device code uses.
constexpr const char* first_header = "sycl/sycl.hpp";

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

/// The names in the #include lines of a header.
std::vector<std::string> included_names(std::string_view text) {
  constexpr std::string_view directive = "#include";
  std::vector<std::string> names;
  for (std::size_t at = text.find(directive); at != std::string_view::npos; at = text.find(directive, at + 1)) {
    const std::size_t begin = text.find_first_of("\"<\n", at);
    if (begin == std::string_view::npos || text[begin] == '\n') continue;
    const std::size_t end = text.find_first_of("\">\n", begin + 1);
    if (end != std::string_view::npos) names.emplace_back(text.substr(begin + 1, end - begin - 1));
  }
  return names;
}

/// Adds the library's header and all headers of the library that it includes, directly or not.
void add_with_includes(const header_map& library, const std::string& name, header_map& added) {
  const auto found = library.find(name);
  if (found == library.end()) return;  // of SYCL or C++
  if (!added.emplace(fmt::format("{}/{}", library_folder, name), found->second).second) return;
  for (const std::string& included : included_names(found->second)) add_with_includes(library, included, added);
}

/// Where the kernel's header stands, and all headers that it may include. The library's kernels name theirs from the
/// root of the project: a header of a user whose name is a part of that, or the same, is not meant. What a user's
/// header includes is not followed: such a kernel gets all of the users' headers.
std::string add_headers(const kernel_description& kernel, const known_headers& known, header_map& added) {
  add_with_includes(known.of_library, first_header, added);
  const std::string* of_library = find_header(known.of_library, kernel.source);
  const std::string* of_user = find_header(known.of_users, kernel.source);
  if (of_library != nullptr &&
      (*of_library == kernel.source || of_user == nullptr || of_user->size() < of_library->size())) {
    add_with_includes(known.of_library, *of_library, added);
    return fmt::format("{}/{}", library_folder, *of_library);
  }
  if (of_user == nullptr) {
    throw compilation_error(
        fmt::format("kernel {}: {} is not known to add_kernel_headers", kernel.type_name, kernel.source));
  }
  for (const auto& [name, text] : known.of_users) {
    added.emplace(fmt::format("{}/{}", user_folder, name), text);
    for (const std::string& included : included_names(text)) add_with_includes(known.of_library, included, added);
  }
  return fmt::format("{}/{}", user_folder, *of_user);
}

/// The smallest of the sizes, from 8 on, at which GPUs begin.
std::int64_t narrow_size(const std::vector<std::int64_t>& sizes) {
  std::int64_t narrow = 0;
  for (const std::int64_t size : sizes) {
    if (size >= 8 && (narrow == 0 || size < narrow)) narrow = size;
  }
  return narrow;
}

/// The size to ask for; 0: the compiler chooses.
std::int64_t sub_group_size(const kernel_description& kernel, const kernel_target& target) {
  const std::vector<std::int64_t>& sizes = target.sub_group_sizes;
  if (sizes.empty()) return kernel.one_work_item ? 0 : std::max(kernel.sub_group_size, 0);
  // A compiler vectorises across work-items even if there is one: let it be as little as can be.
  if (kernel.one_work_item) return *std::min_element(sizes.begin(), sizes.end());
  if (kernel.sub_group_size < 0) return narrow_size(sizes);
  const bool is_known = std::find(sizes.begin(), sizes.end(), kernel.sub_group_size) != sizes.end();
  return is_known ? kernel.sub_group_size : 0;  // a wish, not a need
}

/// The instructions of this machine's CPU, as its own feature words: CPUs of one name may differ in a virtual machine.
std::string instruction_set() {
  std::string words;
#ifdef __x86_64__
  for (const auto& [leaf, subleaf] : {std::pair(1u, 0u), std::pair(7u, 0u), std::pair(7u, 1u)}) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid_count(leaf, subleaf, &a, &b, &c, &d);
    if (leaf == 1) b = 0;  // holds the number of the core that asks
    words += fmt::format("{:x} {:x} {:x} {:x} ", a, b, c, d);
  }
#endif
  return words;
}

/// The runtime that brings the compiler, by its file: its version alone does not tell one build from another.
std::string runtime_build() {
  std::error_code ignored;
  const std::filesystem::path folder = runtime_folder();
  std::string text = fmt::format("{} ", __SYCL_COMPILER_VERSION);
  for (const char* library : {"libsycl.so", "libsycl-jit.so"}) {
    const auto path = std::filesystem::canonical(folder / library, ignored);
    const auto time = std::filesystem::last_write_time(path, ignored).time_since_epoch().count();
    text += fmt::format("{} {} {} ", path.filename().string(), std::filesystem::file_size(path, ignored), time);
  }
  return text;
}

/// The function that the kernel is launched by.
std::string entry_point(const kernel_description& kernel, std::string_view include, const kernel_target& target,
                        std::string_view name) {
  const std::int64_t size = sub_group_size(kernel, target);
  const std::string sub_group =
      size > 0 ? fmt::format("SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((ext::experimental::sub_group_size<{}>))\n", size) : "";
  return fmt::format(
      "#include \"{include}\"\n"
      "using type_of_{name} = {type};\n"
      "static_assert(sizeof(type_of_{name}) == {bytes} && alignof(type_of_{name}) == {alignment},\n"
      "              \"the host compiler lays out this kernel differently\");\n"
      "extern \"C\" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((ext::experimental::nd_range_kernel<1>))\n"
      "{sub_group}"
      "void {name}(const type_of_{name}{pointer} argument, ext::experimental::work_group_memory<std::byte[]> local) "
      "{{\n"
      "  const type_of_{name}{reference} kernel = {pointer}argument;\n"  // a copy would stand in a GPU's memory
      "  std::byte* memory = &static_cast<std::byte(&)[]>(local)[0];\n"
      "  memory += -reinterpret_cast<std::uintptr_t>(memory) & {mask};\n"
      "  kernel(ext::this_work_item::get_nd_item<1>(), memory);\n"
      "}}\n",
      fmt::arg("include", include), fmt::arg("name", name), fmt::arg("type", kernel.type_name),
      fmt::arg("bytes", kernel.bytes), fmt::arg("alignment", kernel.alignment), fmt::arg("sub_group", sub_group),
      fmt::arg("pointer", target.passes_address ? "*" : ""), fmt::arg("reference", target.passes_address ? "&" : ""),
      fmt::arg("mask", local_alignment - 1));
}

}  // namespace

std::vector<std::string> x86_options([[maybe_unused]] std::string_view platform_vendor) {
  std::vector<std::string> options;
#ifdef __x86_64__
  if (!platform_vendor.starts_with("Intel")) return options;
  options.emplace_back("-DNULLSCOPE_X86_DEVICE");
  if (__builtin_cpu_supports("avx")) options.emplace_back("-DNULLSCOPE_AVX_DEVICE");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    options.emplace_back("-DNULLSCOPE_AVX512_DEVICE");
  }
#endif
  return options;
}

kernel_target::kernel_target(const sycl::device& device)
    // A range may have more than 2^31 work-items.
    : options{"-std=c++20", fmt::format("-I{}", library_folder), fmt::format("-idirafter{}", user_folder),
              "-fno-sycl-id-queries-fit-in-int"} {
  namespace info = sycl::info;
  const sycl::platform platform = device.get_platform();
  if (device.is_cpu()) {
    options.emplace_back("-DNULLSCOPE_NO_SHUFFLES");
    std::ranges::copy(x86_options(platform.get_info<info::platform::vendor>()), std::back_inserter(options));
  }
  sub_group_sizes = properties(device).sub_group_sizes;
  passes_address = detail::passes_address(device);
  const gpu_target gpu = tell_compiler_the_target(device);
  compiler_identity =
      fmt::format("{}\n{}\n{} {}", runtime_build(), fmt::join(options, " "), gpu.processor, gpu.features);
  identity = fmt::format("{}\n{}\n{} {}\n{} {}\n", compiler_identity, device.is_cpu() ? instruction_set() : "",
                         platform.get_info<info::platform::name>(), platform.get_info<info::platform::version>(),
                         device.get_info<info::device::name>(), device.get_info<info::device::driver_version>());
}

kernel_source source_of(const kernel_description& kernel, const known_headers& headers, const kernel_target& target) {
  kernel_source source;
  const std::string include = add_headers(kernel, headers, source.headers);
  sha256 digest;
  const auto add = [&digest](std::string_view text) {
    digest.add(std::as_bytes(std::span(text)));
    digest.add(std::as_bytes(std::span("", 1)));  // so that two texts are not taken for one
  };
  add(target.identity);
  add(entry_point(kernel, include, target, ""));
  for (const auto& [path, text] : source.headers) {
    add(path);
    add(text);
  }
  source.key = digest.finish();
  source.entry = fmt::format("kernel_{}", source.key.substr(0, 24));
  source.code = entry_point(kernel, include, target, source.entry);
  return source;
}

std::string first_header_path() { return fmt::format("{}/{}", library_folder, first_header); }

header_map headers_of(std::span<const kernel_source* const> sources) {
  header_map all;
  for (const kernel_source* source : sources) all.insert(source->headers.begin(), source->headers.end());
  return all;
}

std::string text_of(std::span<const kernel_source* const> sources) {
  std::string text = fmt::format("#include <{}>\nnamespace ext = sycl::ext::oneapi;\n", first_header);
  for (const kernel_source* source : sources) text += source->code;
  return text;
}

}  // namespace nullscope::detail

#endif
