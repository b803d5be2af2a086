/// Keeps the finished work of an interrupted run: each finished unit becomes a line of a file, and is on the disk
/// before the next one is accepted. The file is <output>.journal, or <folder>/<command>.journal.
///
/// A line is a checksum, a blank and JSON: first {"settings": ...}, then {"unit": number, "rows": ...} in the order in
/// which units were finished. An incomplete line, after a kill or on a full disk, fails its checksum and is dropped.
///
///   if (is_finished(place, settings, rerun)) return;     // place.journal is the path
///   work_journal journal = work_journal::open(path, place.journal_settings(settings), units, rerun);
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "lib/cli/common/files.hpp"
#include "lib/cli/common/previous_work.hpp"

namespace nullscope::cli {

class work_journal {
 public:
  /// Whether there is a journal of an unfinished run with these settings. An empty file does not count.
  /// Throws invalid_argument with the name of the setting that differs, and file_error: another process is writing the
  /// journal, or its first line is damaged.
  static bool has_work(const std::filesystem::path& path, const nlohmann::ordered_json& settings);

  /// With --resume, continues the journal at `path`, if it has work; with --overwrite begins an empty one, whatever is
  /// there. Throws as has_work does, and file_error if there is work and neither is given; then it is untouched.
  static work_journal open(const std::filesystem::path& path, const nlohmann::ordered_json& settings, std::size_t units,
                           const rerun_options& options);

  /// The rows of each unit; null if it has not been computed.
  const std::vector<nlohmann::json>& kept() const { return kept_; }

  /// The unit is on the disk when this returns. After an error the journal is as it was.
  void append(std::size_t unit, const nlohmann::json& rows);

 private:
  explicit work_journal(const std::filesystem::path& path, int flags);
  void begin(const nlohmann::ordered_json& settings);
  void resume(std::string_view text);
  void append_line(const std::string& json);

  std::filesystem::path path_;
  file_handle file_;
  std::vector<nlohmann::json> kept_;
  std::int64_t good_bytes_ = 0;  // up to the end of the last complete line
};

}  // namespace nullscope::cli
