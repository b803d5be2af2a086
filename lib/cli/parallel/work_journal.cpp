#include "lib/cli/parallel/work_journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nullscope/core/errors.hpp>
#include <optional>

namespace nullscope::cli {
namespace {

using json = nlohmann::ordered_json;

/// FNV-1a, 64 bits: enough to recognise an incomplete line.
std::string checksum_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return fmt::format("{:016x}", hash);
}

/// Removes the next line from the text and returns its JSON, or nothing if the line is incomplete or damaged.
std::optional<json> take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || end < 17) return std::nullopt;
  const std::string_view content = text.substr(17, end - 17);
  if (text.substr(0, 16) != checksum_of(content)) return std::nullopt;
  const json line = json::parse(content, nullptr, false);
  if (!line.is_object()) return std::nullopt;
  text.remove_prefix(end + 1);
  return line;
}

/// Removes the first line and checks its settings.
void take_settings(const std::filesystem::path& path, std::string_view& text, const json& wanted) {
  const std::optional<json> header = take_line(text);
  if (!header || !header->contains("settings") || !(*header)["settings"].is_object()) {
    throw file_error(fmt::format(
        "{} is damaged, or no journal of nullscope: its first line does not hold the settings of a run; use "
        "--overwrite to start over",
        path.string()));
  }
  expect_same_settings(path, (*header)["settings"], wanted);
}

/// Throws if another process writes the file. Some file systems have no locks; there nothing can be known.
void lock(int file, const std::filesystem::path& path) {
  int reason = 0;
  do {
    reason = flock(file, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  } while (reason == EINTR);
  switch (reason) {
    case 0:
    case ENOLCK:
    case ENOSYS:
    case EOPNOTSUPP:
    case EINVAL: return;
    case EWOULDBLOCK: throw file_error(fmt::format("another process is writing {}", path.string()));
    default: throw file_error(fmt::format("cannot lock {}: {}", path.string(), std::strerror(reason)));
  }
}

}  // namespace

work_journal::work_journal(const std::filesystem::path& path, int flags) : path_(path), file_(path, flags | O_RDWR) {
  lock(file_.number(), path);
}

bool work_journal::has_work(const std::filesystem::path& path, const json& settings) {
  const work_journal journal(path, 0);
  const std::string text = read_file(path);
  if (text.empty()) return false;
  std::string_view rest = text;
  take_settings(path, rest, settings);
  return true;
}

work_journal work_journal::open(const std::filesystem::path& path, const json& settings, std::size_t units,
                                const rerun_options& options) {
  work_journal journal(path, O_APPEND | O_CREAT);
  journal.kept_.resize(units);
  const std::string text = options.overwrite ? "" : read_file(path);
  if (text.empty()) {
    journal.begin(settings);
    return journal;
  }
  std::string_view rest = text;
  take_settings(path, rest, settings);
  if (!options.resume) {
    throw file_error(
        fmt::format("{} is of an unfinished run; --resume continues it, --overwrite starts over", path.string()));
  }
  journal.good_bytes_ = static_cast<std::int64_t>(text.size() - rest.size());
  journal.resume(rest);
  return journal;
}

void work_journal::begin(const json& settings) {
  if (ftruncate(file_.number(), 0) != 0) throw file_error(fmt::format("cannot empty {}", path_.string()));
  append_line(json_text({{"settings", settings}}));
}

void work_journal::resume(std::string_view text) {
  const std::size_t all = text.size();
  while (const std::optional<json> line = take_line(text)) {
    const json unit = line->value("unit", json());
    if (!unit.is_number_integer() || unit.get<std::int64_t>() < 0 || unit.get<std::uint64_t>() >= kept_.size() ||
        !line->contains("rows")) {
      throw file_error(fmt::format("{} has results of work that this run does not have; use --overwrite to start over",
                                   path_.string()));
    }
    kept_[unit.get<std::size_t>()] = line->at("rows");
  }
  good_bytes_ += static_cast<std::int64_t>(all - text.size());
  if (ftruncate(file_.number(), good_bytes_) != 0) {
    throw file_error(fmt::format("cannot remove the incomplete end of {}", path_.string()));
  }
}

void work_journal::append(std::size_t unit, const nlohmann::json& rows) {
  append_line(json{{"unit", unit}, {"rows", rows}}.dump());
}

void work_journal::append_line(const std::string& text) {
  const std::string line = fmt::format("{} {}\n", checksum_of(text), text);
  try {
    file_.write_to_disk(path_, line);
  } catch (...) {
    [[maybe_unused]] const int ignored =
        ftruncate(file_.number(), good_bytes_);  // if that fails, its checksum will reveal it
    throw;
  }
  good_bytes_ += static_cast<std::int64_t>(line.size());
}

}  // namespace nullscope::cli
