/// What a command does when its output exists already. The same rule for every command:
///
///   finished with the same settings      says so, computes nothing, exit code 0
///   finished with other settings, or     exit code 1, naming the setting or the file; nothing is touched
///   a file that is not ours
///   unfinished (there is a journal)      exit code 1, naming --resume, which continues it
///   --overwrite                          starts over, whatever is there
///
///   const output_place place{.result = path, .settings = settings_in_safetensors};
///   if (is_finished(place, settings, command.rerun)) return;
///   ...                                                       // compute
///   write_safetensors(path, entries, metadata_of(settings));  // the result carries its settings
///
/// Settings are a JSON object with everything that determines the result.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope::cli {

struct rerun_options {
  bool resume = false, overwrite = false;
};

/// Declares --overwrite, and --resume for commands that keep finished parts of their work.
void add_overwrite(CLI::App& command, rerun_options& options);
void add_resume_and_overwrite(CLI::App& command, rerun_options& options);

/// The settings that a result carries; std::nullopt if it is no result of ours. Throws file_error if it cannot be read.
using settings_reader = std::optional<nlohmann::ordered_json> (*)(const std::filesystem::path&);
std::optional<nlohmann::ordered_json> settings_in_json(const std::filesystem::path& path);  ///< member "settings"
std::optional<nlohmann::ordered_json> settings_in_safetensors(const std::filesystem::path& path);

/// Where a command writes.
struct output_place {
  std::filesystem::path result;  ///< carries the settings, and is written last
  settings_reader settings = settings_in_json;
  std::vector<std::filesystem::path> others = {};  ///< more files that the command writes
  std::filesystem::path journal = {};              ///< see work_journal; empty: none
  nlohmann::ordered_json unit_settings = nullptr;  ///< what the journal's settings have besides the result's
  std::filesystem::path checkpoint = {};           ///< what else an unfinished run leaves; its reader checks it

  /// The settings of the journal.
  nlohmann::ordered_json journal_settings(const nlohmann::ordered_json& settings) const;
};

/// The rule above: true if nothing is left to do, which it prints on stdout unless `quiet`. Throws file_error, or
/// invalid_argument that names the setting that differs.
bool is_finished(const output_place& place, const nlohmann::ordered_json& settings, const rerun_options& options,
                 bool quiet = false);

/// Throws invalid_argument with the name of the first setting that differs.
void expect_same_settings(const std::filesystem::path& where, const nlohmann::ordered_json& there,
                          const nlohmann::ordered_json& wanted);

/// What every command's settings have: its name, the device, and the program.
nlohmann::ordered_json common_settings(const char* command, const sycl::device& device);

/// JSON as text, on one line or with `indent` spaces per level; bytes that are not UTF-8, as in paths, are replaced.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

/// Metadata of a safetensors file that holds a result.
std::map<std::string, std::string> metadata_of(const nlohmann::ordered_json& settings);

/// Results whose formats have no place for settings (tables, pictures) get a file of their own for them, which is
/// written last: "<name>.settings.json".
std::filesystem::path settings_file(const std::filesystem::path& result);
void write_settings(const std::filesystem::path& path, const nlohmann::ordered_json& settings);

/// Before the first of several files is written: makes the folder, and removes the result that carries the settings,
/// so that a run that is cut off in between does not look finished. Throws file_error.
void begin_writing(const output_place& place);

/// Makes the folder of a command's results. Throws file_error.
void make_folder(const std::filesystem::path& folder);

}  // namespace nullscope::cli
