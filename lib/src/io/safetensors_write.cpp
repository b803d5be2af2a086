#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <nullscope/core/errors.hpp>
#include <optional>
#include <set>
#include <utility>
#include "lib/src/io/atomic_file.hpp"

#include "lib/src/io/safetensors_format.hpp"

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

void write_safetensors(const std::filesystem::path& path, const std::vector<safetensors_entry>& entries,
                       const safetensors_metadata& metadata) {
  const detail::safetensors_layout layout = detail::make_safetensors_layout(entries, metadata);
  atomic_file file(path);
  file.write(layout.head);
  for (const safetensors_entry* entry : layout.order) file.write(entry->bytes);
  file.commit();
}

}  // namespace nullscope
