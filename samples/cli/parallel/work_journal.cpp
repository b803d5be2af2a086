#include "parallel/work_journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <nullscope/errors.hpp>
#include <string_view>

namespace nullscope::cli {
namespace {

/// FNV-1a, 64 bits: enough to recognise an incomplete line.
std::string checksum(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return fmt::format("{:016x}", hash);
}

/// Removes the next line from the text and returns its JSON, or nothing if the line is incomplete.
std::optional<nlohmann::ordered_json> take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || end < 17) return std::nullopt;
  const std::string_view json = text.substr(17, end - 17);
  if (text.substr(0, 16) != checksum(json)) return std::nullopt;
  text.remove_prefix(end + 1);
  return nlohmann::ordered_json::parse(json);
}

}  // namespace

void expect_same_settings(const std::filesystem::path& where, const nlohmann::ordered_json& there,
                          const nlohmann::ordered_json& wanted) {
  for (const auto& [name, value] : wanted.items()) {
    const nlohmann::ordered_json old = there.value(name, nlohmann::ordered_json());
    if (old == value) continue;
    throw invalid_argument(
        fmt::format("--resume: {} was started with {} {}, not {}; use the same settings, or --overwrite to start "
                    "over",
                    where.string(), name, old.dump(), value.dump()));
  }
}

work_journal::work_journal(const std::filesystem::path& path, bool is_new)
    : path_(path), file_(path, O_RDWR | O_APPEND | (is_new ? O_CREAT : 0)) {
  if (flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
    throw file_error(fmt::format("another sweep is writing {}", path.string()));
  }
}

work_journal work_journal::begin(const std::filesystem::path& path, const nlohmann::ordered_json& settings,
                                 std::size_t units) {
  work_journal journal(path, true);
  journal.kept_.resize(units);
  if (ftruncate(journal.file_.number(), 0) != 0) throw file_error(fmt::format("cannot empty {}", path.string()));
  journal.append_line(nlohmann::ordered_json{{"settings", settings}}.dump());
  return journal;
}

std::optional<work_journal> work_journal::resume(const std::filesystem::path& path,
                                                 const nlohmann::ordered_json& settings, std::size_t units) {
  work_journal journal(path, false);
  const std::string text = read_file(path);
  std::string_view rest = text;
  const auto header = take_line(rest);
  if (!header) return std::nullopt;
  expect_same_settings(path, header->value("settings", nlohmann::ordered_json::object()), settings);
  journal.kept_.resize(units);
  while (const auto line = take_line(rest)) journal.kept_.at(line->at("unit")) = line->at("rows");
  journal.good_bytes_ = static_cast<std::int64_t>(text.size() - rest.size());
  if (ftruncate(journal.file_.number(), journal.good_bytes_) != 0) {
    throw file_error(fmt::format("cannot remove the incomplete end of {}", path.string()));
  }
  return journal;
}

void work_journal::append(std::size_t unit, const nlohmann::json& rows) {
  append_line(nlohmann::ordered_json{{"unit", unit}, {"rows", rows}}.dump());
}

void work_journal::append_line(const std::string& json) {
  const std::string line = fmt::format("{} {}\n", checksum(json), json);
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
