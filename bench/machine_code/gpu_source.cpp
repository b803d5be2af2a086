#include "bench/machine_code/gpu_source.hpp"

#include <nullscope/core/operation.hpp>

namespace nullscope {

std::vector<kernel_header> library_kernel_headers();  // written by the build, from kernels/

namespace bench {

const detail::known_headers& library_headers() {
  static const detail::known_headers headers = [] {
    detail::known_headers result;
    for (auto& [name, text] : library_kernel_headers()) result.of_library[name] = text;
    return result;
  }();
  return headers;
}

detail::kernel_target gpu_target(const sycl::device& device, std::int64_t least_sub_group) {
  detail::kernel_target target(device);
  std::erase_if(target.options, [](const std::string& option) { return option.starts_with("-DNULLSCOPE_"); });
  target.sub_group_sizes.clear();
  for (std::int64_t size = least_sub_group; size > 0 && size <= 32; size *= 2) target.sub_group_sizes.push_back(size);
  return target;
}

}  // namespace bench
}  // namespace nullscope
