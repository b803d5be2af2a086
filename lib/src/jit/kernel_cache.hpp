/// Compiled kernels on disk, so that only the first program that uses a kernel waits for the compiler.
///
/// The folder is NULLSCOPE_KERNEL_CACHE if that is set (empty: nothing is kept), otherwise
/// XDG_CACHE_HOME/nullscope/kernels or HOME/.cache/nullscope/kernels. A file is a SYCLBIN image of kernels that were
/// compiled together; it has one name per kernel, its key, all hard links to the same content. Files appear whole or
/// not at all, so that any number of processes may share the folder. Files that cannot be written or read are no error:
/// the kernel is compiled.
#pragma once

#ifndef NULLSCOPE_SINGLE_SOURCE

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace nullscope::detail {

class kernel_cache {
 public:
  kernel_cache();

  bool is_on() const { return !folder_.empty(); }
  const std::filesystem::path& folder() const { return folder_; }

  /// One content for the kernels with these indices.
  struct group {
    std::vector<char> content;
    std::vector<std::size_t> members;
  };
  /// The contents that hold kernels with these keys. Kernels that are in none are in no group.
  std::vector<group> find(std::span<const std::string> keys) const;

  /// Keeps a content under the keys of its kernels.
  void store(std::span<const std::string> keys, std::span<const char> content) const;

  /// Forgets a kernel whose content turned out to be of no use.
  void remove(const std::string& key) const;

 private:
  std::filesystem::path path_of(const std::string& key) const { return folder_ / (key + ".syclbin"); }
  void remove_oldest() const;

  std::filesystem::path folder_;
};

}  // namespace nullscope::detail

#endif
