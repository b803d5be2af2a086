/// The text from which a kernel is compiled at run time, and what its machine code depends on.
#pragma once

#ifndef NULLSCOPE_SINGLE_SOURCE

#include <map>
#include <nullscope/core/kernel.hpp>
#include <span>
#include <string>
#include <string_view>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope::detail {

using header_map = std::map<std::string, std::string>;  ///< name -> text

/// The headers that kernels may include.
struct known_headers {
  header_map of_library, of_users;
};

/// A kernel as the run-time compiler sees it.
struct kernel_source {
  std::string entry;   ///< the name of its entry point, unlike that of any other kernel
  std::string code;    ///< includes the kernel's header and defines the entry point
  header_map headers;  ///< path -> text of all that it includes, directly or not
  std::string key;     ///< in hexadecimal; differs where the machine code may differ
};

/// What the machine code of every kernel for a device depends on: compiler, driver, instruction set, options.
struct kernel_target {
  explicit kernel_target(const sycl::device& device);

  std::vector<std::string> options;  ///< of the run-time compiler
  std::vector<std::int64_t> sub_group_sizes;
  bool passes_address;            ///< kernels get the address of their functor
  std::string identity;           ///< text that is the same for the same target only
  std::string compiler_identity;  ///< the part of it that the front end depends on
};

/// Options that let kernels use the host CPU's own instructions (kernels/simd/pack_x86.hpp), for a CPU whose platform
/// has this vendor. Empty unless the vendor is Intel: PoCL's compiler aborts the process on inline assembly.
std::vector<std::string> x86_options(std::string_view platform_vendor);

/// Throws compilation_error if the kernel's header is not known.
kernel_source source_of(const kernel_description& kernel, const known_headers& headers, const kernel_target& target);

/// The headers of several sources, each once.
header_map headers_of(std::span<const kernel_source* const> sources);

/// The path of the header that every source begins with.
std::string first_header_path();

/// What the sources have in common comes first: a compiler can keep it.
std::string text_of(std::span<const kernel_source* const> sources);

}  // namespace nullscope::detail

#endif
