#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <nullscope/errors.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "safetensors_format.hpp"

namespace nullscope {

namespace detail {

namespace {

[[noreturn]] void refuse(const safetensors_entry& entry, const std::string& why) {
  throw invalid_argument(fmt::format("write_safetensors: tensor {} {}", in_quotes(entry.name), why));
}

void check_entries(const std::vector<safetensors_entry>& entries) {
  std::set<std::string_view> names;
  for (const safetensors_entry& entry : entries) {
    if (entry.name == safetensors_metadata_key) refuse(entry, "has a name that the format reserves");
    if (!names.insert(entry.name).second) refuse(entry, "is given twice");
    const std::optional<std::int64_t> bytes = byte_count(entry.shape, entry.type);
    if (!bytes || std::cmp_not_equal(*bytes, entry.bytes.size())) {
      refuse(entry, fmt::format("is {} {}, which does not fit its {} bytes", to_string(entry.type), entry.shape,
                                entry.bytes.size()));
    }
  }
}

std::string json_text(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw invalid_argument(fmt::format("write_safetensors: the text {} is not UTF-8", in_quotes(text)));
  }
}

}  // namespace

safetensors_layout make_safetensors_layout(const std::vector<safetensors_entry>& entries,
                                           const safetensors_metadata& metadata) {
  check_entries(entries);
  safetensors_layout layout;
  for (const safetensors_entry& entry : entries) layout.order.push_back(&entry);
  std::ranges::stable_sort(layout.order, std::ranges::greater{},
                           [](const safetensors_entry* entry) { return bits_of(entry->type); });
  std::vector<std::size_t> begins(entries.size());
  std::size_t end = 0;
  for (const safetensors_entry* entry : layout.order) {
    begins[static_cast<std::size_t>(entry - entries.data())] = end;
    end += entry->bytes.size();
  }

  std::vector<std::string> members;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, text] : metadata) pairs.push_back(json_text(key) + ":" + json_text(text));
    members.push_back(fmt::format("\"{}\":{{{}}}", safetensors_metadata_key, fmt::join(pairs, ",")));
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const safetensors_entry& entry = entries[i];
    members.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json_text(entry.name),
                                  to_string(entry.type), fmt::join(entry.shape, ","), begins[i],
                                  begins[i] + entry.bytes.size()));
  }
  std::string header = fmt::format("{{{}}}", fmt::join(members, ","));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > safetensors_header_limit) {
    throw invalid_argument(fmt::format("write_safetensors: the header needs {} bytes, over the limit of {}",
                                       header.size(), safetensors_header_limit));
  }
  const std::uint64_t length = header.size();
  layout.head.resize(sizeof(length));
  std::memcpy(layout.head.data(), &length, sizeof(length));
  layout.head += header;
  return layout;
}

}  // namespace detail

namespace {

/// A new file in the folder of the target, which it replaces when all is written; removed if that does not happen.
class replacement_file {
 public:
  replacement_file(const std::filesystem::path& path_in_messages, std::filesystem::path target)
      : path_in_messages_(path_in_messages), target_(std::move(target)) {
    static std::atomic<unsigned> count = 0;
    struct stat before;
    if (::stat(target_.c_str(), &before) == 0) permissions_ = before.st_mode & 0777;
    do {
      const std::string name = fmt::format(".nullscope-{}-{}.partial", ::getpid(), ++count);
      path_ = target_.parent_path() / name;
      descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permissions_ ? 0600 : 0666);
    } while (descriptor_ < 0 && errno == EEXIST);
    if (descriptor_ < 0) fail();
  }

  replacement_file(const replacement_file&) = delete;
  replacement_file& operator=(const replacement_file&) = delete;

  ~replacement_file() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) fail();
      if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  /// The target's permissions stay as they were; nobody else can read what is written before.
  void replace_target() {
    if (permissions_ && ::fchmod(descriptor_, *permissions_) != 0) fail();
    if (::fsync(descriptor_) != 0) fail();
    if (::close(std::exchange(descriptor_, -1)) != 0) fail();
    if (::rename(path_.c_str(), target_.c_str()) != 0) fail();
    path_.clear();
  }

 private:
  [[noreturn]] void fail() const {
    const int reason = errno;
    throw file_error(
        fmt::format("cannot write {}: {}", path_in_messages_.string(), std::generic_category().message(reason)));
  }

  const std::filesystem::path& path_in_messages_;
  std::filesystem::path target_, path_;
  std::optional<mode_t> permissions_;  // of the file that is replaced
  int descriptor_ = -1;
};

/// The file that a link leads to, so that the link stays. Throws if there is something that is not a regular file:
/// renaming over a device would replace it.
std::filesystem::path resolved_target(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::path target = path;
  constexpr int most_links = 40;  // as many as the system follows
  for (int links = 0; links < most_links && std::filesystem::is_symlink(target, failure); ++links) {
    target = target.parent_path() / std::filesystem::read_symlink(target, failure);
  }
  if (std::filesystem::is_symlink(target, failure)) {
    throw file_error(fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(ELOOP)));
  }
  const std::filesystem::file_status status = std::filesystem::status(target, failure);
  if (std::filesystem::is_directory(status)) {
    throw file_error(fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(EISDIR)));
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw file_error(fmt::format("cannot write {}: not a regular file", path.string()));
  }
  return target;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<safetensors_entry>& entries,
                       const safetensors_metadata& metadata) {
  const detail::safetensors_layout layout = detail::make_safetensors_layout(entries, metadata);
  replacement_file file(path, resolved_target(path));
  file.write(std::as_bytes(std::span(layout.head)));
  for (const safetensors_entry* entry : layout.order) file.write(entry->bytes);
  file.replace_target();
}

}  // namespace nullscope
