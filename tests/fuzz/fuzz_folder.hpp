/// A folder of one process, for readers that take the names of files.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace nullscope::test {

class fuzz_folder {
 public:
  fuzz_folder() {
    std::error_code ignored;
    const std::filesystem::path memory = "/dev/shm";  // much faster than a disk, where there is one
    const bool has_memory = std::filesystem::is_directory(memory, ignored);
    std::string name =
        ((has_memory ? memory : std::filesystem::temp_directory_path()) / "nullscope-fuzz-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~fuzz_folder() { std::filesystem::remove_all(path_); }
  fuzz_folder(const fuzz_folder&) = delete;
  fuzz_folder& operator=(const fuzz_folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace nullscope::test
