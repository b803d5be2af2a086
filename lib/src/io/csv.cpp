#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include "lib/src/io/csv.hpp"

#include "lib/src/io/byte_stream.hpp"
#include "lib/src/io/safetensors_format.hpp"

namespace nullscope {

using detail::byte_stream;

namespace {

char default_separator(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".tsv" || extension == ".tab" ? '\t' : ',';
}

}  // namespace

struct csv_reader::state {
  state(const std::filesystem::path& path, const csv_options& options)
      : stream(path),
        separator(options.separator.value_or(default_separator(path))),
        has_quotes(options.quotes.value_or(separator != '\t')),
        stops{separator, '\r', '\n', '"'} {
    if (!has_quotes) stops.pop_back();
  }

  [[noreturn]] void fail(std::int64_t at, const std::string& what) const {
    throw file_error(fmt::format("{}: line {}: {}", stream.name(), at, what));
  }

  void read_quoted_field(std::string& field);
  void read_plain_field(std::string& field);
  bool at_line_end();
  bool read_record(std::vector<std::string>& fields);

  byte_stream stream;
  char separator;
  bool has_quotes;
  std::string stops;  // what ends a run of ordinary characters in a field without quotes
  std::vector<std::string> columns;
  std::optional<std::vector<std::string>> first_record;  // of a file without a header, until it is asked for
  std::int64_t record_line = 0;
};

/// Behind the opening quote; takes the closing one.
void csv_reader::state::read_quoted_field(std::string& field) {
  const std::int64_t opened = stream.line();
  while (true) {
    stream.append_until("\"", field);
    if (stream.get() == byte_stream::end_of_file) fail(opened, "a quote is opened here and never closed");
    if (stream.peek() != '"') break;
    field.push_back(static_cast<char>(stream.get()));
  }
  const int next = stream.peek();
  if (next != separator && next != '\r' && next != '\n' && next != byte_stream::end_of_file) {
    fail(stream.line(), "a closing quote must be followed by a separator or the end of the line");
  }
}

void csv_reader::state::read_plain_field(std::string& field) {
  stream.append_until(stops, field);
  if (stream.peek() == '"' && has_quotes) {
    fail(stream.line(), "a quote inside a field that does not begin with one");
  }
}

/// Takes the end of a line, or of the file, if it is here.
bool csv_reader::state::at_line_end() {
  if (stream.peek() == '\r') {
    stream.get();
    if (stream.peek() != '\n') fail(stream.line(), "a carriage return without a line feed");
  }
  if (stream.peek() != '\n') return stream.peek() == byte_stream::end_of_file;
  stream.get();
  return true;
}

/// False at the end of the file.
bool csv_reader::state::read_record(std::vector<std::string>& fields) {
  if (columns.size() != 1) {
    while (stream.peek() == '\n' || stream.peek() == '\r') at_line_end();
  }
  if (stream.peek() == byte_stream::end_of_file) return false;
  record_line = stream.line();
  std::size_t count = 0;
  do {
    if (count == fields.size()) fields.emplace_back();
    std::string& field = fields[count++];
    field.clear();
    if (has_quotes && stream.peek() == '"') {
      stream.get();
      read_quoted_field(field);
    } else {
      read_plain_field(field);
    }
    if (at_line_end()) break;
    stream.get();  // the separator
  } while (true);
  fields.resize(count);
  if (!columns.empty() && count != columns.size()) {
    fail(record_line, fmt::format("{} fields, expected {} ({})", count, columns.size(), fmt::join(columns, ", ")));
  }
  return true;
}

csv_reader::csv_reader(const std::filesystem::path& path, const csv_options& options)
    : state_(std::make_unique<state>(path, options)) {
  std::vector<std::string> first;
  if (!state_->read_record(first)) state_->fail(1, "the file is empty");
  if (options.has_header) {
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (std::find(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(i), first[i]) !=
          first.begin() + static_cast<std::ptrdiff_t>(i)) {
        state_->fail(state_->record_line, fmt::format("two columns are called {}", detail::in_quotes(first[i])));
      }
    }
    state_->columns = std::move(first);
  } else {
    for (std::size_t i = 0; i < first.size(); ++i) state_->columns.push_back(std::to_string(i + 1));
    state_->first_record = std::move(first);
  }
}

csv_reader::~csv_reader() = default;
csv_reader::csv_reader(csv_reader&&) noexcept = default;
csv_reader& csv_reader::operator=(csv_reader&&) noexcept = default;

const std::vector<std::string>& csv_reader::columns() const { return state_->columns; }

std::size_t csv_reader::column(std::string_view name) const {
  const auto found = std::ranges::find(state_->columns, name);
  if (found != state_->columns.end()) return static_cast<std::size_t>(found - state_->columns.begin());
  throw file_error(fmt::format("{}: no column {}; the columns are: {}", state_->stream.name(), detail::in_quotes(name),
                               fmt::join(state_->columns, ", ")));
}

bool csv_reader::next(std::vector<std::string>& fields) {
  if (state_->first_record) {
    fields = *std::exchange(state_->first_record, std::nullopt);
    return true;
  }
  return state_->read_record(fields);
}

std::int64_t csv_reader::line() const { return state_->record_line; }

struct line_reader::state {
  byte_stream stream;
  std::int64_t line = 0;
};

line_reader::line_reader(const std::filesystem::path& path) : state_(new state{byte_stream(path)}) {}
line_reader::~line_reader() = default;
line_reader::line_reader(line_reader&&) noexcept = default;
line_reader& line_reader::operator=(line_reader&&) noexcept = default;

bool line_reader::next(std::string& text) {
  byte_stream& stream = state_->stream;
  if (stream.peek() == byte_stream::end_of_file) return false;
  text.clear();
  state_->line = stream.line();
  stream.append_until("\n", text);
  const bool has_end = stream.get() == '\n';
  if (has_end && text.ends_with('\r')) text.pop_back();
  return true;
}

std::int64_t line_reader::line() const { return state_->line; }

}  // namespace nullscope
