#include "bench/machine_code/kernel_images.hpp"

#include <fmt/format.h>

#include <nullscope/core/errors.hpp>
#include <nullscope/core/operation.hpp>

#include "bench/machine_code/gpu_source.hpp"

namespace nullscope::bench {
namespace {

namespace compiler = sycl::ext::oneapi::experimental;

/// The runtime shows what is in executable images alone, for which the driver of the device at hand would compile every
/// kernel in vain. An image that is compiled but not built holds the same SPIR-V.
struct image_content : sycl::detail::device_image_plain {
  static constexpr auto of = &image_content::ext_oneapi_get_backend_content_view_impl;
};

/// The names of entry points stand in SPIR-V as they are.
kernel_module module_of(const std::pair<const std::byte*, const std::byte*>& content,
                        const std::vector<detail::kernel_source>& sources) {
  kernel_module result;
  result.code.assign(content.first, content.second);
  const std::string_view text(reinterpret_cast<const char*>(result.code.data()), result.code.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (text.find(sources[i].entry) == std::string_view::npos) continue;
    result.kernels.push_back(i);
    result.entries.push_back(sources[i].entry);
  }
  return result;
}

}  // namespace

std::vector<kernel_module> compile_modules(const sycl::device& device,
                                           std::span<const detail::kernel_description* const> kernels,
                                           std::int64_t least_sub_group) {
  const detail::kernel_target target = gpu_target(device, least_sub_group);
  std::vector<detail::kernel_source> sources;
  for (const detail::kernel_description* kernel : kernels) {
    sources.push_back(detail::source_of(*kernel, library_headers(), target));
  }
  std::vector<const detail::kernel_source*> pointers;
  for (const detail::kernel_source& source : sources) pointers.push_back(&source);
  std::string log;
  try {
    compiler::include_files includes;
    for (const auto& [path, text] : detail::headers_of(pointers)) includes.add(path, text);
    auto source = compiler::create_kernel_bundle_from_source(sycl::context(device), compiler::source_language::sycl,
                                                             detail::text_of(pointers), compiler::properties{includes});
    const auto compiled = compiler::compile(
        source, {device}, compiler::properties{compiler::save_log{&log}, compiler::build_options{target.options}});
    std::vector<kernel_module> result;
    for (const auto& image : compiled) result.push_back(module_of((image.*image_content::of)(), sources));
    return result;
  } catch (const sycl::exception& failure) {
    throw compilation_error(fmt::format("{}: {}\n{}", kernels[0]->type_name, failure.what(), log));
  }
}

}  // namespace nullscope::bench
