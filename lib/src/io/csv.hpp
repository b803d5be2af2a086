/// Readers of text files with many texts: comma- or tab-separated tables, and one text per line. They stream: memory
/// grows with the longest record, not with the file. Host code that needs no SYCL.
///
///   csv_reader table("reviews.csv");
///   const std::size_t text = table.column("text"), label = table.column("label");
///   std::vector<std::string> fields;
///   while (table.next(fields)) use(fields[text], fields[label]);
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope {

struct csv_options {
  /// Default: a tab for .tsv and .tab, otherwise a comma.
  std::optional<char> separator = std::nullopt;

  /// Whether fields may stand in double quotes (RFC 4180). Default: if the separator is not a tab. In tab-separated
  /// files a quote is usually a character like any other.
  std::optional<bool> quotes = std::nullopt;

  /// Whether the first record names the columns. Otherwise they are called "1", "2", and so on.
  bool has_header = true;
};

/// Reads a table strictly, as RFC 4180 says: a field in quotes may hold separators, line breaks and doubled quotes, and
/// every record has as many fields as the first. Lines end with LF or CRLF, the last one may be open, and a UTF-8 mark
/// at the beginning is skipped. Empty lines are skipped if there are several columns. Bytes that are not UTF-8 are
/// passed on.
///
/// Every error is a file_error that names the file and the line: cannot be read, an empty file, UTF-16, a quote inside
/// a field without quotes or behind a closing one, a quote that is never closed, a carriage return by itself, a record
/// with too few or too many fields, two columns of one name. A reader cannot be used after an error.
class csv_reader {
 public:
  explicit csv_reader(const std::filesystem::path& path, const csv_options& options = {});
  ~csv_reader();
  csv_reader(csv_reader&&) noexcept;
  csv_reader& operator=(csv_reader&&) noexcept;

  const std::vector<std::string>& columns() const;

  /// The place of a column. Throws file_error with the names that there are.
  std::size_t column(std::string_view name) const;

  /// Reads the next record into `fields`, one for each column; false at the end of the file.
  bool next(std::vector<std::string>& fields);

  /// The line, counted from 1, where the record begins that was read last.
  std::int64_t line() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Reads a file with one text per line. Lines end with LF or CRLF, and a UTF-8 mark at the beginning is skipped; the
/// texts come without them. An empty line is an empty text. Throws file_error if the file cannot be read or is UTF-16.
class line_reader {
 public:
  explicit line_reader(const std::filesystem::path& path);
  ~line_reader();
  line_reader(line_reader&&) noexcept;
  line_reader& operator=(line_reader&&) noexcept;

  /// False at the end of the file.
  bool next(std::string& text);

  /// The line, counted from 1, that was read last.
  std::int64_t line() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace nullscope
