#include "bench/machine_code/ptx_code.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nullscope/core/errors.hpp>
#include <sstream>

#include "bench/machine_code/gpu_source.hpp"

namespace nullscope::bench {
namespace {

namespace files = std::filesystem;

/// A folder that lives as long as this.
class temporary_folder {
 public:
  temporary_folder() {
    std::string pattern = (files::temp_directory_path() / "nullscope-ptx-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw file_error("no temporary folder can be made at " + pattern);
    path_ = pattern;
  }
  ~temporary_folder() {
    std::error_code ignored;
    files::remove_all(path_, ignored);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  files::path operator/(const std::string& name) const { return path_ / name; }

 private:
  files::path path_;
};

void write(const files::path& path, const std::string& text) {
  files::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  if (!(out << text).flush()) throw file_error(path.string() + " cannot be written");
}

std::string text_of(const files::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

ptx_code compile_ptx(const sycl::device& device, std::span<const detail::kernel_description* const> kernels,
                     const std::string& processor) {
  detail::kernel_target target = gpu_target(device, 32);
  target.passes_address = true;
  std::vector<detail::kernel_source> sources;
  for (const auto* kernel : kernels) sources.push_back(detail::source_of(*kernel, library_headers(), target));
  std::vector<const detail::kernel_source*> pointers;
  ptx_code result;
  for (const detail::kernel_source& source : sources) {
    pointers.push_back(&source);
    result.entries.push_back(source.entry);
  }
  const temporary_folder folder;
  write(folder / "kernels.cpp", detail::text_of(pointers));
  for (const auto& [path, text] : detail::headers_of(pointers)) write(folder / ("headers" + path), text);
  const std::string command =
      fmt::format("'{}' '{}' '{}' '{}' {} '{}' '{}' > '{}' 2>&1", NULLSCOPE_PTX_COMPILER,
                  (folder / "kernels.cpp").string(), (folder / "headers").string(), (folder / "kernels.ptx").string(),
                  processor, NULLSCOPE_CUDA_FOLDER, fmt::join(target.options, "' '"), (folder / "log").string());
  if (std::system(command.c_str()) != 0) {  // also if it crashes
    throw compilation_error(fmt::format("{}: no PTX: {}", kernels[0]->type_name, text_of(folder / "log")));
  }
  result.text = text_of(folder / "kernels.ptx");
  return result;
}

}  // namespace nullscope::bench
