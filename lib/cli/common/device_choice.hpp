/// Which devices a process uses.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <string>
#include <vector>

namespace nullscope::cli {

/// Whether both give the same bits.
inline bool are_alike(const sycl::device& a, const sycl::device& b) {
  const device_properties &x = properties(a), &y = properties(b);
  return x.name == y.name && x.backend == y.backend && x.driver == y.driver && x.compute_units == y.compute_units;
}

/// All devices like this one. The first process that chooses it gets it, the next one the device after it, and so on.
inline std::vector<sycl::device> devices_like(const sycl::device& chosen) {
  std::vector<sycl::device> before, from;
  for (const sycl::device& device : devices()) {
    const device_properties &a = properties(device), &b = properties(chosen);
    if (device == chosen || !from.empty()) {
      if (a.name == b.name && a.backend == b.backend) from.push_back(device);
    } else if (a.name == b.name && a.backend == b.backend) {
      before.push_back(device);
    }
  }
  from.insert(from.end(), before.begin(), before.end());
  if (from.empty()) from.push_back(chosen);
  return from;
}

/// The chosen device, or, for further processes on the same machine, the next device like it.
inline sycl::device device_for(const std::string& text, std::size_t place) {
  const std::vector<sycl::device> alike = devices_like(select_device(text));
  return alike[place % alike.size()];
}

/// "all": all devices like the one that is chosen without an option; a list with commas, as "gpu:0,gpu:2": these; a
/// device may be in it twice. Anything else: one device. The processes on a machine share them. Throws invalid_argument
/// if they are not alike: the results would depend on which device computed what.
inline std::vector<sycl::device> devices_for(const std::string& text, std::size_t place, std::size_t processes) {
  std::vector<sycl::device> all;
  if (text == "all") {
    all = devices_like(select_device());
  } else if (text.find(',') == std::string::npos) {
    return {device_for(text, place)};
  } else {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      all.push_back(select_device(text.substr(at, end - at)));
      at = end + 1;
    }
  }
  for (const sycl::device& device : all) {
    if (are_alike(device, all[0])) continue;
    throw invalid_argument(
        fmt::format("--device {}: {} and {} are not alike; the results would depend on which of them computed what",
                    text, properties(all[0]).name, properties(device).name));
  }
  if (processes > all.size()) return {all[place % all.size()]};
  std::vector<sycl::device> mine;
  for (std::size_t i = place; i < all.size(); i += processes) mine.push_back(all[i]);
  return mine;
}

}  // namespace nullscope::cli
