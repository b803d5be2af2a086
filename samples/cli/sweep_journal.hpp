/// What keeps an interrupted sweep from losing anything: each finished unit is a line of a file, on the disk before the
/// next one counts.
///
/// A line is a checksum, a blank and JSON: first {"settings": ...}, then {"unit": number, "rows": ...} in the order in
/// which units were finished. A line that a kill or a full disk has torn fails its checksum, and is dropped.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "files.hpp"

namespace nullscope::cli {

class sweep_journal {
 public:
  /// Begins a journal at `path`; one that is there is replaced. Throws file_error.
  static sweep_journal begin(const std::filesystem::path& path, const nlohmann::ordered_json& settings,
                             std::size_t units);

  /// Goes on with the journal at `path`; std::nullopt if it does not even hold its settings. Throws invalid_argument,
  /// naming the setting, if they are not these.
  static std::optional<sweep_journal> resume(const std::filesystem::path& path, const nlohmann::ordered_json& settings,
                                             std::size_t units);

  /// The rows of each unit; null for those that are still to be computed.
  const std::vector<nlohmann::json>& kept() const { return kept_; }

  /// The unit is on the disk when this returns. On an error the journal stays as it was.
  void append(std::size_t unit, const nlohmann::json& rows);

 private:
  explicit sweep_journal(const std::filesystem::path& path, bool is_new);
  void append_line(const std::string& json);

  std::filesystem::path path_;
  file_handle file_;
  std::vector<nlohmann::json> kept_;
  std::int64_t good_bytes_ = 0;  // after the last line that is whole
};

/// Throws invalid_argument that names the first setting that differs.
void expect_same_settings(const std::filesystem::path& where, const nlohmann::ordered_json& there,
                          const nlohmann::ordered_json& wanted);

}  // namespace nullscope::cli
