/// Writes the SPIR-V of every kernel that the library would launch on a GPU, and an index of them: what
/// machine_code.py hands to the compilers of the vendors.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <thread>

#include "bench/machine_code/kernel_images.hpp"
#include "bench/machine_code/kernel_list.hpp"

namespace {

using namespace nullscope;
using bench::listed_kernel;

bool is_asked_for(const listed_kernel& kernel, const std::string& text) {
  if (text.empty() || kernel.kernel->type_name.find(text) != std::string_view::npos) return true;
  return std::any_of(kernel.operations.begin(), kernel.operations.end(),
                     [&](const std::string& operation) { return operation.find(text) != std::string::npos; });
}

void write(const std::filesystem::path& file, const std::vector<std::byte>& bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw file_error(file.string() + " cannot be written");
}

std::string file_of(const listed_kernel& kernel) {
  const std::string_view source = kernel.kernel->source;
  return std::string(source.substr(source.rfind("kernels/")));
}

/// An entry of the index. If the kernel does not compile, it has no file, and `error` says why.
nlohmann::json entry_of(const listed_kernel& kernel, const std::string& file, const std::string& entry,
                        const std::string& error) {
  return {{"kernel", kernel.kernel->type_name},
          {"source", file_of(kernel)},
          {"operations", kernel.operations},
          {"file", file},
          {"entry", entry},
          {"error", error}};
}

/// Compiles `part` as one module; if that fails, each kernel as its own.
nlohmann::json compile(const sycl::device& device, std::span<const listed_kernel> part, int sub_group,
                       const std::filesystem::path& folder, const std::string& name) {
  nlohmann::json entries = nlohmann::json::array();
  std::vector<const detail::kernel_description*> kernels;
  for (const listed_kernel& one : part) kernels.push_back(one.kernel);
  try {
    int number = 0;
    for (const bench::kernel_module& module : bench::compile_modules(device, kernels, sub_group)) {
      const std::string file = fmt::format("{}_{}.spv", name, number++);
      write(folder / file, module.spirv);
      for (std::size_t i = 0; i < module.kernels.size(); ++i) {
        entries.push_back(entry_of(part[module.kernels[i]], file, module.entries[i], ""));
      }
    }
  } catch (const compilation_error& failure) {
    if (part.size() == 1) return {entry_of(part[0], "", "", failure.what())};
    for (std::size_t i = 0; i < part.size(); ++i) {
      entries.push_back(compile(device, part.subspan(i, 1), sub_group, folder, fmt::format("{}_alone_{}", name, i))[0]);
    }
  }
  return entries;
}

int list_and_compile(const std::filesystem::path& folder, const std::string& operation, int sub_group,
                     std::size_t module_kernels) {
  const sycl::device device = select_device("cpu");
  std::vector<listed_kernel> kernels = bench::gpu_kernels(device);
  std::erase_if(kernels, [&](const listed_kernel& one) { return !is_asked_for(one, operation); });
  if (kernels.empty()) {
    fmt::print(stderr, "kernel_images: no kernel or operation has {} in its name\n", operation);
    return 2;
  }
  std::filesystem::create_directories(folder);
  nlohmann::json index = nlohmann::json::array();
  std::mutex mutex;
  std::atomic<std::size_t> next = 0, done = 0;
  const bool is_terminal = isatty(2) != 0;
  const auto work = [&] {
    for (std::size_t begin = module_kernels * next++; begin < kernels.size(); begin = module_kernels * next++) {
      const std::size_t count = std::min(module_kernels, kernels.size() - begin);
      const auto entries = compile(device, std::span(kernels).subspan(begin, count), sub_group, folder,
                                   fmt::format("module_{}", begin / module_kernels));
      const std::lock_guard lock(mutex);
      index.insert(index.end(), entries.begin(), entries.end());
      done += count;
      if (is_terminal) fmt::print(stderr, "\rSPIR-V of {} of {} kernels", done.load(), kernels.size());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  }
  if (is_terminal) fmt::print(stderr, "\n");
  std::ofstream(folder / "index.json") << index.dump(1) << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes the SPIR-V of the kernels that the library would launch on a GPU.");
  std::string folder, operation;
  int sub_group = 0;
  std::size_t module_kernels = 8;  // most of the time of a module goes into the headers that all share
  app.add_option("folder", folder, "Where the modules and index.json go")->required();
  app.add_option("--operation", operation, "Only kernels whose operation or name contains this");
  app.add_option("--smallest-sub-group", sub_group, "What kernels of one work-item ask for (default: nothing)");
  app.add_option("--module-kernels", module_kernels, "Kernels in one module (default 8)")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return list_and_compile(folder, operation, sub_group, module_kernels);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "kernel_images: {}\n", failure.what());
    return 1;
  }
}
