#include "lib/cli/common/previous_work.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/version.hpp>
#include <nullscope/io/safetensors.hpp>
#include <system_error>

#include "lib/cli/common/files.hpp"
#include "lib/cli/parallel/work_journal.hpp"
#include "lib/src/io/atomic_file.hpp"

namespace nullscope::cli {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

CLI::Option* add_overwrite_flag(CLI::App& command, rerun_options& options) {
  return command.add_flag("--overwrite", options.overwrite,
                          "Start over, and replace what is there: results of other settings, an unfinished run");
}

std::optional<json> settings_of(const std::string& text) {
  const json all = json::parse(text, nullptr, false);
  if (!all.is_object() || !all.contains("settings") || !all["settings"].is_object()) return std::nullopt;
  return all["settings"];
}

bool is_there(const fs::path& path) {
  std::error_code ignored;  // an unreadable folder is reported when it is written to
  return !path.empty() && fs::exists(path, ignored);
}

/// The first setting that is not the same in both, as "seed 1, not 2"; empty if none.
std::string difference_of(const json& there, const json& wanted) {
  for (const auto& [name, value] : wanted.items()) {
    const json old = there.value(name, json());
    if (old != value) return fmt::format("{} {}, not {}", name, json_text(old), json_text(value));
  }
  for (const auto& [name, value] : there.items()) {
    if (!wanted.contains(name)) return fmt::format("{} {}", name, json_text(value));
  }
  return "";
}

}  // namespace

void add_overwrite(CLI::App& command, rerun_options& options) { add_overwrite_flag(command, options); }

void add_resume_and_overwrite(CLI::App& command, rerun_options& options) {
  CLI::Option* resume = command.add_flag("--resume", options.resume, "Continue an unfinished run, if there is one");
  add_overwrite_flag(command, options)->excludes(resume);
}

std::optional<json> settings_in_json(const fs::path& path) { return settings_of(read_file(path)); }

std::optional<json> settings_in_safetensors(const fs::path& path) {
  try {
    const safetensors_file file(path);
    const auto found = file.metadata().find("settings");
    if (found == file.metadata().end()) return std::nullopt;
    const json settings = json::parse(found->second, nullptr, false);
    return settings.is_object() ? std::optional(settings) : std::nullopt;
  } catch (const file_error&) {
    return std::nullopt;  // no file of ours
  }
}

void expect_same_settings(const fs::path& where, const json& there, const json& wanted) {
  // As it comes back from a file.
  const std::string difference = difference_of(there, json::parse(json_text(wanted)));
  if (difference.empty()) return;
  throw invalid_argument(fmt::format("{} was started with {}; use the same settings, or --overwrite to start over",
                                     where.string(), difference));
}

json output_place::journal_settings(const json& settings) const {
  json all = settings;
  if (unit_settings.is_object()) all.update(unit_settings);
  return all;
}

bool is_finished(const output_place& place, const json& settings, const rerun_options& options, bool quiet) {
  if (options.overwrite) return false;
  const bool has_journal =
      is_there(place.journal) && work_journal::has_work(place.journal, place.journal_settings(settings));
  if (has_journal || is_there(place.checkpoint)) {
    if (options.resume) return false;
    throw file_error(fmt::format("{} is of an unfinished run; --resume continues it, --overwrite starts over",
                                 (has_journal ? place.journal : place.checkpoint).string()));
  }
  if (is_there(place.result)) {
    const std::optional<json> theirs = place.settings(place.result);
    if (!theirs) {
      throw file_error(fmt::format("{} is not a finished result of this command; use --overwrite to replace it",
                                   place.result.string()));
    }
    expect_same_settings(place.result, *theirs, settings);
    if (!quiet) {
      fmt::print("{} is already finished, with the same settings; --overwrite computes it again\n",
                 place.result.string());
    }
    return true;
  }
  for (const fs::path& other : place.others) {
    if (!is_there(other)) continue;
    throw file_error(
        fmt::format("{} already exists, and its settings are unknown; use --overwrite to replace it", other.string()));
  }
  return false;
}

json common_settings(const char* command, const sycl::device& device) {
  const device_properties& about = properties(device);
  return {{"command", command},
          {"device", about.name},
          {"driver", about.driver},
          {"version", version()},
          {"commit", git_commit()}};
}

std::string json_text(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::map<std::string, std::string> metadata_of(const json& settings) { return {{"settings", json_text(settings)}}; }

fs::path settings_file(const fs::path& result) { return result.string() + ".settings.json"; }

void write_settings(const fs::path& path, const json& settings) {
  write_atomically(path, json_text({{"settings", settings}}) + "\n");
}

void begin_writing(const output_place& place) {
  if (place.result.has_parent_path()) make_folder(place.result.parent_path());
  std::error_code failure;
  fs::remove(place.result, failure);
  if (failure) throw file_error(fmt::format("cannot replace {}: {}", place.result.string(), failure.message()));
}

void make_folder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw file_error(fmt::format("cannot create {}: {}", folder.string(), failure.message()));
}

}  // namespace nullscope::cli
