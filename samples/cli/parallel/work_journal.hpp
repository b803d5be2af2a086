/// Keeps the finished work of an interrupted run: each finished unit becomes a line of a file, and is on the disk
/// before the next one is accepted.
///
/// A line is a checksum, a blank and JSON: first {"settings": ...}, then {"unit": number, "rows": ...} in the order in
/// which units were finished. An incomplete line, after a kill or on a full disk, fails its checksum and is dropped.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "common/files.hpp"

namespace nullscope::cli {

class work_journal {
 public:
  /// Begins a journal at `path` and replaces an existing one. Throws file_error.
  static work_journal begin(const std::filesystem::path& path, const nlohmann::ordered_json& settings,
                            std::size_t units);

  /// Continues the journal at `path`; std::nullopt if it does not contain its settings. Throws invalid_argument with
  /// the name of the setting if they differ.
  static std::optional<work_journal> resume(const std::filesystem::path& path, const nlohmann::ordered_json& settings,
                                            std::size_t units);

  /// The rows of each unit; null if it has not been computed.
  const std::vector<nlohmann::json>& kept() const { return kept_; }

  /// The unit is on the disk when this returns. After an error the journal is as it was.
  void append(std::size_t unit, const nlohmann::json& rows);

 private:
  explicit work_journal(const std::filesystem::path& path, bool is_new);
  void append_line(const std::string& json);

  std::filesystem::path path_;
  file_handle file_;
  std::vector<nlohmann::json> kept_;
  std::int64_t good_bytes_ = 0;  // up to the end of the last complete line
};

/// Throws invalid_argument with the name of the first setting that differs.
void expect_same_settings(const std::filesystem::path& where, const nlohmann::ordered_json& there,
                          const nlohmann::ordered_json& wanted);

}  // namespace nullscope::cli
