/// Writes the SPIR-V or PTX of every kernel that the library would launch on a GPU, and an index of them: what
/// machine_code.py hands to the compilers of the vendors.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <thread>

#include "bench/machine_code/kernel_images.hpp"
#include "bench/machine_code/kernel_list.hpp"
#include "bench/machine_code/ptx_code.hpp"

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

/// What is asked for.
struct request {
  std::filesystem::path folder;
  std::string operation;
  int sub_group = 0;
  std::string ptx;                 // the processor; empty: SPIR-V
  std::string engine;              // of matrices
  std::size_t module_kernels = 8;  // most of the time of a module goes into the headers that all share
};

const std::map<std::string, detail::joint_matrix_tile> engines{
    {"xmx", detail::joint_matrix_tile::m8_n16_k16},
    {"xmx-8", detail::joint_matrix_tile::m8_n8_k16},
    {"tensor-cores", detail::joint_matrix_tile::m16_n16_k16_sub_32},
    {"matrix-cores", detail::joint_matrix_tile::m16_n16_k16_sub_64}};

std::vector<bench::kernel_module> modules_of(const sycl::device& device, const request& wanted,
                                             std::span<const detail::kernel_description* const> kernels) {
  if (wanted.ptx.empty()) return bench::compile_modules(device, kernels, wanted.sub_group);
  const bench::ptx_code made = bench::compile_ptx(device, kernels, wanted.ptx);
  const auto bytes = std::as_bytes(std::span(made.text));
  bench::kernel_module result{{bytes.begin(), bytes.end()}, {}, made.entries};
  for (std::size_t i = 0; i < kernels.size(); ++i) result.kernels.push_back(i);
  return {result};
}

/// Compiles `part` as one module; if that fails, each kernel as its own.
nlohmann::json compile(const sycl::device& device, const request& wanted, std::span<const listed_kernel> part,
                       const std::string& name) {
  nlohmann::json entries = nlohmann::json::array();
  std::vector<const detail::kernel_description*> kernels;
  for (const listed_kernel& one : part) kernels.push_back(one.kernel);
  try {
    int number = 0;
    for (const bench::kernel_module& module : modules_of(device, wanted, kernels)) {
      const std::string file = fmt::format("{}_{}.{}", name, number++, wanted.ptx.empty() ? "spv" : "ptx");
      write(wanted.folder / file, module.code);
      for (std::size_t i = 0; i < module.kernels.size(); ++i) {
        entries.push_back(entry_of(part[module.kernels[i]], file, module.entries[i], ""));
      }
    }
  } catch (const compilation_error& failure) {
    if (part.size() == 1) return {entry_of(part[0], "", "", failure.what())};
    for (std::size_t i = 0; i < part.size(); ++i) {
      entries.push_back(compile(device, wanted, part.subspan(i, 1), fmt::format("{}_alone_{}", name, i))[0]);
    }
  }
  return entries;
}

int list_and_compile(const request& wanted) {
  const sycl::device device = select_device("cpu");
  const auto engine = engines.find(wanted.engine);
  std::vector<listed_kernel> kernels =
      bench::gpu_kernels(device, engine == engines.end() ? std::nullopt : std::optional(engine->second));
  std::erase_if(kernels, [&](const listed_kernel& one) { return !is_asked_for(one, wanted.operation); });
  if (kernels.empty()) {
    fmt::print(stderr, "kernel_images: no kernel or operation has {} in its name\n", wanted.operation);
    return 2;
  }
  std::filesystem::create_directories(wanted.folder);
  nlohmann::json index = nlohmann::json::array();
  std::mutex mutex;
  std::atomic<std::size_t> next = 0, done = 0;
  const bool is_terminal = isatty(2) != 0;
  const auto work = [&] {
    const std::size_t most = wanted.module_kernels;
    for (std::size_t begin = most * next++; begin < kernels.size(); begin = most * next++) {
      const std::size_t count = std::min(most, kernels.size() - begin);
      const auto entries =
          compile(device, wanted, std::span(kernels).subspan(begin, count), fmt::format("module_{}", begin / most));
      const std::lock_guard lock(mutex);
      index.insert(index.end(), entries.begin(), entries.end());
      done += count;
      if (is_terminal) fmt::print(stderr, "\r{} of {} kernels", done.load(), kernels.size());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  }
  if (is_terminal) fmt::print(stderr, "\n");
  std::ofstream(wanted.folder / "index.json") << index.dump(1) << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes the SPIR-V or PTX of the kernels that the library would launch on a GPU.");
  request wanted;
  app.add_option("folder", wanted.folder, "Where the modules and index.json go")->required();
  app.add_option("--operation", wanted.operation, "Only kernels whose operation or name contains this");
  app.add_option("--smallest-sub-group", wanted.sub_group, "What kernels of one work-item ask for (default: nothing)");
  app.add_option("--ptx", wanted.ptx, "PTX for this processor, such as sm_80 (default: SPIR-V)");
  app.add_option("--matrix-engine", wanted.engine, "Also the kernels for this one")
      ->check(CLI::IsMember({"xmx", "xmx-8", "tensor-cores", "matrix-cores"}));
  app.add_option("--module-kernels", wanted.module_kernels, "Kernels in one module (default 8)")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return list_and_compile(wanted);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "kernel_images: {}\n", failure.what());
    return 1;
  }
}
