/// Which device a process takes.
#pragma once

#include <cstddef>
#include <nullscope/device.hpp>
#include <string>
#include <vector>

namespace nullscope::cli {

/// The chosen device, or, for further processes on the same machine, the next device like it.
inline sycl::device device_for(const std::string& text, std::size_t place) {
  const sycl::device chosen = select_device(text);
  std::vector<sycl::device> alike;
  std::size_t first = 0;
  for (const sycl::device& device : devices()) {
    if (device == chosen) first = alike.size();
    const device_properties &a = properties(device), &b = properties(chosen);
    if (a.name == b.name && a.backend == b.backend) alike.push_back(device);
  }
  return alike.empty() ? chosen : alike[(first + place) % alike.size()];
}

}  // namespace nullscope::cli
