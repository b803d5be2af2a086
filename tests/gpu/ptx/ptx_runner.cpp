#include "tests/gpu/ptx/ptx_runner.hpp"

#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "bench/machine_code/ptx_code.hpp"
#include "tests/gpu/ptx/build.hpp"

namespace nullscope::ptx {
namespace {

device_properties a100() {
  device_properties result{};
  result.name = "A100 (executed on the host)";
  result.vendor = "NVIDIA Corporation";
  result.backend = "ext_oneapi_cuda";
  result.kind = device_kind::gpu;
  result.fp64 = result.fp16 = true;
  result.bf16_tiles = {{16, 16, 16, 16, 16, 16}};
  result.sub_group_sizes = {lanes};
  result.compute_units = 108;
  result.max_work_group_size = 1024;
  result.local_memory_bytes = 48 << 10;
  result.global_memory_bytes = std::int64_t{80} << 30;
  result.max_allocation_bytes = std::int64_t{80} << 30;
  return result;
}

/// A copy at an address that suits every functor, as the library would make one on the device.
class aligned_copy {
 public:
  explicit aligned_copy(std::span<const std::byte> bytes) : memory_(bytes.size() + alignment) {
    void* at = memory_.data();
    std::size_t space = memory_.size();
    address_ = std::align(alignment, bytes.size(), at, space);
    std::memcpy(address_, bytes.data(), bytes.size());
  }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(address_); }

 private:
  static constexpr std::size_t alignment = 64;
  std::vector<std::byte> memory_;
  void* address_;
};

}  // namespace

/// The text must stay where it is: code and module point into it.
struct ptx_runner::compiled_module {
  std::string text;
  module parsed;
};
struct ptx_runner::compiled_kernel {
  kernel_code code;
};

ptx_runner::ptx_runner(const sycl::device& host, std::string processor)
    : host_(host), processor_(std::move(processor)), device_(a100()) {}
ptx_runner::~ptx_runner() = default;

void ptx_runner::prepare(const std::vector<const detail::kernel_description*>& kernels) {
  std::vector<const detail::kernel_description*> missing;
  for (const auto* kernel : kernels) {
    if (!kernels_.contains(kernel)) missing.push_back(kernel);
  }
  if (missing.empty()) return;
  bench::ptx_code code = bench::compile_ptx(host_, missing, processor_);
  auto made = std::make_unique<compiled_module>();
  made->text = change_ ? change_(std::move(code.text)) : std::move(code.text);
  made->parsed = parse_module(made->text);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    kernels_.emplace(missing[i], compiled_kernel{build_kernel(made->parsed, bench::ptx_prefix + code.entries[i])});
  }
  modules_.push_back(std::move(made));
}

void ptx_runner::run(const detail::kernel_description& kernel, const sycl::nd_range<1>& range, std::size_t local_bytes,
                     std::span<const std::byte> functor) {
  prepare({&kernel});
  const kernel_code& code = kernels_.at(&kernel).code;
  const aligned_copy argument(functor);
  const std::uint64_t address = argument.address();
  const parameter local = code.parameters.at(1);  // where the launch's memory begins in what it adds: at 0
  std::vector<std::byte> parameters(local.offset + local.bytes);
  std::memcpy(parameters.data() + code.parameters[0].offset, &address, sizeof(address));
  try {
    const counts counted = execute(code, parameters, static_cast<std::uint32_t>(range.get_group_range()[0]),
                                   static_cast<std::uint32_t>(range.get_local_range()[0]), local_bytes);
    kernel_counts& sum = counted_[kernel.type_name];
    sum.counted += counted;
    ++sum.launches;
  } catch (const failure& why) {
    throw failure(fmt::format("{}: {}", kernel.type_name, why.what()));
  }
}

context executing_context(const sycl::queue& queue, ptx_runner& runner) {
  context result(queue, lane_layout::work_items(runner.device()));
  detail::run_kernels_by(result, runner);
  return result;
}

}  // namespace nullscope::ptx
